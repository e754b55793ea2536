"""Lines of complex numbers that a block transforms in shared memory: their radices, their layout, and what they cost.

A line is an axis of two to four digits (generator/fft/axes.py). Pass i transforms digit i in place and multiplies by
twiddles, so that frequencies end in digit-reversed order. The inverse takes the passes backwards. Several lines lie one
after the other, or side by side, element by element.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter

from warpsmith.generator.fft.axes import Axis, Pass
from warpsmith.generator.tiles.space import INSTRUCTIONS, TWIDDLE
from warpsmith.generator.tiles.tile import BANKS, COMPLEX_BYTES

_RADICES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 18, 20, 21, 24, 25, 27, 28, 30, 32)
_SMALL = tuple(radix for radix in _RADICES if 4 <= radix <= 16)
"""Radices of three-pass lines: larger ones take registers and save no pass."""
_GAPS = (0, 1, 2, 3, 4)
"""Gaps, in elements, that may follow all values of a digit against bank conflicts."""
_SAMPLED = 64
"""Transforms of a pass whose bank conflicts are counted: their pattern repeats."""
_WAYS_OF_TWO, _WAYS_OF_THREE = 3, 2
"""Splits of a number of points into two and into three radices that are kept, the fastest ones."""


Radices = tuple[int, ...]


def text_of(radices: Radices) -> str:
    """Text of radices: `16x8x8`."""
    return "x".join(map(str, radices))


def radices_of(text: str) -> Radices:
    """Radices from the text of `text_of`."""
    return tuple(map(int, text.split("x")))


def points_of(text: str) -> int:
    """Points of a line with these radices."""
    return math.prod(radices_of(text))


def instructions(radices: Radices) -> float:
    """float32 instructions per point of a line for one direction."""
    within = sum(INSTRUCTIONS[radix] / radix for radix in radices)
    return within + sum(TWIDDLE * (radix - 1) / radix for radix in radices[:-1])


@functools.cache
def ways(points: int) -> tuple[Radices, ...]:
    """Splits of a line into radices, the likeliest first: two radices, or three of 4 to 16. Empty if there are none."""
    two = [(a, points // a) for a in _RADICES if points % a == 0 and points // a in _RADICES]
    three = [
        (a, b, points // (a * b))
        for a, b in itertools.product(_SMALL, repeat=2)
        if points % (a * b) == 0 and points // (a * b) in _SMALL
    ]
    return tuple(
        sorted([*sorted(two, key=_cost)[:_WAYS_OF_TWO], *sorted(three, key=_cost)[:_WAYS_OF_THREE]], key=_cost)
    )


def _cost(radices: Radices) -> tuple[float, Radices]:
    """Cost of radices. Each pass moves 32 bytes a point through shared memory, like 25 instructions of 128 lanes."""
    return instructions(radices) + 25 * len(radices) + max(radices), radices


@functools.cache
def sizes(least: int, multiple: int, most: int) -> tuple[int, ...]:
    """Points of lines from `least` to `most`: multiples of `multiple`, products of 2, 3, 5 and 7, ascending."""
    start = -(-least // multiple) * multiple
    return tuple(size for size in range(start, most + 1, multiple) if _is_smooth(size) and ways(size))


def _is_smooth(number: int) -> bool:
    for prime in (2, 3, 5, 7):
        while number % prime == 0:
            number //= prime
    return number == 1


@functools.cache
def axis_of(radices: Radices, side_by_side: int, spreads: bool = False) -> Axis:
    """A line in shared memory, laid out with few bank conflicts and few gaps.

    Args:
        radices: radices of its passes, forward.
        side_by_side: lines whose elements are interleaved; strides count elements of one line.
        spreads: the items of a pass come in the order of `spread`.
    """
    choices = (Axis.of(radices, _strides(radices, gaps)) for gaps in itertools.product(_GAPS, repeat=len(radices) - 1))
    return min(choices, key=lambda axis: turns(axis, side_by_side, spreads) + span(axis) / (2 * axis.points))


def is_spread(step: Pass) -> bool:
    """True if `spread` reorders the items of a pass."""
    return step.later in (2, 4, 8) and step.earlier % BANKS == 0


def spread(number: int, later: int) -> int:
    """Earlier digits of item `number * later` and the next: half a warp has those that are `later` apart.

    If their places are an odd number of elements apart, half a warp's elements then lie in all banks, and so they do in
    a pass whose items have these digits one after the other.
    """
    group = BANKS // later
    return number % group * later + number // group % later + number // BANKS * BANKS


def _strides(radices: Radices, gaps: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for radix, gap in zip(reversed(radices[1:]), reversed(gaps), strict=True):
        strides.append(radix * strides[-1] + gap)
    return tuple(reversed(strides))


def span(axis: Axis) -> int:
    """Elements from the first to the last one, both included."""
    return 1 + sum((radix - 1) * place.at(1) for radix, place in zip(axis.radices, axis.places, strict=True))


def turns(axis: Axis, side_by_side: int, spreads: bool = False) -> float:
    """Wavefronts of shared memory per access of half a warp, averaged over the passes; 1 without bank conflicts."""
    together = max(1, BANKS // side_by_side)
    total = [_turns_of(step, axis.points // step.radix, together, spreads and is_spread(step)) for step in axis.passes]
    return sum(total) / len(total)


def _turns_of(step: Pass, items: int, together: int, spreads: bool) -> float:
    def earlier(number: int) -> int:
        return spread(number, step.later) if spreads else number

    bases = [
        step.earlier_place.at(earlier(item // step.later)) + step.later_place.at(item % step.later)
        for item in range(min(items, _SAMPLED))
    ]
    counts = [
        max(Counter(base % together for base in bases[start : start + together]).values())
        for start in range(0, len(bases), together)
    ]
    return sum(counts) / len(counts)


@dataclasses.dataclass(frozen=True, slots=True)
class Lines:
    """Lines that a block transforms at a time."""

    axis: Axis
    count: int
    side_by_side: bool
    """True for columns, whose elements lie side by side in rows; False for rows, which follow each other."""
    threads: int
    spreads: bool = False
    """True if the items of a pass come in the order of `spread`."""

    @property
    def points(self) -> int:
        return self.axis.points

    @property
    def pitch(self) -> int:
        """Complex numbers from one line to the next in shared memory."""
        return 1 if self.side_by_side else span(self.axis)

    @property
    def shared_bytes(self) -> int:
        return COMPLEX_BYTES * self.count * span(self.axis)
