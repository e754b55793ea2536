"""Convolution layers: the problem, and the families that solve it."""

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.words import ImageLayout, Pass, Precision

__all__ = ["Conv2d", "ImageLayout", "Pass", "Precision"]
