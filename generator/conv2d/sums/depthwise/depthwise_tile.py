"""Layout of planes in shared memory: copied in vectors, read in vectors, and with few bank conflicts.

A tile holds rows and columns of an image with its padding. It begins a few columns left of the windows (`lead`), so
that a vector of the image is a vector of the tile and is copied as one. A thread whose window begins between two
vectors reads the whole first one.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from math import gcd

BANKS = 32
"""Banks of shared memory, four bytes wide; a warp has as many lanes."""
VECTORS = (4, 2, 1)
"""Numbers of float32 that one instruction reads, writes or copies."""


Place = tuple[int, int, int]
"""Plane, row and column in a tile."""


@dataclasses.dataclass(frozen=True, slots=True)
class PlaneLanes:
    """Places at which the threads of a block begin to read."""

    places: tuple[Place, ...]
    """Places of the lanes of one warp."""
    last_column: int
    """Rightmost column at which any thread begins."""
    step: int
    """A divisor of all columns at which threads begin."""

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, across: int, down: int, column_step: int, row_step: int) -> PlaneLanes:
        """Threads that lie `across` and `down` a plane, plane by plane."""
        places = (
            (lane // (across * down), lane // across % down * row_step, lane % across * column_step)
            for lane in range(BANKS)
        )
        return cls(tuple(places), (across - 1) * column_step, column_step)


@dataclasses.dataclass(frozen=True, slots=True)
class PlaneTile:
    """Layout of one plane. Columns, rows and pitches count floats."""

    rows: int
    columns: int
    """Columns that are copied, a multiple of `vector`."""
    lead: int
    """Columns of the tile left of the first window."""
    vector: int
    """Floats per copy."""
    read: int
    """Floats per read."""
    pitch: int
    """Floats from one row to the next."""
    plane_pitch: int

    @property
    def row_vectors(self) -> int:
        """Copies per row."""
        return self.columns // self.vector

    @property
    def plane_copies(self) -> int:
        return self.rows * self.row_vectors

    @classmethod
    @lru_cache(maxsize=4096)
    def of(
        cls, sources: int, left: int, rows: int, window: int, lanes: PlaneLanes, *, step: int = 0, scalar: bool = False
    ) -> PlaneTile:
        """The tile of windows that begin at column `left` of an image of `sources` columns.

        Args:
            sources: columns of the image.
            left: the image's column at which the leftmost window of the first tile begins; negative in the padding.
            rows: rows of the tile.
            window: most columns that a thread reads, counted from its own first column.
            lanes: where the windows of threads begin.
            step: columns from one tile of a plane to the next; 0 if one tile has all columns.
            scalar: whether pixels are copied one by one, as padding that repeats pixels needs.
        """
        vector = 1 if scalar else next(each for each in VECTORS if sources % each == 0 and step % each == 0)
        read = vector_of(lanes.step)
        lead = left % vector
        used = lanes.last_column + lead + window
        columns = round_up(used, vector)
        unit = max(vector, read)
        read_to = lanes.last_column + round_up(lead + window, read)  # reads are whole vectors
        pitch = _pitch(round_up(max(columns, read_to), unit), unit, read, lanes.places)
        plane_pitch = _plane_pitch(rows * pitch, pitch, unit, read, lanes.places)
        return cls(rows, columns, lead, vector, read, pitch, plane_pitch)


def vector_of(count: int) -> int:
    """The longest vector (4, 2 or 1) that divides `count` numbers."""
    return gcd(count, VECTORS[0])


def round_up(count: int, multiple: int) -> int:
    """The smallest multiple that is not less than `count`."""
    return -(-count // multiple) * multiple


def wavefronts(addresses: tuple[int, ...], vector: int) -> int:
    """Shared-memory wavefronts of a warp that reads `vector` floats from each address; a wavefront moves 32 floats."""
    lanes = BANKS // vector
    turns = 0
    for first in range(0, len(addresses), lanes):
        banks: dict[int, set[int]] = {}
        for address in addresses[first : first + lanes]:
            banks.setdefault(address % BANKS // vector, set()).add(address // vector)
        turns += max(map(len, banks.values()))
    return turns


@lru_cache(maxsize=4096)
def _pitch(least: int, unit: int, read: int, places: tuple[Place, ...]) -> int:
    """The row pitch with the fewest wavefronts for a warp's reads within a plane; the smallest of equals."""
    own = [(row, column) for plane, row, column in places if plane == 0]
    if len({row for row, _ in own}) == 1:
        return least
    choices = range(least, least + BANKS, unit)
    return min(choices, key=lambda pitch: wavefronts(tuple(row * pitch + column for row, column in own), read))


@lru_cache(maxsize=4096)
def _plane_pitch(least: int, pitch: int, unit: int, read: int, places: tuple[Place, ...]) -> int:
    """The plane pitch with the fewest wavefronts for a warp's reads; the smallest of equals."""
    own = [(plane, row * pitch + column) for plane, row, column in places]
    if all(plane == 0 for plane, _ in own):
        return least
    choices = range(least, least + BANKS, unit)
    return min(choices, key=lambda size: wavefronts(tuple(plane * size + place for plane, place in own), read))
