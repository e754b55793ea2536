"""Walks of `filter2d_warpgroup` down its strips, and the time that the likeliest takes."""

from __future__ import annotations

from math import ceil, prod
from typing import NamedTuple

from warpsmith.generator.device import Device
from warpsmith.generator.filter2d.problem import Filter2d, outside, rows_inside
from warpsmith.generator.filter2d.text import Weights
from warpsmith.generator.filter2d.warpgroup_frames import frames, likely_frame
from warpsmith.generator.filter2d.warpgroup_geometry import (
    COLUMNS,
    STEP,
    WARP_COLUMNS,
    Frame,
    batches,
    depth,
    fits,
    least_registers,
    matrix_rows,
    part_rows,
    parts_choices,
    thread_registers,
    weights_choices,
)
from warpsmith.generator.filter2d.window_shapes import copy_ns
from warpsmith.generator.filter2d.window_walks import wave
from warpsmith.generator.problem import DType

START_ROWS = 16
"""Rows that a warpgroup could walk while it splits the weights and waits for its first rows."""
MAX_WAVES = 8
"""Most waves of blocks, for images whose strips of full height already make more than one."""
LEAST_WALK = 8
"""Least rows of a strip; a filter of 9 rows then loads twice what it computes."""


def warps_wave(problem: Filter2d, device: Device, resident: int) -> int:
    """Rows of a strip of WARP_COLUMNS with which the warps of all planes walk the fewest rows one after the other, at
    `resident` warpgroups per SM.
    """
    rows, resident_warps = problem.output_shape[0], 4 * resident * device.multiprocessors
    across = ceil(problem.output_shape[1] * problem.channels / WARP_COLUMNS) * problem.planes
    most = max(1, rows // LEAST_WALK)
    choices = {min(most, max(1, waves * resident_warps // across)) for waves in range(1, MAX_WAVES + 1)}
    walked = {
        strips: ceil(across * strips / resident_warps) * (ceil(rows / strips) + problem.filter[0] - 1 + START_ROWS)
        for strips in sorted(choices)
    }
    return ceil(rows / min(walked, key=walked.__getitem__))


STRIPS = (8, 16, 32, 64, 128, 256)
"""Rows of a strip, whatever the image."""
RESIDENT = range(1, 9)
"""Warpgroups that an SM may hold at once, for strips that make a single wave."""
AHEAD_RESIDENT = 3
"""Warpgroups that keep an SM busy, each with products of two rows in flight."""
SEPARABLE_RESIDENT = 2
"""Warpgroups that keep an SM busy with the few products of a separable filter: a known Gaussian 15x15 takes 193 us,
with three 204 (H200)."""
LOADS_RESIDENT = 2
"""Warpgroups that keep an SM busy if loads make the border: 7x13 on 2757x2888 takes 31 us with two and 45 with three,
11x11 43 and 48 (H200)."""
AHEAD_REGISTERS = 240
"""Most registers of a thread for which products of two rows in flight pay: 14x15 takes 49 us with them, 54 without;
15x15 spills (H200)."""
RATES = {0: (1.0, 1.72, 2.1, 2.15), 1: (1.25, 2.2, 2.3)}
"""Rows per time of an SM with one warpgroup, two and so on, by the rows in flight; more have the last rate. Fitted to
150 walks of 17 filters, such as 41x31 on 2493x3352 in 697, 481 and 440 us, 16x6 with bytes in 33 and 28 us, and in 32
and 24 with two rows in flight (H200, 2026-11-30)."""
LOADS_RATE, LOADS_AHEAD_RATE = 0.2, 1.1
"""If loads make the border, each warp has its own strip. Rate as a power of the share of warpgroup slots in use: two of
three give 1.04 times the rate, one 0.78 (15x15 on 2000x3000 and 777x1555). And rate with products of two rows in
flight: 1.05 (9x9) to 1.14 (11x11) in single waves (H200)."""


class WarpgroupWalk(NamedTuple):
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


def likely_walk(problem: Filter2d, device: Device, weights: Weights, frame: Frame, parts: int) -> WarpgroupWalk:
    """The fastest walk, by estimate: few warpgroups with long strips read few rows twice, many keep the SM busier.

    On a tie, fewer rows in flight win, then fewer warpgroups.
    """
    ways = []
    for ahead in (0, 1):
        places = _places(problem, device, weights, frame, parts, ahead)
        for resident in range(1, places + 1):
            rows = wave_rows(problem, device, resident, frame)
            if frame is Frame.LOADS:
                rate = (resident / places) ** LOADS_RATE * (LOADS_AHEAD_RATE if ahead else 1.0)
            else:
                rate = rate_of(ahead, resident)
            walked = rows + part_rows(problem, parts) - 1
            waves = ceil(_warpgroups(problem, rows, frame) / (resident * device.multiprocessors))
            ways.append((waves * resident * walked / rate, WarpgroupWalk(ahead, resident, rows)))
    return min(ways, key=lambda way: way[0])[1]


def rate_of(ahead: int, resident: int) -> float:
    """Rows per time of an SM with `resident` warpgroups, relative to one without rows in flight."""
    return RATES[ahead][min(resident, len(RATES[ahead])) - 1]


def _places(problem: Filter2d, device: Device, weights: Weights, frame: Frame, parts: int, ahead: int) -> int:
    """Warpgroups that an SM has registers for and use of; 0 if products of that many rows in flight do not pay."""
    if ahead and (
        batches(problem, weights) > 1 or thread_registers(problem, weights, 1, frame, parts) > AHEAD_REGISTERS
    ):
        return 0
    most = AHEAD_RESIDENT if ahead else RESIDENT[-1]
    if frame is Frame.LOADS:
        most = LOADS_RESIDENT
    elif ahead and weights is Weights.LITERAL:
        most = SEPARABLE_RESIDENT
    needed = least_registers(problem, weights, ahead, frame, parts)
    return sum(device.thread_registers(128 * resident) >= needed for resident in range(1, most + 1)) or 1 - ahead


def _warpgroups(problem: Filter2d, rows: int, frame: Frame) -> float:
    """Warpgroups of all planes with strips of `rows` rows; with Frame.LOADS a warp counts as a quarter."""
    columns = problem.output_shape[1] * problem.channels
    down = ceil(problem.output_shape[0] / rows) * problem.planes
    if frame is Frame.LOADS:
        return ceil(columns / WARP_COLUMNS) * down / 4
    return ceil(columns / COLUMNS) * down


ROW_NS = {DType.FLOAT32: (6.4, 22.6, 11.1), DType.FLOAT16: (4.2, 19.0, 6.6), DType.UINT8: (4.2, 19.0, 6.6)}
"""Nanoseconds of an SM with one warpgroup for a row, if n instructions sum over its pixels: the first figure times n
and the second for each filter row of a part, and the third times n^2 beside them (fitted to 562 configs of 109 filters,
H200, 2026-11-30: within 0.15 in the root mean square; the faster family is expected to be for 101 of them)."""
LEAST_COPIES = 1.47
"""Time of a filter of few taps over that of a copy (the same fit)."""
FRAME_TAP_NS = 4.9e-4
"""Nanoseconds of a tap of an output of the frame (the same fit)."""


def warpgroup_ns(problem: Filter2d, device: Device) -> float:
    """Nanoseconds that the products and the frame of the default take."""
    weights = likely_weights(problem, device)
    parts, frame = least_parts(problem, device, weights), likely_frame(problem)
    walk, each = likely_walk(problem, device, weights, frame, parts), part_rows(problem, parts)
    waves = ceil(_warpgroups(problem, walk.rows, frame) / (walk.resident * device.multiprocessors))
    steps, (by_step, by_row, beside) = depth(problem) // STEP, ROW_NS[problem.dtype]
    rows = matrix_rows(problem, weights, parts) * batches(problem, weights)
    row_ns = (rows * (by_step * steps + by_row) + beside * steps**2) / rate_of(walk.ahead, walk.resident)
    products_ns = waves * walk.resident * parts * (walk.rows + each - 1) * row_ns
    apart = outside(problem, rows_inside(problem, 1, 1)[1], problem.output_shape[1] * problem.channels - depth(problem))
    frame_ns = 0.0 if frame is Frame.LOADS else apart * prod(problem.filter) * FRAME_TAP_NS
    return max(device.rates.cycle_ratio * (products_ns + frame_ns), LEAST_COPIES * copy_ns(problem, device))


def likely_weights(problem: Filter2d, device: Device) -> Weights:
    """Weights in the code if that is possible, else the first choice."""
    choices = weights_choices(problem, device)
    return Weights.LITERAL if Weights.LITERAL in choices else choices[0]


def least_parts(problem: Filter2d, device: Device, weights: Weights) -> int:
    """The fewest parts of the filter that fit the registers and shared memory."""
    return next(each for each in parts_choices(problem, device) if fits(problem, device, weights, each))
