"""Batched Fourier transforms: the problem, the arithmetic, and the families that solve it."""

from warpsmith.generator.fft.problem import Fft, Kind, Layout, Norm, Order

__all__ = ["Fft", "Kind", "Layout", "Norm", "Order"]
