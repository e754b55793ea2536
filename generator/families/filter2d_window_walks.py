"""How a thread of `filter2d_window` walks down: the walks of its space, and the likeliest to start a search with."""

from __future__ import annotations

import math
from itertools import product
from math import ceil
from typing import NamedTuple

from warpsmith.generator.device import Device
from warpsmith.generator.families.filter2d_window_geometry import Method, Order
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.separable import separable_terms

WALKS = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 88, 105, 128, 144, 176, 210, 256)
"""Rows of a strip, whatever the image."""
LONG_WALK = 64
"""Rows from which on a few more or less decide how full the last wave of blocks is."""


def methods(problem: Filter2d) -> list[Method]:
    """The ways to apply the problem's filters."""
    possible = [Method.DIRECT]
    if separable_terms(problem):
        possible.append(Method.SEPARABLE)
    # Two taps a row or more are worth pairs; elements of one channel are no neighbours where there are several.
    if problem.accuracy is Accuracy.NORMWISE and problem.channels == 1 and problem.filter[1] > 1:
        possible.append(Method.WINOGRAD)
    return possible


def walks(problem: Filter2d, device: Device) -> tuple[int, ...]:
    """WALKS, and those that make as many warps as the device holds at once: of a single wave none waits for another."""
    rows, columns = problem.output_shape[0], problem.output_shape[1] * problem.channels
    waves: set[int] = set()
    for width, warps in product((2, 4, 8), (8, 12, 16, 20, 24, 28, 32)):
        across = ceil(columns / (32 * width)) * problem.planes
        if strips := warps * device.multiprocessors // across:
            least = ceil(rows / strips)
            waves |= {ceil(least / unroll) * unroll for unroll in (2, 3, 4)}
    return tuple(sorted({*WALKS, *(walk for walk in waves if LONG_WALK <= walk < rows)}))


def likely_method(problem: Filter2d) -> Method:
    """Pairs save more than their additions cost from 12 rows on, in literals (which have no reads) from 8 on."""
    if separable_terms(problem):
        return Method.SEPARABLE
    worthwhile = problem.filter[0] > (11 if problem.weights is None else 7)
    return Method.WINOGRAD if worthwhile and Method.WINOGRAD in methods(problem) else Method.DIRECT


class Walk(NamedTuple):
    """How a thread walks down a strip."""

    order: Order
    rows: int
    unroll: int
    prefetch: int


def likely_walks(problem: Filter2d, device: Device) -> list[Walk]:
    """Ways to walk, the likeliest first."""
    outputs, width = problem.output_shape, 4
    across = ceil(outputs[1] * problem.channels / (32 * width)) * problem.planes
    is_paired = likely_method(problem) is Method.WINOGRAD
    # Large filters leave room for 16 warps on a multiprocessor; all of them start together, and end together.
    strips = (8 if is_paired else 16) * device.multiprocessors // across
    wave = ceil(outputs[0] / strips) if strips else 128
    even = ceil(wave / 2) * 2
    by_taps = (
        (3, Walk(Order.ROWS, 4, 4, 1)),
        (5, Walk(Order.TAPS, 4, 4, 0)),
        (7, Walk(Order.ROWS, 12, 12, 1)),
        (9, Walk(Order.TAPS, ceil(wave / 3) * 3, 3, 3)),
        (math.inf, Walk(Order.TAPS, ceil(wave / 3) * 3, 3, 0) if is_paired else Walk(Order.TAPS, even, 2, 2)),
    )
    likely = next(walk for most, walk in by_taps if problem.filter[0] <= most)
    others = ((128, 1, 1), (8, 4, 1), (8, 8, 1), (16, 16, 1), (4, 2, 1), (2, 2, 1), (1, 1, 0))
    ways = [
        likely,
        likely._replace(order=Order.ROWS, prefetch=1) if likely.unroll % 2 == 0 else Walk(Order.ROWS, even, 2, 1),
        *(Walk(Order.ROWS, *each) for each in others[0 if problem.filter[0] > 7 else 1 :]),
    ]
    # Threads of 4 outputs across, so many that every multiprocessor has work for half of its places; or one wave.
    fills = problem.output.size // 4 // (device.multiprocessors * device.threads_per_multiprocessor // 2)
    short_enough = [walk for walk in ways if walk.rows <= max(1, fills, wave if walk in ways[:2] else 1)]
    return [*short_enough, *(walk for walk in ways if walk not in short_enough)]
