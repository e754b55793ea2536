"""The tile of `fft_block`: its axes in shared memory, who takes which part of a stage, and the gaps between rows."""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Iterator, Mapping

from warpsmith.generator.transforms.axes import Axis, Digit, Pass, Place

_BANKS = 16
"""Of shared memory, for elements of 8 bytes: half a warp reads or writes at once."""
_GAPS = (0, 1, 2, 3, 4, 5, 6, 8)
"""Elements to leave out between the values of a digit."""
_APART = 4096
"""More than any digit has values."""
_TOO_LARGE = 1 << 60
"""Accesses, of a tile that does not fit."""


def room(elements: int) -> int:
    """How many complex numbers a tile of so many may take: gaps of a quarter, or 8 KB in all."""
    return max(elements + elements // 4, 1024)


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """Work for the threads of a tile: one item for each choice of values of some variables, the first fastest."""

    variables: tuple[tuple[str, int], ...]
    """Names and extents; a variable of one value is left out."""

    @classmethod
    def of(cls, **extents: int) -> Pool:
        return cls(tuple((name, extent) for name, extent in extents.items() if extent > 1))

    @property
    def items(self) -> int:
        return math.prod(extent for _, extent in self.variables)

    def values(self, item: int) -> dict[str, int]:
        """The variables of one item."""
        found = {}
        for name, extent in self.variables:
            found[name] = item % extent
            item //= extent
        return found

    def lines(self, item: str) -> tuple[str, ...]:
        """The same as definitions in CUDA."""
        lines, weight = [], 1
        for name, extent in self.variables:
            value = item if weight == 1 else f"{item} / {weight}"
            weight *= extent
            lines.append(f"const int {name} = {value if weight == self.items else f'{value} % {extent}'};")
        return tuple(lines)


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """A place in the tile as a sum over variables of a pool."""

    terms: tuple[tuple[str, Place], ...]

    def at(self, values: Mapping[str, int]) -> int:
        """The place, of elements; a variable that a pool leaves out is 0."""
        return sum(place.at(values.get(name, 0)) for name, place in self.terms)

    def text(self, pool: Pool) -> str:
        """The same in CUDA."""
        known = {name for name, _ in pool.variables}
        texts = [place.text(name) for name, place in self.terms if name in known]
        return " + ".join(text for text in texts if text != "0") or "0"


@dataclasses.dataclass(frozen=True, slots=True)
class PassWork:
    """One pass over a digit, as the threads of a tile do it."""

    axis: str
    """x or y."""
    step: Pass
    pool: Pool
    address: Address
    """Of a transform's first element."""

    def turned(self) -> PassWork:
        """The same with neighbours in y."""
        rest = {name: extent for name, extent in self.pool.variables if name not in ("y", "t")}
        extents = dict(self.pool.variables)
        return dataclasses.replace(self, pool=Pool.of(y=extents.get("y", 1), **rest, t=extents.get("t", 1)))


@dataclasses.dataclass(frozen=True, slots=True)
class TileShape:
    """What a tile holds: `transforms` arrays of y by x complex numbers, and the passes over them."""

    transforms: int
    y_radices: tuple[int, ...]
    """None where transforms have one dimension: y is then 1."""
    x_radices: tuple[int, ...]
    y_first: bool
    """Whether the passes over y come first."""
    is_global: tuple[bool, bool] = (False, False)
    """Whether the first pass reads from global memory and the last one writes there: neighbours in x, then."""

    @property
    def room(self) -> int:
        """Complex numbers that a tile may take, with its gaps."""
        return room(self.transforms * self.x * self.y)

    @property
    def y(self) -> int:
        return math.prod(self.y_radices)

    @property
    def x(self) -> int:
        return math.prod(self.x_radices)


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """A tile in shared memory. Distances in complex numbers."""

    shape: TileShape
    y: Axis
    x: Axis
    pitch: int
    """From one array to the next."""
    down: bool
    """Whether neighbours of a warp take neighbours in y in the passes over x."""

    @classmethod
    def with_gaps(cls, shape: TileShape, gaps: tuple[int, ...], *, down: bool = False) -> Tile:
        """A tile with so many elements left out after each digit, the innermost first, and after each array."""
        ahead, stride = list(gaps), 1

        def strides(radices: tuple[int, ...]) -> tuple[int, ...]:
            nonlocal stride
            found = []
            for radix in reversed(radices):
                found.append(stride)
                stride = stride * radix + ahead.pop(0)
            return tuple(reversed(found))

        x, y = strides(shape.x_radices), strides(shape.y_radices)
        return cls(shape, Axis(shape.y_radices, y), Axis(shape.x_radices, x), stride, down)

    @property
    def elements(self) -> int:
        """That it takes, with its gaps."""
        return self.pitch * self.shape.transforms

    @property
    def transform_place(self) -> Place:
        return Place.of([Digit(1, self.shape.transforms, self.pitch)])

    @property
    def before(self) -> tuple[tuple[str, Place], ...]:
        """Where index (y, x) of transform t lies before the first pass."""
        return (("t", self.transform_place), ("y", self.y.index_place), ("x", self.x.index_place))

    @property
    def after(self) -> tuple[tuple[str, Place], ...]:
        """Where frequency (y, x) of it lies after the last one."""
        return (("t", self.transform_place), ("y", self.y.frequency_place), ("x", self.x.frequency_place))

    @property
    def passes(self) -> tuple[PassWork, ...]:
        """In order."""
        first, second = ("y", "x") if self.shape.y_first else ("x", "y")
        works = (*self._over(first, is_first=True), *self._over(second, is_first=False))
        return tuple(
            work if work.axis == "y" or self._is_global(place, len(works)) or not self.down else work.turned()
            for place, work in enumerate(works)
        )

    def _is_global(self, place: int, count: int) -> bool:
        reads, writes = self.shape.is_global
        return (reads and place == 0) or (writes and place == count - 1)

    def _over(self, name: str, *, is_first: bool) -> Iterator[PassWork]:
        axis, other = (self.y, self.x) if name == "y" else (self.x, self.y)
        across = "x" if name == "y" else "y"
        place = other.index_place if is_first else other.frequency_place
        for step in axis.passes:
            own = {"later": step.later, "earlier": step.earlier}
            extents = {across: other.points, **own} if name == "y" else {**own, across: other.points}
            terms = (
                ("t", self.transform_place),
                (across, place),
                ("later", step.later_place),
                ("earlier", step.earlier_place),
            )
            yield PassWork(name, step, Pool.of(**extents, t=self.shape.transforms), Address(terms))


def conflicts(addresses: list[int]) -> int:
    """How often shared memory is read or written for one access of half a warp: once where no bank is hit twice."""
    banks: dict[int, set[int]] = {}
    for address in addresses:
        banks.setdefault(address % _BANKS, set()).add(address)
    return max(len(each) for each in banks.values())


@functools.lru_cache(maxsize=4096)
def fitted_tile(shape: TileShape, pools: tuple[tuple[Pool, bool], ...]) -> Tile:
    """The tile of that shape with the gaps that avoid bank conflicts best, found one at a time.

    Args:
        shape: what it holds.
        pools: of the stages that write indices into the tile or read frequencies (True) from it, one element an item.
    """
    found: list[tuple[tuple[int, int], Tile]] = []

    def cost_of(gaps: tuple[int, ...]) -> tuple[int, int]:
        strides = _strides(shape, gaps)
        return _cost(accesses, strides) if strides[-1] * shape.transforms <= shape.room else (_TOO_LARGE, strides[-1])

    for down in (False, True) if shape.y_radices else (False,):
        accesses = _accesses(shape, pools, down)
        gaps = [0] * (len(shape.x_radices) + len(shape.y_radices))
        found.append((cost_of(tuple(gaps)), Tile.with_gaps(shape, tuple(gaps), down=down)))
        # Rows one element longer than they need be: only a change of two gaps leads there.
        gaps[len(shape.x_radices) - 1] = 1
        for place in (*range(len(gaps)), *range(len(gaps))):
            if found[-1][0][0] == 0:
                break
            costs = {gap: cost_of((*gaps[:place], gap, *gaps[place + 1 :])) for gap in _GAPS}
            gaps[place] = min(costs, key=costs.__getitem__)
            found.append((costs[gaps[place]], Tile.with_gaps(shape, tuple(gaps), down=down)))
    return min(found, key=lambda each: each[0])[1]


_Access = tuple[int, tuple[tuple[int, ...], ...]]
"""How often half a warp does it, and for each lane the digits of the place: those of x, of y and the transform."""


def _accesses(shape: TileShape, pools: tuple[tuple[Pool, bool], ...], down: bool) -> list[_Access]:
    """What the first warp of each stage does with the tile, whatever its strides are."""
    digits = len(shape.x_radices) + len(shape.y_radices)
    # In a tile whose strides are powers of a large number, a place shows its digits.
    powers = [_APART**i for i in range(digits + 1)]
    x, y = tuple(powers[: len(shape.x_radices)]), tuple(powers[len(shape.x_radices) : digits])
    tile = Tile(shape, Axis(shape.y_radices, y), Axis(shape.x_radices, x), powers[digits], down)
    found = [(2 * work.step.radix, work.pool, work.address) for work in tile.passes]
    found += [(1, pool, Address(tile.after if is_after else tile.before)) for pool, is_after in pools]
    accesses: list[_Access] = []
    for times, pool, address in found:
        places = [address.at(pool.values(item)) for item in range(min(32, pool.items))]
        lanes = [tuple(place // power % _APART for power in powers) for place in places]
        repeats = times * max(1, pool.items // 32)
        accesses += [(repeats, tuple(half)) for half in (lanes[:_BANKS], lanes[_BANKS:]) if half]
    return accesses


def _strides(shape: TileShape, gaps: tuple[int, ...]) -> tuple[int, ...]:
    """Of each digit of a tile with these gaps, in the order of `_Access`."""
    tile = Tile.with_gaps(shape, gaps)
    return (*tile.x.strides, *tile.y.strides, tile.pitch)


def _cost(accesses: list[_Access], strides: tuple[int, ...]) -> tuple[int, int]:
    """Accesses of shared memory beyond those that there must be, over all stages; then the size."""
    cost = 0
    for repeats, lanes in accesses:
        cost += repeats * (conflicts([sum(map(operator.mul, digits, strides)) for digits in lanes]) - 1)
    return cost, strides[-1]
