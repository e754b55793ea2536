"""Convolution layers: the problem, and the families that solve it."""

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.precision import Precision
from warpsmith.generator.padding import PaddingMode

__all__ = ["Conv2d", "ImageLayout", "PaddingMode", "Pass", "Precision"]
