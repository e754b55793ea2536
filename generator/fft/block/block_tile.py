"""Tile of `fft_block`: its axes in shared memory, the threads' order in each stage, and the gaps between rows.

In some passes that access the spectra of two real signals in memory, each thread has two sets of frequencies (`Sets`),
mirror images of each other.

The spectrum of a real signal is its own mirror image, conjugated. So the spectra of two signals that are transformed as
one complex signal follow from a frequency and its mirror image (Cooley, Lewis and Welch 1970, "The Fast Fourier
Transform Algorithm: Programming Considerations in the Calculation of Sine, Cosine and Laplace Transforms", section 3).
Along a row of X columns the last pass of radix R has the frequencies (y, d + M j) for j = 0 to R - 1 in one thread,
where M = X / R. Their mirror images (-y, -d - M j) are one set too, that of row -y and digit M - d. A thread that has
both sets can split them without another exchange through the tile. The first pass of an inverse transform is the same
in reverse.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any

from warpsmith.generator.fft.axes import Axis, Digit, Pass, Place, modulo, quotient
from warpsmith.generator.fft.problem import Fft, Layout

BANKS = 16
"""Banks of shared memory for elements of 8 bytes; half a warp reads or writes at once."""


def room(elements: int, gaps: int) -> int:
    """Complex numbers that a tile of `elements` may take with gaps of `gaps` percent, at least 1024 (8 KB)."""
    return max(elements + elements * gaps // 100, 1024)


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """Work items of a tile's threads: one item for each choice of values of some variables, the first fastest."""

    variables: tuple[tuple[str, int], ...]
    """Names and extents; a variable with one value is left out."""

    @classmethod
    def of(cls, **extents: int) -> Pool:
        return cls(tuple((name, extent) for name, extent in extents.items() if extent > 1))

    @property
    def items(self) -> int:
        return math.prod(extent for _, extent in self.variables)

    def values(self, item: Any) -> dict[str, Any]:
        """Values of the variables for one item, or for an array of items."""
        found = {}
        for name, extent in self.variables:
            found[name] = item % extent
            item = item // extent
        return found

    def lines(self, item: str) -> tuple[str, ...]:
        """CUDA definitions of the variables, from the item's number."""
        lines, weight = [], 1
        for name, extent in self.variables:
            value = quotient(item, weight)
            weight *= extent
            lines.append(f"const int {name} = {value if weight == self.items else modulo(value, extent)};")
        return tuple(lines)


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """Place in the tile as a sum over variables of a pool."""

    terms: tuple[tuple[str, Place], ...]

    def at(self, values: Mapping[str, int]) -> int:
        """Place in elements; a variable that a pool leaves out is 0."""
        return sum(place.at(values.get(name, 0)) for name, place in self.terms)

    def text(self, pool: Pool) -> str:
        """CUDA text of `at`."""
        known = {name for name, _ in pool.variables}
        texts = [place.text(name) for name, place in self.terms if name in known]
        return " + ".join(text for text in texts if text != "0") or "0"


@dataclasses.dataclass(frozen=True, slots=True)
class Lead:
    """Order in which the threads of a pass take their items."""

    name: str
    """Variable in which neighbouring lanes differ."""
    is_stored: bool = False
    """True if threads count elements in the order of the tile's memory, False if by index and frequency."""


@dataclasses.dataclass(frozen=True, slots=True)
class PassWork:
    """One pass over a digit, as the threads of a tile do it."""

    axis: str
    """Axis of the pass, x or y."""
    step: Pass
    pool: Pool
    address: Address
    """Address of a transform's first element."""
    has_all_lines: bool = True
    """True if the pass is over all lines of the other axis, False if over the first ones, which hold the signal."""
    read: int = 0
    """Elements with an index below this one are in the tile, and others are zeros; 0 if all are there."""
    written: int = 0
    """Elements with a frequency below this one are needed; 0 if all are."""

    def led_by(self, lead: Lead) -> PassWork:
        """The same pass with its items in another order."""
        extents = dict(self.pool.variables)
        first = {lead.name: extents.pop(lead.name, 1)}
        terms = self.address.terms
        if lead.is_stored:
            # Twiddles depend on the value of `later`. Lines and results may be the first ones only, so they keep their
            # order too.
            lines = "" if self.has_all_lines else "y" if self.axis == "x" else "x"
            kept = {"later", lines, "earlier" if self.written else ""}
            terms = tuple((name, place if name in kept else place.stored) for name, place in terms)
        return dataclasses.replace(self, pool=Pool.of(**first, **extents), address=Address(terms))


