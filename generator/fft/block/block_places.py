"""Places in memory of what `fft_block` reads and writes: tiles of planes, products of spectra, split fp16 spectra.

Split spectra (`Split16Spectra`) are for tensor-core products, which read them as they lie.

Each real number is the sum of two fp16 parts, high and low. All numbers are scaled by one power of two, so that the sum
of the magnitudes of a signal's numbers stays below 2^15; no frequency exceeds that sum. Scaled numbers of 2^-3 or more
keep 22 bits in both parts, smaller ones are accurate to 2^-25: 2^-40 of that bound.

If the largest magnitude comes from a sample of the signal, a frequency may still overflow fp16. The transforms record
the largest such frequency, and a second launch repeats all of them, scaled by it. Without such a frequency the second
launch ends at once.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from math import prod

from warpsmith.generator.cgemm.problem import Op
from warpsmith.generator.fft.axes import modulo, quotient
from warpsmith.generator.fft.block.block_choice import BlockChoice
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.product import Product
from warpsmith.generator.fft.signals import Tiling
from warpsmith.generator.fft.text import Packing
from warpsmith.generator.render import float_literal


@dataclasses.dataclass(frozen=True, slots=True)
class Planes:
    """Places of a problem's tiles. Divisors are constants, so that compilers multiply instead."""

    problem: Fft
    packing: Packing
    tiling: Tiling

    @property
    def inside(self) -> str:
        """CUDA expression of the plane's number among those that share a tile's number."""
        return _modulo("number", self.tiling.inner)

    @property
    def tile(self) -> str:
        """CUDA expression of the tile's number within its plane."""
        return _modulo(_quotient("number", self.tiling.inner), self.tiling.tiles)

    @property
    def plane(self) -> str:
        """CUDA expression of the plane's number."""
        inner, together = self.tiling.inner, self.tiling.inner * self.tiling.tiles
        outer = _quotient("number", together)
        return f"{outer} * {inner}u + {self.inside}" if inner > 1 else outer

    @property
    def points(self) -> int:
        """Points of a plane."""
        return prod(self.tiling.plane)

    @property
    def columns(self) -> int:
        """Columns of a plane."""
        return self.tiling.plane[-1]

    @property
    def row(self) -> str:
        """CUDA expression of the row at which a tile begins."""
        return self._corner(0, _quotient("tile", self.tiling.count[-1]))

    @property
    def column(self) -> str:
        """CUDA expression of the column at which a tile begins."""
        axis = len(self.tiling.count) - 1
        return self._corner(axis, _modulo("tile", self.tiling.count[-1]) if axis else "tile")

    @property
    def is_vector(self) -> bool:
        """True if two packed columns always lie at a multiple of 8 bytes, both inside the plane or both outside."""
        numbers = (self.columns, self.tiling.step[-1], self.tiling.origin[-1], self.problem.signal_size[-1])
        return self.packing is Packing.HALF and not any(number % 2 for number in numbers)

    @property
    def element_type(self) -> str:
        """CUDA type of an element that is read or written at once."""
        return "float2" if self.is_vector or not self.problem.is_real else "float"

    @property
    def nothing(self) -> str:
        """CUDA value of an element outside the plane."""
        return "make_float2(0.0f, 0.0f)" if self.element_type == "float2" else "0.0f"

    @property
    def is_inside(self) -> str:
        """CUDA condition under which point (y, x) of a tile, x a column, exists; empty if each does."""
        names = (("y", "row"), ("x", "column"))[-len(self.tiling.count) :]
        return " && ".join(each for axis, (own, at) in enumerate(names) for each in self._conditions(axis, own, at))

    def _conditions(self, axis: int, own: str, at: str) -> tuple[str, ...]:
        """Conditions of one axis: the tile's valid part, and the plane. A negative place is a large unsigned number."""
        there, points, plane = self.problem.signal_size[axis], self.problem.size[axis], self.tiling.plane[axis]
        first, end = self.tiling.reach(axis, there)
        found = [f"{own} < {there}"] if there < points else []
        if first < 0 or end > plane:
            found.append(f"static_cast<unsigned>({at}) < {plane}u" if first < 0 else f"{at} < {plane}")
        return tuple(found)

    def _corner(self, axis: int, number: str) -> str:
        step, origin = self.tiling.step[axis], self.tiling.origin[axis]
        if self.tiling.count[axis] == 1:
            return str(origin)
        moved = f"static_cast<int>({number}) * {step}"
        return f"{moved} {'-' if origin < 0 else '+'} {abs(origin)}" if origin else moved


