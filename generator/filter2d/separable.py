"""Filters as sums of few products of a column and a row."""

from __future__ import annotations

import dataclasses
import math
from functools import cache

from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.problem import Accuracy

Matrix = tuple[tuple[float, ...], ...]

MAX_RESIDUAL = 2e-7
"""Largest rest of a filter that the terms leave, relative to its reference: a fifth of the results' error bound."""
MAX_GROWTH = 4.0
"""Largest sum of the terms' |products|, relative to the same reference: float32 rounding errors grow by that factor."""


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """One term of a filter: taps[r][s] gains column[r] * row[s]."""

    filter: int
    column: tuple[float, ...]
    row: tuple[float, ...]

    @property
    def cost(self) -> int:
        """Multiply-adds per output."""
        return sum(value != 0 for value in (*self.column, *self.row))


@cache
def separable_terms(problem: Filter2d) -> tuple[Term, ...]:
    """Terms of the problem's known filters that need fewer multiply-adds than its taps; empty if there are none.

    Source: convolution by the terms of a low-rank filter; the terms are found by adaptive cross approximation with full
    pivoting, which keeps zeros and equal taps as they are.
    """
    terms: list[Term] = []
    for index, taps in enumerate(problem.taps):
        found = _cross_approximation(index, taps, problem.accuracy)
        if not found:
            return ()
        terms += found
    taps_cost = sum(value != 0 for taps in problem.taps for row in taps for value in row)
    return tuple(terms) if sum(term.cost for term in terms) < taps_cost else ()


def _cross_approximation(index: int, taps: Matrix, accuracy: Accuracy) -> list[Term]:
    """Terms whose sum is `taps` to within MAX_RESIDUAL; empty if there would be too many or they would cancel."""
    rest = [list(row) for row in taps]
    terms: list[Term] = []
    while not _is_small(rest, MAX_RESIDUAL, taps, accuracy):
        if len(terms) == min(len(taps), len(taps[0])) // 2:
            return []
        r, s = max(
            ((r, s) for r in range(len(rest)) for s in range(len(rest[0]))), key=lambda at: abs(rest[at[0]][at[1]])
        )
        column, row = [line[s] for line in rest], [value / rest[r][s] for value in rest[r]]
        rest = [
            [value - c * x for value, x in zip(line, row, strict=True)] for line, c in zip(rest, column, strict=True)
        ]
        terms.append(Term(index, tuple(column), tuple(row)))
    grown = [
        [sum(abs(term.column[r] * term.row[s]) for term in terms) for s in range(len(taps[0]))]
        for r in range(len(taps))
    ]
    return terms if _is_small(grown, MAX_GROWTH, taps, accuracy) else []


def _is_small(matrix: list[list[float]], times: float, taps: Matrix, accuracy: Accuracy) -> bool:
    """True if a matrix is at most `times` the taps, in the norm of the accuracy.

    Elementwise accuracy compares each number with its tap, since a bright pixel may lie under any tap, however small.
    Normwise accuracy compares the sum of magnitudes with that of the taps. Imagewise accuracy, relative to the filter's
    largest gain, compares it with the root of the sum of the taps' squares, the filter's mean gain (Parseval).
    """
    pairs = [
        (abs(a), abs(b)) for row, tap_row in zip(matrix, taps, strict=True) for a, b in zip(row, tap_row, strict=True)
    ]
    if accuracy is Accuracy.ELEMENTWISE:
        return all(a <= times * b for a, b in pairs)
    norm = math.hypot(*(b for _, b in pairs)) if accuracy is Accuracy.IMAGEWISE else sum(b for _, b in pairs)
    return sum(a for a, _ in pairs) <= times * norm
