"""The tile of `fft_block`: its axes in shared memory, who takes which part of a stage, and the gaps between rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from warpsmith.generator.fft.axes import Axis, Digit, Pass, Place, modulo, quotient

BANKS = 16
"""Of shared memory, for elements of 8 bytes: half a warp reads or writes at once."""


def room(elements: int, gaps: int) -> int:
    """How many complex numbers a tile of so many takes, with gaps of so many percent; a small one has 8 KB in all."""
    return max(elements + elements * gaps // 100, 1024)


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

    def values(self, item: Any) -> dict[str, Any]:
        """The variables of one item, or of an array of items."""
        found = {}
        for name, extent in self.variables:
            found[name] = item % extent
            item = item // extent
        return found

    def lines(self, item: str) -> tuple[str, ...]:
        """The same as definitions in CUDA."""
        lines, weight = [], 1
        for name, extent in self.variables:
            value = quotient(item, weight)
            weight *= extent
            lines.append(f"const int {name} = {value if weight == self.items else modulo(value, extent)};")
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
class Lead:
    """In which order the threads of a pass take their work."""

    name: str
    """The variable in which neighbours of a warp differ."""
    is_stored: bool = False
    """Whether they count elements as they lie in the tile; else as indices and frequencies."""


@dataclasses.dataclass(frozen=True, slots=True)
class PassWork:
    """One pass over a digit, as the threads of a tile do it."""

    axis: str
    """x or y."""
    step: Pass
    pool: Pool
    address: Address
    """Of a transform's first element."""
    has_all_lines: bool = True
    """Whether it is over all of the other axis; else over the first ones alone, which have something."""
    read: int = 0
    """Elements whose index is below are in the tile, and others are zeros; 0 where all are there."""
    written: int = 0
    """Elements whose frequency is below are needed; 0 where all are."""

    def led_by(self, lead: Lead) -> PassWork:
        """The same in another order."""
        extents = dict(self.pool.variables)
        first = {lead.name: extents.pop(lead.name, 1)}
        terms = self.address.terms
        if lead.is_stored:
            # Twiddles depend on the number `later`; of lines and results there may be the first ones alone.
            lines = "" if self.has_all_lines else "y" if self.axis == "x" else "x"
            kept = {"later", lines, "earlier" if self.written else ""}
            terms = tuple((name, place if name in kept else place.stored) for name, place in terms)
        return dataclasses.replace(self, pool=Pool.of(**first, **extents), address=Address(terms))


@dataclasses.dataclass(frozen=True, slots=True)
class Touch:
    """How threads reach a tile from outside the passes: one element for each item."""

    pool: Pool
    """Of t, y and x, or instead of x a `column`, which is one less."""
    is_after: bool
    """Whether frequencies are read after the passes; else indices are written before them."""
    is_mirrored: bool = False
    """Whether it is the element of the frequency that mirrors."""

    def indices(self, shape: TileShape, values: Mapping[str, Any]) -> dict[str, Any]:
        """Index or frequency of the items with these values."""
        found = dict(values)
        if "column" in found:
            found["x"] = found.pop("column") + 1
        if self.is_mirrored:
            found |= {name: -found.get(name, 0) % points for name, points in (("y", shape.y), ("x", shape.x))}
        return found


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
    gaps: int = 25
    """Percent of it that may be left out between its rows."""
    is_mirrored: tuple[bool, bool] = (False, False)
    """Whether the first pass reads two sets of frequencies at once, and the last one writes such: see `mirrored.py`."""

    present: tuple[int, int] = (0, 0)
    """Rows and columns of which some element of the signal may differ from 0, or is asked for; 0 where there may be in
    all.
    """
    is_signal_first: bool = True
    """Whether indices are those of the signal; else frequencies are."""

    def is_mirrored_pass(self, place: int, count: int) -> bool:
        """Whether that one of so many passes has two sets of frequencies."""
        reads, writes = self.is_mirrored
        return (reads and place == 0) or (writes and place == count - 1)

    def is_global_pass(self, place: int, count: int) -> bool:
        """Whether that one of so many passes reads from global memory or writes there."""
        reads, writes = self.is_global
        return (reads and place == 0) or (writes and place == count - 1)

    @property
    def room(self) -> int:
        """Complex numbers that a tile may take, with its gaps."""
        return room(self.transforms * self.x * self.y, self.gaps)

    @property
    def y(self) -> int:
        return math.prod(self.y_radices)

    @property
    def x(self) -> int:
        return math.prod(self.x_radices)


