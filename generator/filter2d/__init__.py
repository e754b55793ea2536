"""Image filters: the problem and the families that solve it."""

from warpsmith.generator.filter2d.border import Border
from warpsmith.generator.filter2d.problem import Filter2d

__all__ = ["Border", "Filter2d"]
