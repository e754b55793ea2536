"""Expected time of `conv2d_direct`'s default, from the layer's sizes alone; other models are compared with it.

Threads wait for the loads of their loop, one round after the other. Threads of an SM hide each other's waits until
CROWD of them share it; more of them take turns. Without this, layers of few blocks were expected to reach the rate of
large ones: one of 512 channels on 7x7 to take 15 us instead of 805 (H200). Moving the layer's bytes hides a part of
that, or is hidden by it.

Of 107 layer passes of networks (H200, 2026-11-28) the default took 0.5 to 3.2 times what is expected, 1.2 in the
median and 0.8 to 1.7 in eight of ten. That is enough to tell it from families that take a tenth of its time.
"""

from __future__ import annotations

import math

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout, Pass
from warpsmith.generator.device import REFERENCE, Device, DeviceKind
from warpsmith.generator.family import Family

LOAD_CYCLES = 150
"""Clock cycles of one load of a pixel in the loop over channels."""
RUN_CYCLES = 1000
"""Clock cycles of one run of positions in the loop of a gradient of weights: its loads are in flight together."""
CROWD = {ImageLayout.NCHW: 400, ImageLayout.NHWC: 160}
"""Threads of an SM that hide each other's waits, by the layout of images: loads of NHWC are spread over more
sectors.
"""
PIXELS, FILTERS = 4, 8
"""Results of a thread: pixels, and channels, at most."""
WEIGHT_SUMS, WEIGHT_SIDE, WEIGHT_THREADS = 40, 4, 256
"""Sums of a thread for a gradient of weights, their filters or channels at most, and threads that share a weight."""

FEW_CHANNELS, FEW_SLOWER = (2, 3), 1.7
"""Channels of images whose layers take that many times as long in fprop: 3x3 taps on 112x112 to 512x512 take 1.4 to 2.2
times what was expected without it (six layers of 32 and 64 filters, H200, 2026-11-30)."""
MEMORY_SHARE = 3900 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that a layer's operands reach together (measured, H200)."""
SECTOR, SECTOR_SHARE = 32, 1880 / REFERENCE.l2_bytes_per_ns
"""Bytes of L2 that a result takes with channels last, where the results of a warp's store lie in different sectors, and
the share of the L2 rate that they reach (1,708 us for 101 million results and 326 us for 19 million, H200, 2026-11-30).
"""
NOT_HIDDEN = 0.3
"""Share of the shorter one of summing and moving that the longer one does not hide, as in `conv2d_pointwise`."""


def direct_ns(problem: Conv2d, device: Device) -> float:
    """Nanoseconds that sums over taps are expected to take."""
    cycles, threads = _weights(problem) if problem.pass_.sums_images else _images(problem)
    rates, crowds = device.rates, threads / (device.multiprocessors * CROWD[problem.layout])
    waiting_ns = rates.cycles_ns(cycles * max(1.0, crowds))
    summing_ns = max(waiting_ns, problem.flops / (2 * rates.multiply_adds_per_ns))
    moving_ns = problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns)
    if problem.layout is ImageLayout.NHWC and not problem.pass_.sums_images:
        storing_ns = SECTOR * problem.output.size / (SECTOR_SHARE * rates.l2_bytes_per_ns)
        moving_ns = max(moving_ns, storing_ns)
    has_taps = math.prod(problem.weight[2:]) > 1
    if problem.pass_ is Pass.FPROP and problem.input[1] in FEW_CHANNELS and has_taps:
        summing_ns *= FEW_SLOWER
    return rates.launch_ns + max(summing_ns, moving_ns) + NOT_HIDDEN * min(summing_ns, moving_ns)


def is_expected_before_direct(family: Family[Conv2d], problem: Conv2d, device: Device) -> bool:
    """Whether a family is expected to take less time on a GPU than `conv2d_direct` does."""
    if device.kind is not DeviceKind.CUDA:
        return False
    expected_ns = family.expected_ns(problem, device)
    return expected_ns is not None and expected_ns < direct_ns(problem, device)


def _images(problem: Conv2d) -> tuple[float, float]:
    """Clock cycles of a thread of fprop or dgrad, and the number of threads."""
    rows, columns = problem.weight[2:]
    if problem.pass_ is Pass.FPROP:
        summed, results, plane = problem.group_channels, problem.group_filters, math.prod(problem.output_size)
        apart = float(problem.stride[1])
    else:
        summed, results, plane = problem.group_filters, problem.group_channels, math.prod(problem.input[2:])
        apart = 1.0 / problem.stride[1]  # a phase of the stride has a part of the taps
    pixels = min(PIXELS, plane)
    loads = summed * (pixels - 1 + rows) * columns * apart
    return loads * LOAD_CYCLES, problem.output.size / (pixels * min(results, FILTERS))


def _weights(problem: Conv2d) -> tuple[float, float]:
    """Clock cycles of a thread of wgrad, and the number of threads."""
    columns, taps = problem.weight[3], math.prod(problem.weight[2:])
    filters = min(WEIGHT_SIDE, problem.group_filters, max(WEIGHT_SUMS // taps, 1))
    channels = min(WEIGHT_SIDE, problem.group_channels, max(WEIGHT_SUMS // (taps * filters), 1))
    sums = filters * channels * taps if taps <= WEIGHT_SUMS else columns
    runs = math.ceil(problem.input[0] * math.prod(problem.output_size) / WEIGHT_THREADS)
    return float(runs * RUN_CYCLES), problem.output.size / sums * WEIGHT_THREADS