def _quotient(number: str, divisor: int) -> str:
    return number if divisor == 1 else f"{number} / {divisor}u"


def _modulo(number: str, divisor: int) -> str:
    return "0u" if divisor == 1 else f"{number} % {divisor}u"


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """Term of a frequency's sum, for two results side by side, as CUDA expressions."""

    a: str
    one: str
    """Factor of b for the first result, in the variables that hold the vectors read from b."""
    other: str


@dataclasses.dataclass(frozen=True, slots=True)
class SpectraProduct:
    """Factors a and b of a problem's spectra. Pitches are in complex numbers."""

    problem: Fft
    product: Product
    transforms: int
    """Pairs of real transforms per tile."""
    rows: int
    """Rows of the product whose results one tile has."""

    @classmethod
    def of(cls, problem: Fft, choice: BlockChoice) -> SpectraProduct | None:
        """Product of a problem's spectra; None if spectra are read as they are."""
        product = problem.product
        return None if product is None else cls(problem, product, choice.transforms, choice.rows)

    @property
    def tile_columns(self) -> int:
        """Columns of the product whose results one tile has."""
        return 2 * self.transforms // self.rows

    @property
    def row(self) -> str:
        """CUDA expression of pair t's row, counted from the tile's first one; empty if the tile has one row."""
        return f"({quotient('t', self.tile_columns // 2)})" if self.rows > 1 else ""

    @property
    def pair(self) -> str:
        """CUDA expression of the number of pair t's first result, counted from the tile's first one."""
        return f"({self.row} * {self.product.columns} + {self.column})" if self.rows > 1 else self.column

    @property
    def column(self) -> str:
        """CUDA expression of pair t's first column, counted from the tile's first one."""
        return f"2 * ({modulo('t', self.tile_columns // 2)})" if self.rows > 1 else "2 * t"

    @property
    def tiles(self) -> int:
        """Tiles of the whole product; tiles of the same rows follow each other."""
        return self.product.batch // (2 * self.transforms)

    @property
    def first(self) -> str:
        """CUDA expression of the number of a tile's first result."""
        across = self.product.columns // self.tile_columns
        if self.rows == 1:
            return f"tile_number * {self.tile_columns}"
        group = f"tile_number / {across} * {self.rows * self.product.columns}"
        return f"{group} + tile_number % {across} * {self.tile_columns}"

    @property
    def offset_scale(self) -> str:
        """Literal factor of an offset that is added to frequency 0 before scaling; empty without an offset."""
        return float_literal(1 / self.problem.scale) if self.product.offset else ""

    @property
    def row_pitch(self) -> int:
        """Complex numbers of a from one row to the next."""
        return 1 if self.product.a.transposes else self.product.terms

    @property
    def column_pitch(self) -> int:
        """Complex numbers of b from one column to the next."""
        return self.product.terms if self.product.b.transposes else 1

    @property
    def a_pitch(self) -> int:
        """Complex numbers of a from one frequency's matrix to the next."""
        return prod(self.product.shapes[0])

    @property
    def b_pitch(self) -> int:
        return prod(self.product.shapes[1])

    @property
    def columns(self) -> int:
        """Columns of the half spectrum."""
        return self.problem.spectrum_size[-1]

    @property
    def vectors(self) -> tuple[int, ...]:
        """Places, in pairs of complex numbers, of the vectors of b that two columns need.

        They are all terms of one column and then of the other, or one term of both columns and then the next term.
        """
        step = 1 if self.product.b.transposes else self.product.columns // 2
        return tuple(number * step for number in range(self.product.terms))

    @property
    def terms(self) -> tuple[Term, ...]:
        """Terms of the sum, in order."""
        return tuple(self._term(number) for number in range(self.product.terms))

    def _term(self, number: int) -> Term:
        pitch = self.product.rows if self.product.a.transposes else 1
        apart = (number, self.product.terms + number)
        places = apart if self.product.b.transposes else (2 * number, 2 * number + 1)
        one, other = (f"{'zw' if place % 2 else 'xy'}(b{place // 2})" for place in places)
        return Term(
            _multiplied(f"a[{number * pitch}]", self.product.a),
            _multiplied(one, self.product.b),
            _multiplied(other, self.product.b),
        )


