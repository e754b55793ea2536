"""Winograd's minimal filtering along a row: two adjacent outputs at a time, for fewer multiplications.

Three taps make two outputs by four products instead of six, F(2, 3). Two remaining taps of a row take F(2, 2), three
products instead of four, and one remaining tap two products. Each product multiplies a sum or difference of pixels by a
linear combination of taps, which is computed once for all outputs.

Source: Winograd 1980, "Arithmetic complexity of computations"; Lavin and Gray 2016, "Fast algorithms for convolutional
neural networks", section 4.1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cache

TRIPLE = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))
"""F(2, 3): factors of x0-x2, x1+x2, x2-x1 and x3-x1. The first output adds the first three products. The second output
adds the second and the fourth and subtracts the third."""
PAIR = ((1.0, 0.0), (1.0, 1.0), (0.0, 1.0))
"""F(2, 2): factors of x0-x1, x1 and x2-x1. The first output adds the first two products, the second the last two."""
SINGLE = ((1.0,), (1.0,))
"""A single tap: factor of x0 for the first output, of x1 for the second."""
BY_TAPS = {3: TRIPLE, 2: PAIR, 1: SINGLE}


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Adjacent taps of a row that are filtered together."""

    taps: int
    first_tap: int
    first_product: int

    @property
    def products(self) -> int:
        """Multiplications for two outputs."""
        return len(BY_TAPS[self.taps])


@cache
def groups(taps: int) -> tuple[Group, ...]:
    """Groups of a row of `taps` taps: threes, and the rest."""
    made: list[Group] = []
    for first in range(0, taps, 3):
        product = made[-1].first_product + made[-1].products if made else 0
        made.append(Group(min(3, taps - first), first, product))
    return tuple(made)


def products(taps: int) -> int:
    """Multiplications for two adjacent outputs of a row of `taps`."""
    last = groups(taps)[-1]
    return last.first_product + last.products


@cache
def factors_matrix(taps: int, turned: bool = False) -> tuple[tuple[float, ...], ...]:
    """Matrix that makes the factors of the products from a row of `taps`; `turned` reverses the row."""
    rows: list[tuple[float, ...]] = []
    for group in groups(taps):
        for factors in BY_TAPS[group.taps]:
            row = [0.0] * taps
            row[group.first_tap : group.first_tap + group.taps] = factors
            rows.append(tuple(reversed(row)) if turned else tuple(row))
    return tuple(rows)


def factors(row: Sequence[float]) -> list[float]:
    """Factors of the products for a known row of taps."""
    return [math.fsum(a * b for a, b in zip(line, row, strict=True)) for line in factors_matrix(len(row))]
