"""Pairwise test cases: they cover all pairs of values of several factors. All combinations would be too many."""

from __future__ import annotations

import functools
import itertools
import operator
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Chosen = Mapping[str, int]
"""Number of the chosen value of some factors or of all."""


def covering(
    factors: Mapping[str, Sequence[Any]], allowed: Callable[[Mapping[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Cases that cover each allowed pair of values of two factors, chosen greedily and the same in every run."""
    rng = random.Random(0)

    def case_of(chosen: Chosen) -> dict[str, Any]:
        return {name: factors[name][number] for name, number in chosen.items()}

    pairs = [
        {a: i, b: j}
        for a, b in itertools.combinations(factors, 2)
        for i, j in itertools.product(range(len(factors[a])), range(len(factors[b])))
        if allowed(case_of({a: i, b: j}))
    ]
    excluded = {
        name: [_bits(pair.get(name, number) != number for pair in pairs) for number in range(len(values))]
        for name, values in factors.items()
    }

    def uncovered(chosen: Chosen) -> int:
        """Bit p is set if the case lacks a value of pair p. Whole numbers compare 900 pairs at once."""
        return functools.reduce(operator.or_, (excluded[name][number] for name, number in chosen.items()), 0)

    missing = _bits(True for _ in pairs)
    cases = []
    while missing:
        first = pairs[(missing & -missing).bit_length() - 1]
        drawn = [{name: rng.choice(range(len(values))) for name, values in factors.items()} | first for _ in range(60)]
        possible = [chosen for chosen in drawn if allowed(case_of(chosen))]
        best = min(possible, key=lambda chosen: (missing & uncovered(chosen)).bit_count())
        missing &= uncovered(best)
        cases.append(case_of(best))
    return cases


def _bits(values: Iterable[bool]) -> int:
    return sum(1 << number for number, value in enumerate(values) if value)
