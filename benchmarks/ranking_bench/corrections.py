"""Orders of families: the models' own, and those with a correction learned from other problems' times.

A correction is the expected logarithm of a family's time over what its model expects. Each is pulled to 0, so that a
family with few times keeps its model's word, and a family without times does so wholly.

Source: shrinkage of means, James and Stein 1961; ridge regression, Hoerl and Kennard 1970; kernel regression, Nadaraya
1964. The constants were set before the first run and are not fitted to it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ranking_bench.cases import Case
from warpsmith.generator.problem import Problem
from warpsmith.plans.family_choice import Measured, numbers_of, predicted

Chooser = Callable[[Sequence[Case], Case], str]
"""Names the family that answers a case, after learning from others; both have at least one timed family."""
Correction = Callable[[Sequence[tuple[Case, float]], Case], float]
"""Correction of a family for a case, from the family's own rows: cases with the log of time over expected time."""

SHRINKAGE = 4.0
"""Rows of value 0 that a mean, or the intercept of a fit, is pulled to 0 by."""
SLOPE_RIDGE = 8.0
"""Ridge weight of an exponent, in rows."""
LEAST_ROWS = 4
"""Least number of rows for a fit; fewer give a mean."""
LIKENESS = 2.0
"""Distance, summed over log features, at which the weight of a row falls by a factor e."""
NEAR_SHRINKAGE = 2.0
"""Rows of value 0 and weight 1 that a mean of near rows is pulled to 0 by."""


@functools.lru_cache(maxsize=4096)
def kind_of(problem: Problem) -> str:
    """Operation and words of a problem's features: pass, numeric type, layout; filter steps are left out."""
    words = problem.features()
    named = (str(words[name]) for name in sorted(words) if isinstance(words[name], str) and name != "steps")
    return " ".join((problem.operation, *named))


def as_modelled(learned: Sequence[Case], case: Case) -> str:  # noqa: ARG001 - part of the interface
    """The family with the least expected time."""
    return case.timed[0].family


def corrected(correction: Correction, *, kinds: bool = True) -> Chooser:
    """Chooser by expected times with a correction; a family without a model stays first, as in `ranking.likely`.

    Args:
        correction: the correction of a family.
        kinds: learn only from problems of the same kind.
    """

    def chosen(learned: Sequence[Case], case: Case) -> str:
        alike = [each for each in learned if not kinds or kind_of(each.problem) == kind_of(case.problem)]

        def log_ns(family: str, expected_ns: float | None) -> float:
            if expected_ns is None:
                return -math.inf
            return math.log(expected_ns) + correction(rows_of(family, alike), case)

        return min(case.timed, key=lambda each: log_ns(each.family, each.expected_ns)).family

    return chosen


def rows_of(family: str, learned: Sequence[Case]) -> list[tuple[Case, float]]:
    """Cases with a time and an expected time of a family, with the log of their ratio."""
    return [
        (case, math.log(each.time_ns / each.expected_ns))
        for case in learned
        for each in case.timed
        if each.family == family and each.expected_ns
    ]


def mean(rows: Sequence[tuple[Case, float]], case: Case) -> float:  # noqa: ARG001 - part of the interface
    """Mean of the family's rows, with SHRINKAGE."""
    return sum(log for _, log in rows) / (len(rows) + SHRINKAGE)


def ridge(rows: Sequence[tuple[Case, float]], case: Case) -> float:
    """Linear fit over log features, evaluated at the nearest point of the rows' bounding box."""
    if len(rows) < LEAST_ROWS:
        return mean(rows, case)
    features = np.array([numbers_of(each.problem) for each, _ in rows])
    logs, centre = np.array([log for _, log in rows]), features.mean(axis=0)
    design = np.column_stack([np.ones(len(rows)), features - centre])
    penalty = np.diag([SHRINKAGE, *[SLOPE_RIDGE] * features.shape[1]])
    fitted = np.linalg.solve(design.T @ design + penalty, design.T @ logs)
    inside = np.clip(np.array(numbers_of(case.problem)), features.min(axis=0), features.max(axis=0))
    return float(np.concatenate(([1.0], inside - centre)) @ fitted)


def near(rows: Sequence[tuple[Case, float]], case: Case) -> float:
    """Mean of the family's rows with greater weights for nearer problems, and NEAR_SHRINKAGE."""
    here, total, weights = np.array(numbers_of(case.problem)), 0.0, NEAR_SHRINKAGE
    for each, log in rows:
        weight = math.exp(-float(np.abs(np.array(numbers_of(each.problem)) - here).sum()) / LIKENESS)
        total, weights = total + weight * log, weights + weight
    return total / weights


def by_times(learned: Sequence[Case], case: Case) -> str:
    """The fastest family by `family_choice`'s model, which knows times alone; the models' first if it knows too few.

    A look-up uses that model on stored problems of the same device that pass its own check.
    """
    measured = [
        Measured(each.problem, tuple((one.family, one.time_ns) for one in each.timed))
        for each in learned
        if each.timed and each.device.key() == case.device.key()
    ]
    told = predicted(case.problem, measured, [each.family for each in case.timed])
    known = len(told) == len(case.timed)
    return min(told, key=told.__getitem__) if known else as_modelled(learned, case)


CORRECTIONS: Mapping[str, Correction] = {"mean": mean, "ridge": ridge, "near": near}
"""Corrections that learn from problems of the same kind, by name."""
LEARNED: Mapping[str, Chooser] = {
    "mean of all kinds": corrected(mean, kinds=False),
    **{name: corrected(each) for name, each in CORRECTIONS.items()},
    "times alone": by_times,
}
"""Learned orders, by name."""
