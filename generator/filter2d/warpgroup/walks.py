"""How warpgroups of `filter2d_warpgroup` walk down their strips: the heights of strips, and the likeliest walk."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.filter2d.text import Weights
from warpsmith.generator.filter2d.warpgroup.frame import frames, warps_wave
from warpsmith.generator.filter2d.warpgroup.geometry import COLUMNS, WARP_COLUMNS, Frame, batches, part_rows
from warpsmith.generator.filter2d.warpgroup.limits import thread_registers
from warpsmith.generator.filter2d.window.walks import wave
from warpsmith.generator.problem import DType

STRIPS = (8, 16, 32, 64, 128, 256)
"""Rows of a strip, whatever the image."""
RESIDENT = range(1, 9)
"""Warpgroups that a multiprocessor may hold at once, for strips that make a single wave."""
AHEAD_RESIDENT = 3
"""Warpgroups that keep a multiprocessor busy, each with products of two rows under way."""
SEPARABLE_RESIDENT = 2
"""And where those are few, as for a known Gaussian 15x15: 193 us, with three 204 (H200)."""
AHEAD_REGISTERS = 180
"""Of a thread, up to which products of two rows are worth theirs: 11x11, whatever the type."""
AHEAD_REGISTERS_FLOAT32 = 232
"""And of float32 images, whose third product keeps two warpgroups busy: up to 13x13. 15x15 spills."""
AHEAD_RATE = 1.1
"""Rows a second that products of two rows make for one: 1.05 (9x9) to 1.14 (11x11) in single waves (H200)."""
BUSY = {Frame.APART: 0.8, Frame.LOADS: 0.2}
"""The rate of a multiprocessor grows as this power of the share of its places that are taken. Blocks that fill two
places of three leave some multiprocessors with three and some with one, so that 15x15 on 9216x9216 comes to 0.70 of
the rate, 13x13 on 2000x3000 to 0.75; half of the places, to 0.53 (21x21). Where loads make the border, each warp has a
strip of its own: two places of three come to 1.04, one to 0.78 (15x15 on 2000x3000 and 777x1555, H200)."""


class Walk(NamedTuple):
    """Strips, and who walks down them."""

    ahead: int
    """Rows whose products are under way while others are added."""
    resident: int
    """Warpgroups of a multiprocessor."""
    rows: int
    """Of a strip."""


def strips(problem: Filter2d, device: Device) -> tuple[int, ...]:
    """STRIPS, and those that make as many warpgroups as the device holds at once."""
    waves = {wave_rows(problem, device, resident, frame) for resident in RESIDENT for frame in frames(problem)}
    return tuple(sorted({*STRIPS, *waves}))


def wave_rows(problem: Filter2d, device: Device, resident: int, frame: Frame) -> int:
    """Rows of a strip that make about `resident` warpgroups a multiprocessor, in a single wave."""
    if frame is Frame.LOADS:
        return warps_wave(problem, device, resident)
    return max(STRIPS[0], wave(problem, device, COLUMNS, resident))


def likely_walk(problem: Filter2d, device: Device, weights: Weights, frame: Frame, parts: int) -> Walk:
    """The one that takes least, by estimate: few warpgroups with long strips read few rows twice, many are busier.

    Equal ones are taken in the order of fewer rows of products, then of fewer warpgroups.
    """
    ways = []
    for ahead in (0, 1):
        registers = thread_registers(problem, weights, ahead, frame, parts)
        limit = AHEAD_REGISTERS_FLOAT32 if problem.dtype is DType.FLOAT32 else AHEAD_REGISTERS
        if ahead and (registers > limit or batches(problem, weights) > 1):
            continue
        places = device.registers_per_multiprocessor // 128 // registers  # for one thread of each warpgroup
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
    """Of strips of so many rows, those of all planes."""
    columns = problem.output_shape[1] * problem.channels
    down = ceil(problem.output_shape[0] / rows) * problem.planes
    if frame is Frame.LOADS:
        return ceil(columns / WARP_COLUMNS) * down / 4
    return ceil(columns / COLUMNS) * down
