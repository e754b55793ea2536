"""Spectra that are products of two others, as text for CUDA: for `templates/fft/block_product.cu.jinja`."""

from __future__ import annotations

import dataclasses
from math import prod

from warpsmith.generator.cgemm.words import Op
from warpsmith.generator.fft.axes import modulo, quotient
from warpsmith.generator.fft.block.choice import Choice
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.product import Product
from warpsmith.generator.literals import float_literal


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """One of a sum, for two results side by side: expressions of CUDA."""

    a: str
    one: str
    """The first result's number of b, in the variables that hold what is read of b."""
    other: str


@dataclasses.dataclass(frozen=True, slots=True)
class SpectraProduct:
    """The factors of a problem's spectra. Pitches are in complex numbers."""

    problem: Fft
    product: Product
    transforms: int
    """Of a tile, in pairs."""
    rows: int
    """Of the product, of which a tile has results."""

    @classmethod
    def of(cls, problem: Fft, choice: Choice) -> SpectraProduct | None:
        """None where spectra are read as they are."""
        product = problem.product
        return None if product is None else cls(problem, product, choice.transforms, choice.rows)

    @property
    def tile_columns(self) -> int:
        """Columns of the product, of which a tile has results."""
        return 2 * self.transforms // self.rows

    @property
    def row(self) -> str:
        """Of pair t, from the tile's first row on; empty where it has one."""
        return f"({quotient('t', self.tile_columns // 2)})" if self.rows > 1 else ""

    @property
    def pair(self) -> str:
        """Of pair t the first result's number, from the tile's first one on."""
        return f"({self.row} * {self.product.columns} + {self.column})" if self.rows > 1 else self.column

    @property
    def column(self) -> str:
        """Of pair t the first column, from the tile's first one on."""
        return f"2 * ({modulo('t', self.tile_columns // 2)})" if self.rows > 1 else "2 * t"

    @property
    def tiles(self) -> int:
        """In all, of which those of the same rows follow each other."""
        return self.product.batch // (2 * self.transforms)

    @property
    def first(self) -> str:
        """The first result of a tile."""
        across = self.product.columns // self.tile_columns
        if self.rows == 1:
            return f"tile_number * {self.tile_columns}"
        group = f"tile_number / {across} * {self.rows * self.product.columns}"
        return f"{group} + tile_number % {across} * {self.tile_columns}"

    @property
    def offset_scale(self) -> str:
        """What an offset is of frequency 0, by which results are scaled; empty where there is none."""
        return float_literal(1 / self.problem.scale) if self.product.offset else ""

    @property
    def row_pitch(self) -> int:
        """Of a, from a row to the next."""
        return 1 if self.product.a.transposes else self.product.terms

    @property
    def column_pitch(self) -> int:
        """Of b, from a column to the next."""
        return self.product.terms if self.product.b.transposes else 1

    @property
    def a_pitch(self) -> int:
        """From the matrix of a frequency to that of the next."""
        return prod(self.product.shapes[0])

    @property
    def b_pitch(self) -> int:
        return prod(self.product.shapes[1])

    @property
    def columns(self) -> int:
        """Of the half spectrum."""
        return self.problem.spectrum_size[-1]

    @property
    def vectors(self) -> tuple[int, ...]:
        """Where what two columns need of b lies, two numbers at once, in such pairs from the first: all terms of one
        column and then of the other, or a term of both and then the next.
        """
        step = 1 if self.product.b.transposes else self.product.columns // 2
        return tuple(number * step for number in range(self.product.terms))

    @property
    def terms(self) -> tuple[Term, ...]:
        """In their order."""
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
