"""Image filters: the problem and the families that solve it."""

from warpsmith.generator.filter2d.problem import Border, Filter2d

__all__ = ["Border", "Filter2d"]
