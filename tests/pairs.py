"""Cases in which the values of several factors meet in pairs: all combinations would be too many."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def covering(
    factors: Mapping[str, Sequence[Any]], allowed: Callable[[Mapping[str, Any]], bool]
) -> list[dict[str, Any]]:
    """Cases in which each two values of two factors meet, where allowed: greedily, the same in every run."""
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
