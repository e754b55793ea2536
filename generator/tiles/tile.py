"""A tile in shared memory: its digits, how threads share the work, and the gaps that avoid bank conflicts.

An axis has two radices. Its first step transforms the first digit of an index, the most significant one, and multiplies
the result by twiddles. The second step transforms the other digit. Both work in place, so that place `second * i + j`
holds frequency `i + first * j` in the end. The inverse takes the same steps backwards.

Three passes do the four steps of both axes. The first pass does the first step of the columns. In the second pass a
thread does the second step of the columns and the first step of the rows together. The third pass does the second step
of the rows. The second and the third pass stay within few rows, which belong to one warp.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from math import ceil

BANKS = 16
"""Complex numbers of 8 bytes that shared memory delivers in one wavefront; half a warp requests that many."""
WARP = 32
COMPLEX_BYTES = 8
_MOST = 16
"""Exclusive bound on the complex numbers left out in one place: 16 shift the banks by a whole cycle."""


@dataclasses.dataclass(frozen=True, slots=True)
class TileAxis:
    """Two radices of an axis, in the order of the forward transform."""

    first: int
    second: int

    @classmethod
    def of(cls, text: str) -> TileAxis:
        """Reads an axis from text: `16x8`."""
        first, second = text.split("x")
        return cls(int(first), int(second))

    @property
    def points(self) -> int:
        return self.first * self.second

    @property
    def text(self) -> str:
        return f"{self.first}x{self.second}"


@dataclasses.dataclass(frozen=True, slots=True)
class TileShape:
    """Sizes of a tile, the grouping of its rows, and the room for gaps."""

    y: TileAxis
    x: TileAxis
    group: int
    """Values of the columns' first digit whose rows a warp transforms at a time, `y.second` rows for each."""
    gaps: int
    """Percent of the tile that may be left out between its elements."""

    @property
    def points(self) -> int:
        return self.y.points * self.x.points

    @property
    def group_rows(self) -> int:
        return self.group * self.y.second

    @property
    def groups(self) -> int:
        return ceil(self.y.first / self.group)

    @property
    def turns(self) -> int:
        """Iterations of a warp's loop over the third pass of one group."""
        return ceil(self.group_rows * self.x.first / WARP)

    @property
    def spectrum_elements(self) -> int:
        """Complex numbers stored for one filter's spectrum, padded for lanes that are idle in the last iteration."""
        return self.groups * self.turns * WARP * self.x.second

    @property
    def most_points(self) -> int:
        """Most points that a thread transforms at once."""
        return max(self.y.first, self.y.second * self.x.first, self.x.second)

    @property
    def room(self) -> int:
        """Complex numbers that the tile may take in shared memory, gaps included."""
        return self.points + self.points * self.gaps // 100


@dataclasses.dataclass(frozen=True, slots=True)
class TileLayout:
    """Placement in shared memory, in complex numbers.

    Column `second * i + j` of row y lies at `row * y + digit * i + j`.
    """

    row: int
    digit: int
    rows_first: bool
    """True if neighbouring lanes take neighbouring rows in the third pass, False if neighbouring digits of a row."""

    def elements(self, shape: TileShape) -> int:
        """Complex numbers that the tile takes, gaps included."""
        return self.row * shape.y.points

    def place(self, shape: TileShape, y: int, x: int) -> int:
        """Complex numbers before row y, column x."""
        return self.row * y + x // shape.x.second * self.digit + x % shape.x.second


@functools.lru_cache(maxsize=4096)
def fitted(shape: TileShape) -> TileLayout:
    """The layout within the tile's room whose accesses take the fewest wavefronts; the smallest of equal ones."""
    first, second, points, room = shape.x.first, shape.x.second, shape.y.points, shape.room
    layouts = sorted(
        (digit * first + beside, digit, rows_first)
        for digit, beside, rows_first in itertools.product(range(second, second + _MOST), range(_MOST), (False, True))
        if (digit * first + beside) * points <= room
    )
    best, fewest = TileLayout(*layouts[0]), math.inf
    for each in layouts:
        found = turns(shape, TileLayout(*each))
        if found < fewest:
            best, fewest = TileLayout(*each), found
        if fewest == 1:
            break
    return best


def turns(shape: TileShape, layout: TileLayout) -> float:
    """Wavefronts of shared memory per access of half a warp, on average; 1 without bank conflicts."""
    half_warps = _accesses(dataclasses.replace(shape, gaps=0), rows_first=layout.rows_first)
    row, digit = layout.row, layout.digit
    taken = 0
    for half_warp in half_warps:
        banks = [place % BANKS for place in {row * y + digit * d + j for y, d, j in half_warp}]
        different = set(banks)
        taken += 1 if len(different) == len(banks) else max(map(banks.count, different))
    return taken / len(half_warps)


@functools.lru_cache(maxsize=256)
def _accesses(shape: TileShape, *, rows_first: bool) -> tuple[tuple[tuple[int, int, int], ...], ...]:
    """Row and two digits of each thread's first element, for each pass and each half of the first two warps.

    The distances between a thread's elements are equal for all threads. Every pass reads and writes the whole tile,
    forward and backward.
    """
    y, x = shape.y, shape.x
    threads = range(2 * WARP)
    passes = (
        [(each // x.points, each % x.points) for each in threads],
        [(each // x.second % y.first * y.second, each % x.second) for each in threads],
        [_third(shape, each, rows_first=rows_first) for each in threads],
    )
    digits = ([(row, *divmod(column, x.second)) for row, column in step] for step in passes)
    return tuple(tuple(step[start : start + BANKS]) for step in digits for start in range(0, len(step), BANKS))


def _third(shape: TileShape, item: int, *, rows_first: bool) -> tuple[int, int]:
    """Row and column of an item's first element in the third pass."""
    rows, digits = shape.group_rows, shape.x.first
    row, digit = (item % rows, item // rows % digits) if rows_first else (item // digits % rows, item % digits)
    return row, digit * shape.x.second