@dataclasses.dataclass(frozen=True, slots=True)
class Touch:
    """Accesses to a tile from outside the passes: one element for each item."""

    pool: Pool
    """Pool over t, y and x, or over `column`, which is x - 1, in place of x."""
    is_after: bool
    """True if frequencies are read after the passes, False if indices are written before them."""
    is_mirrored: bool = False
    """True if the element is that of the mirrored frequency."""

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
    """Contents of a tile, `transforms` arrays of y by x complex numbers, and the order of the passes over them."""

    transforms: int
    y_radices: tuple[int, ...]
    """Radices of y; none if transforms have one dimension, and y is then 1."""
    x_radices: tuple[int, ...]
    y_first: bool
    """True if the passes over y come first."""
    is_global: tuple[bool, bool] = (False, False)
    """True if the first pass reads global memory, and if the last one writes it; lanes are then neighbours in x."""
    gaps: int = 25
    """Percent of the tile that may be left out between its rows."""
    is_mirrored: tuple[bool, bool] = (False, False)
    """True if the first pass reads two mirrored sets of frequencies, and if the last one writes them
    (`Sets`)."""

    present: tuple[int, int] = (0, 0)
    """Rows and columns of the signal that may differ from 0 or are needed as results; 0 for all."""
    is_signal_first: bool = True
    """True if the passes go from the signal to the spectrum, False for an inverse transform."""

    def is_mirrored_pass(self, place: int, count: int) -> bool:
        """True if pass `place` of `count` passes has two mirrored sets of frequencies."""
        reads, writes = self.is_mirrored
        return (reads and place == 0) or (writes and place == count - 1)

    def is_global_pass(self, place: int, count: int) -> bool:
        """True if pass `place` of `count` passes reads from global memory or writes there."""
        reads, writes = self.is_global
        return (reads and place == 0) or (writes and place == count - 1)

    @property
    def room(self) -> int:
        """Complex numbers that the tile may take, gaps included."""
        return room(self.transforms * self.x * self.y, self.gaps)

    @property
    def y(self) -> int:
        return math.prod(self.y_radices)

    @property
    def x(self) -> int:
        return math.prod(self.x_radices)


Gaps = tuple[tuple[int, int], ...]
"""Elements left out for each digit, the innermost first: where it crosses BANKS, and after it."""