Gaps = tuple[tuple[int, int], ...]
"""Elements left out: for each digit, the innermost first, where it crosses BANKS, and after it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """A tile in shared memory. Distances in complex numbers."""

    shape: TileShape
    y: Axis
    x: Axis
    pitch: int
    """From one array to the next."""
    leads: tuple[Lead, ...] = ()
    """Of each pass; none where they are the usual ones."""

    @classmethod
    def with_gaps(cls, shape: TileShape, gaps: Gaps, leads: tuple[Lead, ...] = ()) -> Tile:
        """A tile with so many elements left out."""
        return cls.with_strides(shape, strides_of(shape, gaps), leads)

    @classmethod
    def with_strides(cls, shape: TileShape, strides: tuple[int, ...], leads: tuple[Lead, ...] = ()) -> Tile:
        """A tile whose digits, or their parts, are so many elements apart: the innermost first, the arrays last."""
        ahead = list(strides)
        places = []
        for inner, outer in digits_of(shape):
            parts = [Digit(1, inner, ahead.pop(0))]
            if outer > 1:
                parts.append(Digit(inner, outer, ahead.pop(0)))
            places.append(Place.of(parts))
        columns = len(shape.x_radices)
        x, y = tuple(reversed(places[:columns])), tuple(reversed(places[columns:]))
        return cls(shape, Axis(shape.y_radices, y), Axis(shape.x_radices, x), ahead.pop(0), leads)

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
        if not self.leads:
            return works
        return tuple(work.led_by(lead) for work, lead in zip(works, self.leads, strict=True))

    def _over(self, name: str, *, is_first: bool) -> Iterator[PassWork]:
        axis, other = (self.y, self.x) if name == "y" else (self.x, self.y)
        across = "x" if name == "y" else "y"
        place = other.index_place if is_first else other.frequency_place
        present = dict(zip("yx", self.shape.present, strict=True))
        meets_signal, is_forward = is_first is self.shape.is_signal_first, self.shape.is_signal_first
        lines = (meets_signal and present[across]) or other.points
        for step in axis.passes:
            own = {"later": step.later, "earlier": step.earlier}
            extents = {across: lines, **own} if name == "y" else {**own, across: lines}
            terms = (
                ("t", self.transform_place),
                (across, place),
                ("later", step.later_place),
                ("earlier", step.earlier_place),
            )
            pool = Pool.of(**extents, t=self.shape.transforms)
            meets_rest = not meets_signal and bool(present[name])
            yield PassWork(
                name,
                step,
                pool,
                Address(terms),
                has_all_lines=lines == other.points,
                read=present[name] if meets_rest and is_forward and step.earlier == 1 else 0,
                written=present[name] if meets_rest and not is_forward and step.is_last else 0,
            )


def digits_of(shape: TileShape) -> tuple[tuple[int, int], ...]:
    """The digits of an array, the innermost first, as an inner part of BANKS elements and how often it repeats.

    The other part is 1 where a digit does not cross a multiple of BANKS elements, or not at one of its values.
    """
    found, stride = [], 1
    for radix in (*reversed(shape.x_radices), *reversed(shape.y_radices)):
        inner = BANKS // stride
        crosses = BANKS % stride == 0 and radix % inner == 0 and 1 < inner < radix
        found.append((inner, radix // inner) if crosses else (radix, 1))
        stride *= radix
    return tuple(found)


def strides_of(shape: TileShape, gaps: Gaps) -> tuple[int, ...]:
    """Those of `Tile.with_strides` that leave out so many elements."""
    strides, stride = [], 1
    for (inner, outer), (within, after) in zip(digits_of(shape), gaps, strict=True):
        strides.append(stride)
        stride *= inner
        if outer > 1:
            strides.append(stride + within)
            stride = strides[-1] * outer
        stride += after
    return (*strides, stride)
