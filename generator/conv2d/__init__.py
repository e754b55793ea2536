"""Convolution layers: the problem, and the families that solve it."""

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.precision import Precision

__all__ = ["Conv2d", "ImageLayout", "PaddingMode", "Pass", "Precision"]
