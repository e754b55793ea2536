"""Spectra that are products of two others: an inverse transform makes them as it loads them, and nobody stores them.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", table 1 (the products between the transforms of a
layer). Of few terms a product is read and written for a handful of multiply-adds.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from math import ceil, prod
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count, flag
from warpsmith.generator.cgemm.words import Op
from warpsmith.generator.problem import member

MOST_TERMS = 4
"""Of the sum that makes a number of a spectrum. Each is read by every tile of results that it is part of, from the L2
cache: with more of them that takes longer than to store the product and to read it once."""

ROWS_OF_A_TILE, COLUMNS_OF_A_TILE = (1, 2, 4), (2, 4, 6, 8, 12, 16)
"""Of results that are transformed together: as many share a column of b as share a row of a."""
NUMBERS_OF_A_SECTOR = 4
"""Complex ones, of 32 bytes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """For each frequency a matrix product op(a) @ op(b), whose numbers are one frequency of all spectra of a batch.

    The batch is (rows, columns) of the results, the slowest first. a is (rows, terms) where its op is `n`, else
    (terms, rows); b is (terms, columns) where its op is `n`, else (columns, terms).

    Args:
        rows: of a result.
        columns: of a result.
        terms: of each sum.
        a: what is done with the matrices of a first: `n` nothing, `t` transposed, `c` transposed and conjugated.
        b: likewise of b.
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
        """A product, or its fields by name as a spec has them; None for none. Raises BadArgument."""
        if value is None or isinstance(value, cls):
            return value
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(value, Mapping) or not {"rows", "columns", "terms"} <= {*value} <= names:
            raise BadArgument(f"product must have {', '.join(sorted(names))}; got {value!r}")
        return cls(**value)

    @property
    def batch(self) -> int:
        """Spectra."""
        return self.rows * self.columns

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of a frequency's matrices a and b in memory."""
        return self.a.shape(self.rows, self.terms), self.b.shape(self.terms, self.columns)

    def has_tiles_of(self, rows: int, columns: int) -> bool:
        """Whether tiles of so many results are all alike, in pairs side by side."""
        return columns % 2 == 0 and self.columns % columns == 0 and self.rows % rows == 0

    def sectors(self, rows: int, columns: int) -> int:
        """Of memory, for each frequency, that hold so many neighbouring rows of a and columns of b, about."""
        return sum(ceil(count * self.terms / NUMBERS_OF_A_SECTOR) for count in (rows, columns))

    def tile(self, points: int, most: int) -> tuple[int, int]:
        """Rows and columns of the results, of so many points each, that a tile of `most` points at the most has best:
        those with the fewest sectors for a result, of the largest ones. Results are in pairs side by side.
        """
        found = [
            (rows, columns)
            for rows, columns in itertools.product(ROWS_OF_A_TILE, COLUMNS_OF_A_TILE)
            if self.has_tiles_of(rows, columns) and rows * columns * points <= 2 * most
        ]
        return min(found or [(1, 2)], key=lambda each: (self.sectors(*each) / prod(each), -prod(each)))

    def alike(self) -> Product:
        """The same of two spectra."""
        return dataclasses.replace(self, rows=1, columns=2)

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.terms}:{self.a}{self.b}{'+offset' if self.offset else ''}"

    def spec(self) -> dict[str, Any]:
        """As JSON values."""
        return {**dataclasses.asdict(self), "a": str(self.a), "b": str(self.b)}
