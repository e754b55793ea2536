"""Spectra that are products of two others: an inverse transform computes them as it loads, and nobody stores them.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", table 1 (the products between the transforms of a
layer). A product of few terms would be written and read for a handful of multiply-adds.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from math import ceil, prod
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count, flag
from warpsmith.generator.cgemm.problem import Op
from warpsmith.generator.problem import member

MOST_TERMS = 4
"""Most terms of the sum that makes a number of a spectrum. Every tile of results that needs a term reads it from the L2
cache: with more terms that takes longer than to store the product and to read it once."""

ROWS_OF_A_TILE, COLUMNS_OF_A_TILE = (1, 2, 4), (2, 4, 6, 8, 12, 16)
"""Rows and columns of results that a block transforms together; they share rows of a and columns of b."""
NUMBERS_OF_A_SECTOR = 4
"""Complex numbers in a 32-byte sector of memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """Matrix product op(a) @ op(b) for each frequency; its numbers are that frequency of all spectra of a batch.

    The batch is (rows, columns) of the results, the slowest first. a is (rows, terms) if its op is `n`, else (terms,
    rows); b is (terms, columns) if its op is `n`, else (columns, terms).

    Args:
        rows: rows of a result.
        columns: columns of a result.
        terms: terms of each sum.
        a: operation on the matrices of a before the product: `n` none, `t` transposed, `c` transposed and conjugated.
        b: operation on the matrices of b, likewise.
        offset: whether a number for each column is added to all points of its signals: a third input, `offset`,
            (columns), float32.

    Raises:
        BadArgument: a size below 1, more than MOST_TERMS terms, or an unknown op.
    """

    rows: int
    columns: int
    terms: int
    a: Op = Op.N
    b: Op = Op.N
    offset: bool = False

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        for name in ("rows", "columns"):
            set_field(self, name, count(getattr(self, name), f"{name} of a product"))
        set_field(self, "terms", count(self.terms, "terms of a product", MOST_TERMS))
        for name in ("a", "b"):
            set_field(self, name, member(Op, getattr(self, name), f"op of {name}"))
        set_field(self, "offset", flag(self.offset, "offset of a product"))

    @classmethod
    def of(cls, value: Any) -> Product | None:
        """Product from a Product or from its fields by name, as in a spec; None for None. Raises BadArgument."""
        if value is None or isinstance(value, cls):
            return value
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(value, Mapping) or not {"rows", "columns", "terms"} <= {*value} <= names:
            raise BadArgument(f"product must have {', '.join(sorted(names))}; got {value!r}")
        return cls(**value)

    @property
    def batch(self) -> int:
        """Number of spectra."""
        return self.rows * self.columns

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Shapes of one frequency's matrices a and b in memory."""
        return self.a.shape(self.rows, self.terms), self.b.shape(self.terms, self.columns)

    def has_tiles_of(self, rows: int, columns: int) -> bool:
        """True if tiles of `rows` by `columns` results divide the product evenly, in pairs side by side."""
        return columns % 2 == 0 and self.columns % columns == 0 and self.rows % rows == 0

    def sectors(self, rows: int, columns: int) -> int:
        """Sectors of memory per frequency that hold `rows` neighbouring rows of a and `columns` columns of b, about."""
        return sum(ceil(count * self.terms / NUMBERS_OF_A_SECTOR) for count in (rows, columns))

    def tile(self, points: int, most: int) -> tuple[int, int]:
        """Rows and columns of the best tile of results: the fewest sectors per result, and the largest of those.

        A result has `points` points, and a tile has at most `most` complex points, one for two results: pairs lie side
        by side.
        """
        found = [
            (rows, columns)
            for rows, columns in itertools.product(ROWS_OF_A_TILE, COLUMNS_OF_A_TILE)
            if self.has_tiles_of(rows, columns) and rows * columns * points <= 2 * most
        ]
        return min(found or [(1, 2)], key=lambda each: (self.sectors(*each) / prod(each), -prod(each)))

    def alike(self) -> Product:
        """The same product for two spectra."""
        return dataclasses.replace(self, rows=1, columns=2)

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.terms}:{self.a}{self.b}{'+offset' if self.offset else ''}"

    def spec(self) -> dict[str, Any]:
        """JSON values of the fields."""
        return {**dataclasses.asdict(self), "a": str(self.a), "b": str(self.b)}
