"""CUDA text of spectra that are products of two others, for `templates/fft/block_product.cu.jinja`."""

from __future__ import annotations

import dataclasses
from math import prod

from warpsmith.generator.cgemm.problem import Op
from warpsmith.generator.fft.axes import modulo, quotient
from warpsmith.generator.fft.block.block_choice import Choice
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.product import Product
from warpsmith.generator.render import float_literal


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
    def of(cls, problem: Fft, choice: Choice) -> SpectraProduct | None:
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
