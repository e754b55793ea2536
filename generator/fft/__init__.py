"""Batched Fourier transforms: the problem, the arithmetic, and the families that solve it."""

from warpsmith.generator.fft.problem import Fft, Kind, Layout, Norm, Order
from warpsmith.generator.fft.product import Product
from warpsmith.generator.fft.signals import Tiling

__all__ = ["Fft", "Kind", "Layout", "Norm", "Order", "Product", "Tiling"]