def _multiplied(number: str, op: Op) -> str:
    return f"conjugate({number})" if op is Op.C else number


RUN = 32
"""fp16 numbers in a run of high parts, followed by their low parts: 64 bytes each, a line of the TMA's swizzle."""
PARTS = 4
"""fp16 numbers per complex number."""
HEADROOM = 2
"""Powers of two by which a number may exceed the largest one of a sample. A frequency is rarely near the sum of all
magnitudes. It equals that sum for a constant signal, in which the sample's largest number is the largest of all."""


class Split16Order(enum.StrEnum):
    """Order of the fp16 parts of all spectra: those of real parts come first, then those of imaginary parts."""

    TURNS = "turns"
    """Runs of RUN high parts alternate with runs of their low parts: the terms of a product's sum lie side by side."""
    APART = "apart"
    """All high parts, then all low ones: numbers that a product sums over lie a row apart."""


@dataclasses.dataclass(frozen=True, slots=True)
class Split16Spectra:
    """Split fp16 spectra of a batch of forward transforms, in the order of the layout `frequency`."""

    order: Split16Order
    numbers: int
    """Complex numbers of all spectra."""
    growth: int
    """Powers of two by which a frequency may be larger than the largest number of a signal."""
    largest: int
    """Numbers in memory whose maximum, as bits, is the largest magnitude of the signals."""
    is_sampled: bool
    """True if that magnitude comes from a sample. The first launch takes a pointer to the numbers and stores the
    largest frequency beyond fp16, or 0, at index `largest` + 1 behind it; the second launch takes a pointer to that
    number."""
    together: int = 0
    """Consecutive signals scaled by one power of two, which the other signals of their image share; 0 if one power
    scales all signals."""

    @classmethod
    def of(cls, problem: Fft, order: Split16Order, largest: int, *, is_sampled: bool) -> Split16Spectra:
        growth = math.ceil(math.log2(math.prod(problem.bordered_size))) + (HEADROOM if is_sampled else 0)
        return cls(order, problem.output.size, growth, largest, is_sampled, _of_a_row(problem))

    @property
    def low(self) -> int:
        """fp16 numbers from a high part to its low part."""
        return RUN if self.order is Split16Order.TURNS else self.numbers

    @property
    def imaginary(self) -> int:
        """fp16 numbers from a part of a real part to the same part of the imaginary part."""
        return 2 * self.numbers

    @property
    def place(self) -> str:
        """CUDA expression of the place of the high part of real number `number`."""
        return f"number + (number & ~{RUN - 1}ll)" if self.order is Split16Order.TURNS else "number"


def _of_a_row(problem: Fft) -> int:
    """Signals in a row of the product that follows: those of a tile or of an image; 0 if all signals share a group."""
    if problem.together is None:
        return 0
    return problem.together if problem.tiling is None else problem.tiling.inner
