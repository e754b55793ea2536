"""Convolution layers: the problem, and the families that solve it."""

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.words import ImageLayout, Pass, Precision
from warpsmith.generator.padding import PaddingMode

__all__ = ["Conv2d", "ImageLayout", "PaddingMode", "Pass", "Precision"]
