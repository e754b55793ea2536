"""Least work of layers that sum over taps, and their expected time."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.padding import PaddingMode

_DIRECT_SHARE = 7500 / REFERENCE.multiply_adds_per_ns
"""Share of the float32 multiply-adds that sums over taps reach (measured, H200: `conv2d_direct` did 9500 per ns on
layer L2 and 5500 on a 3x3 layer of 64 channels)."""


def direct_ns(problem: Conv2d, device: Device) -> float:
    """Nanoseconds that sums over taps are expected to take."""
    return problem.flops / (2 * _DIRECT_SHARE * device.rates.multiply_adds_per_ns)


def multiply_adds(problem: Conv2d) -> int:
    """Multiply-adds of a pixel and a weight, without those in zero padding; each pass has the same number."""
    rows, columns = (_meetings(problem, axis) for axis in (0, 1))
    return problem.input[0] * problem.weight[0] * problem.group_channels * rows * columns


def _meetings(problem: Conv2d, axis: int) -> int:
    """Counts (output, tap) pairs along one axis whose input pixel exists or is repeated padding."""
    size, taps = problem.input[2 + axis], problem.weight[2 + axis]
    if problem.padding_mode is not PaddingMode.ZEROS:
        return problem.output_size[axis] * taps
    stride, dilation, before = problem.stride[axis], problem.dilation[axis], problem.padding[axis][0]
    found = 0
    for tap in range(taps):
        first = before - tap * dilation  # first output, in steps of the stride
        least, past = max(0, -(-first // stride)), (first + size - 1) // stride + 1
        found += max(0, min(past, problem.output_size[axis]) - least)
    return found
