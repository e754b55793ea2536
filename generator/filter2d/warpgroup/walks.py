"""Walks of `filter2d_warpgroup`'s warpgroups down their strips: the heights of strips, and the likeliest walk."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.text import Weights
from warpsmith.generator.filter2d.warpgroup.frame import frames, warps_wave
from warpsmith.generator.filter2d.warpgroup.warpgroup_geometry import COLUMNS, WARP_COLUMNS, Frame, batches, part_rows
from warpsmith.generator.filter2d.warpgroup.warpgroup_limits import thread_registers
from warpsmith.generator.filter2d.window.walks import wave
from warpsmith.generator.problem import DType

STRIPS = (8, 16, 32, 64, 128, 256)
"""Rows of a strip, whatever the image."""
RESIDENT = range(1, 9)
"""Warpgroups that an SM may hold at once, for strips that make a single wave."""
AHEAD_RESIDENT = 3
"""Warpgroups that keep an SM busy, each with products of two rows in flight."""
SEPARABLE_RESIDENT = 2
"""Warpgroups that keep an SM busy with the few products of a separable filter: a known Gaussian 15x15 takes 193 us,
with three 204 (H200)."""
AHEAD_REGISTERS = 180
"""Most registers of a thread for which products of two rows in flight pay: 11x11, whatever the type."""
AHEAD_REGISTERS_FLOAT32 = 232
"""The same for float32 images, whose third product keeps two warpgroups busy: up to 13x13. 15x15 spills."""
AHEAD_RATE = 1.1
"""Speedup of products of two rows in flight over one row: 1.05 (9x9) to 1.14 (11x11) in single waves (H200)."""
BUSY = {Frame.APART: 0.8, Frame.LOADS: 0.2}
"""Exponent of the rate of an SM as a power of its occupied share of warpgroup slots. Blocks that fill two slots of
three leave some SMs with three warpgroups and some with one: 15x15 on 9216x9216 reaches 0.70 of the rate, 13x13 on
2000x3000 0.75. Half of the slots give 0.53 (21x21). If loads make the border, each warp has its own strip: two slots of
three give 1.04, one 0.78 (15x15 on 2000x3000 and 777x1555, H200)."""


class Walk(NamedTuple):
    """Height of strips, and the warpgroups that walk down them."""

    ahead: int
    """Rows whose products are in flight while those of another row are added."""
    resident: int
    """Warpgroups per SM."""
    rows: int
    """Rows of a strip."""


def strips(problem: Filter2d, device: Device) -> tuple[int, ...]:
    """STRIPS, and the heights that make as many warpgroups as the device holds at once."""
    waves = {wave_rows(problem, device, resident, frame) for resident in RESIDENT for frame in frames(problem)}
    return tuple(sorted({*STRIPS, *waves}))


def wave_rows(problem: Filter2d, device: Device, resident: int, frame: Frame) -> int:
    """Rows of a strip with about `resident` warpgroups per SM, in a single wave."""
    if frame is Frame.LOADS:
        return warps_wave(problem, device, resident)
    return max(STRIPS[0], wave(problem, device, COLUMNS, resident))


def likely_walk(problem: Filter2d, device: Device, weights: Weights, frame: Frame, parts: int) -> Walk:
    """The fastest walk, by estimate: few warpgroups with long strips read few rows twice, many keep the SM busier.

    On a tie, fewer rows in flight win, then fewer warpgroups.
    """
    ways = []
    for ahead in (0, 1):
        registers = thread_registers(problem, weights, ahead, frame, parts)
        limit = AHEAD_REGISTERS_FLOAT32 if problem.dtype is DType.FLOAT32 else AHEAD_REGISTERS
        if ahead and (registers > limit or batches(problem, weights) > 1):
            continue
        places = device.registers_per_multiprocessor // 128 // registers  # a warpgroup has 128 threads
        most = RESIDENT[-1] if not ahead else SEPARABLE_RESIDENT if weights is Weights.LITERAL else AHEAD_RESIDENT
        places = max(1, min(places, most))
        for resident in range(1, places + 1):
            rows = wave_rows(problem, device, resident, frame)
            rate = (resident / places) ** BUSY[frame] * (AHEAD_RATE if ahead else 1.0)
            walked = rows + part_rows(problem, parts) - 1
            waves = ceil(_warpgroups(problem, rows, frame) / (resident * device.multiprocessors))
            ways.append((waves * resident * walked / rate, Walk(ahead, resident, rows)))
    return min(ways, key=lambda way: way[0])[1]


def _warpgroups(problem: Filter2d, rows: int, frame: Frame) -> float:
    """Warpgroups of all planes with strips of `rows` rows; with Frame.LOADS a warp counts as a quarter."""
    columns = problem.output_shape[1] * problem.channels
    down = ceil(problem.output_shape[0] / rows) * problem.planes
    if frame is Frame.LOADS:
        return ceil(columns / WARP_COLUMNS) * down / 4
    return ceil(columns / COLUMNS) * down
