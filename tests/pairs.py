"""Pairwise test cases: they cover all pairs of values of several factors. All combinations would be too many."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def covering(
    factors: Mapping[str, Sequence[Any]], allowed: Callable[[Mapping[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Cases that cover each allowed pair of values of two factors, chosen greedily and the same in every run."""
    rng = random.Random(0)
    missing = [
        dict(pair)
        for a, b in itertools.combinations(factors, 2)
        for pair in itertools.product([(a, value) for value in factors[a]], [(b, value) for value in factors[b]])
        if allowed(dict(pair))
    ]
    cases = []
    while missing:
        drawn = [{name: rng.choice(values) for name, values in factors.items()} | missing[0] for _ in range(60)]
        best = max(filter(allowed, drawn), key=lambda case: sum(pair.items() <= case.items() for pair in missing))
        missing = [pair for pair in missing if not pair.items() <= best.items()]
        cases.append(best)
    return cases
