"""A tile in shared memory: its digits, how its threads take their work, and the gaps that avoid bank conflicts.

An axis has two radices. Step 1 transforms the first digit of an index, which is its most significant one, and turns
the result by twiddles; step 2 transforms the second one. Both are in place, so that place `second * i + j` holds
frequency `i + first * j` in the end. The inverse takes the same steps backwards.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from math import ceil

BANKS = 16
"""Complex numbers, 8 bytes each, that shared memory delivers at once; half a warp asks for so many."""
WARP = 32
COMPLEX_BYTES = 8
_MOST_BESIDE = 16
"""Complex numbers left out behind a row at the most: one more shifts the banks all the way round."""
_MOST_WITHIN = 3
"""And behind each value of a row's first digit."""
_WARPS = 2
"""Of a team, that are looked at."""


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """The radices of an axis, in the order of the forward transform."""

    first: int
    second: int

    @classmethod
    def of(cls, text: str) -> Axis:
        """`16x8` as numbers."""
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
    """What a tile holds, and how its work is grouped.

    A group is so many adjacent columns or rows that a team of warps transforms among itself. Neighbours of a warp have
    neighbouring columns, or rows.
    """

    y: Axis
    x: Axis
    columns: int
    """Of a group, while columns are transformed."""
    rows: int
    """Of a group, while rows are."""
    team: int
    """Warps that share a group."""
    gaps: int
    """Percent of the tile that may be left out between its elements."""

    @property
    def points(self) -> int:
        return self.y.points * self.x.points

    @property
    def team_threads(self) -> int:
        return WARP * self.team

    @property
    def column_groups(self) -> int:
        return ceil(self.x.points / self.columns)

    @property
    def row_groups(self) -> int:
        return ceil(self.y.points / self.rows)

    @property
    def room(self) -> int:
        """Complex numbers that the tile may take with its gaps."""
        return self.points + self.points * self.gaps // 100


@dataclasses.dataclass(frozen=True, slots=True)
class Pitches:
    """Where an element lies: `row * y + digit * i + j` for column `second * i + j`. In complex numbers."""

    row: int
    digit: int

    def elements(self, shape: TileShape) -> int:
        """That the tile takes, with its gaps."""
        return self.row * shape.y.points

    def place(self, shape: TileShape, y: int, x: int) -> int:
        """Of row y and column x."""
        return self.row * y + x // shape.x.second * self.digit + x % shape.x.second


@functools.lru_cache(maxsize=4096)
def fitted(shape: TileShape) -> Pitches:
    """The pitches within the tile's room whose accesses take the fewest turns; of equal ones the smallest."""
    choices = [
        Pitches((shape.x.second + within) * shape.x.first + beside, shape.x.second + within)
        for within, beside in itertools.product(range(_MOST_WITHIN + 1), range(_MOST_BESIDE))
    ]
    possible = [each for each in choices if each.elements(shape) <= shape.room]
    return min(possible, key=lambda each: (turns(shape, each), each.elements(shape), each.digit))


def turns(shape: TileShape, pitches: Pitches) -> float:
    """Turns that an access of half a warp takes on average; 1 where banks never conflict."""
    halves = [[pitches.place(shape, *at) for at in half] for step in _accesses(shape) for half in step]
    banks = ([place % BANKS for place in set(half)] for half in halves)
    return sum(max(map(each.count, each)) for each in banks) / len(halves)


Accesses = list[list[tuple[int, int]]]
"""For each half of a warp the row and column of each thread's first element."""


def _accesses(shape: TileShape) -> tuple[Accesses, ...]:
    """Those of the four steps, of a team's first warps. What lies between a thread's elements is alike for all threads."""
    x, y = shape.x, shape.y
    threads = range(WARP * min(shape.team, _WARPS))
    columns = [(min(each % shape.columns, x.points - 1), each // shape.columns) for each in threads]
    rows = [(each % shape.rows, each // shape.rows) for each in threads]
    steps = (
        [(min(other, y.second - 1), column) for column, other in columns],
        [(min(other, y.first - 1) * y.second, column) for column, other in columns],
        [(row, min(other, x.second - 1)) for row, other in rows],
        [(row, min(other, x.first - 1) * x.second) for row, other in rows],
    )
    return tuple([step[at : at + BANKS] for at in range(0, len(step), BANKS)] for step in steps)