@dataclasses.dataclass(frozen=True, slots=True)
class BlockTile:
    """Tile in shared memory. Distances are in complex numbers."""

    shape: TileShape
    y: Axis
    x: Axis
    pitch: int
    """Complex numbers from one array to the next."""
    leads: tuple[Lead, ...] = ()
    """Thread order of each pass; empty for the usual orders."""

    @classmethod
    def with_gaps(cls, shape: TileShape, gaps: Gaps, leads: tuple[Lead, ...] = ()) -> BlockTile:
        """Tile with gaps of these sizes."""
        return cls.with_strides(shape, strides_of(shape, gaps), leads)

    @classmethod
    def with_strides(cls, shape: TileShape, strides: tuple[int, ...], leads: tuple[Lead, ...] = ()) -> BlockTile:
        """Tile whose digits, or their parts, are `strides` elements apart: the innermost first, the arrays last."""
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
        """Complex numbers that the tile takes, gaps included."""
        return self.pitch * self.shape.transforms

    @property
    def transform_place(self) -> Place:
        return Place.of([Digit(1, self.shape.transforms, self.pitch)])

    @property
    def before(self) -> tuple[tuple[str, Place], ...]:
        """Terms of the place of index (y, x) of transform t before the first pass."""
        return (("t", self.transform_place), ("y", self.y.index_place), ("x", self.x.index_place))

    @property
    def after(self) -> tuple[tuple[str, Place], ...]:
        """Terms of the place of frequency (y, x) of transform t after the last pass."""
        return (("t", self.transform_place), ("y", self.y.frequency_place), ("x", self.x.frequency_place))

    @property
    def passes(self) -> tuple[PassWork, ...]:
        """Passes in order."""
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
    """Digits of an array, the innermost first, as an inner part of BANKS elements and the number of times it repeats.

    The number of times is 1 if a digit does not cross a multiple of BANKS elements, or not at one of its values.
    """
    found, stride = [], 1
    for radix in (*reversed(shape.x_radices), *reversed(shape.y_radices)):
        inner = BANKS // stride
        crosses = BANKS % stride == 0 and radix % inner == 0 and 1 < inner < radix
        found.append((inner, radix // inner) if crosses else (radix, 1))
        stride *= radix
    return tuple(found)


def strides_of(shape: TileShape, gaps: Gaps) -> tuple[int, ...]:
    """Strides for `BlockTile.with_strides` that leave out these elements."""
    strides, stride = [], 1
    for (inner, outer), (within, after) in zip(digits_of(shape), gaps, strict=True):
        strides.append(stride)
        stride *= inner
        if outer > 1:
            strides.append(stride + within)
            stride = strides[-1] * outer
        stride += after
    return (*strides, stride)


def may_mirror(problem: Fft) -> bool:
    """True if both spectra of a pair are neighbours in memory, and rows and columns let sets come in pairs."""
    is_flat_or_complex = len(problem.size) == 1 or not problem.is_real
    side_by_side = problem.batch if problem.product is None else problem.product.columns
    if is_flat_or_complex or not problem.may_pair or problem.layout is not Layout.FREQUENCY or side_by_side % 2:
        return False
    return problem.size[0] % 2 == 0 and problem.size[1] % 4 == 0


def set_address(work: PassWork, row: str, digit: str) -> Address:
    """Address of a set's first element in the tile, for `t` and variables named `row` and `digit`."""
    own = "later" if work.step.later > 1 else "earlier"
    names = {"t": "t", "y": row, own: digit}
    return Address(tuple((names[name], place) for name, place in work.address.terms if name in names))


def has_pairs(problem: Fft, x_radices: tuple[int, ...]) -> bool:
    """True if the pass that accesses the spectrum has an even radix and an even number of sets in a row."""
    radix = radix_of_sets(problem, x_radices)
    return radix % 2 == 0 and problem.size[-1] // radix % 2 == 0


def radix_of_sets(problem: Fft, x_radices: tuple[int, ...]) -> int:
    """Points of each of a thread's two sets in the pass that accesses the spectrum."""
    return x_radices[0] if problem.inverse else x_radices[-1]


@dataclasses.dataclass(frozen=True, slots=True)
class Sets:
    """Pairs of sets of one pass, numbered by t, y and `part`; digit 0 and the middle digit mirror themselves.

    For these two digits the rows come in pairs (y, -y). Rows 0 and Y / 2 have no partner and form one more pair, in
    which the first and the second set each mirror themselves.
    """

    transforms: int
    rows: int
    """Y, the rows of a transform."""
    digits: int
    """M, the sets of a row."""

    @classmethod
    def of_pass(cls, shape: TileShape, work: PassWork) -> Sets:
        """Sets of a pass along x, the first or the last one of a tile of that shape."""
        return cls(shape.transforms, shape.y, work.step.later * work.step.earlier)

    @property
    def pool(self) -> Pool:
        """Pool over the pairs of sets, neighbours in memory first."""
        return Pool.of(t=self.transforms, y=self.rows, part=self.digits // 2)

    def indices(self, values: dict[str, Any], *, is_there: bool) -> dict[str, Any]:
        """Transform `t`, row `y` and `digit` of one of an item's two sets; `values` may be arrays of items."""
        y, part, half = values["y"], values.get("part", 0), self.rows // 2
        is_own = 1 * (part == 0)
        here_y = is_own * (y % half) + (1 - is_own) * y
        here = part + is_own * (y >= half) * (self.digits // 2)
        is_alone = is_own * (here_y == 0)
        there_y = is_alone * half + (1 - is_alone) * (-here_y % self.rows)
        there = is_own * here + (1 - is_own) * (self.digits - part)
        row, digit = (there_y, there) if is_there else (here_y, here)
        return {"t": values.get("t", 0), "y": row, "digit": digit}

    def lines(self) -> tuple[str, ...]:
        """CUDA definitions of both sets' rows and digits, from t, y and part."""
        half, middle = self.rows // 2, self.digits // 2
        return (
            "const bool is_own_digit = part == 0;  // digits 0 and M / 2, which mirror themselves",
            f"const int first_y = is_own_digit ? {modulo('y', half) if half > 1 else '0'} : y;",
            f"const int first_digit = is_own_digit ? (y < {half} ? 0 : {middle}) : part;",
            "const bool is_self_mirrored = is_own_digit && first_y == 0;  // in rows 0 and Y / 2, their own mirrors",
            f"const int second_y = is_self_mirrored ? {half} : first_y == 0 ? 0 : {self.rows} - first_y;",
            f"const int second_digit = is_own_digit ? first_digit : {self.digits} - part;",
        )
