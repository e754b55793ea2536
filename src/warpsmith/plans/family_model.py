"""How long each family is likely to take for a problem that nobody has tuned, from what it took for others.

One log-linear model a family: the logarithm of its time over the logarithms of the problem's features
(`Problem.features`), fitted anew for each question, near problems counting more. Its value at the question is the
intercept of the fit. Plain Python: a look-up has a few dozen rows, and NumPy would take longer to load than the fit.

Source: locally weighted regression, Cleveland and Devlin 1988, with the weights of Atkeson, Moore and Schaal 1997,
section 3; ridge regression for directions in which the problems do not differ, Hoerl and Kennard 1970.
"""

from __future__ import annotations

import dataclasses
import functools
import heapq
import math
import operator
from collections.abc import Iterable, Mapping, Sequence

from warpsmith.generator.problem import Problem

LEAST_ROWS = 8
"""Times of a family, of as many problems, from which on it has a model: two for each number of a fit with three
features."""
MOST_NEAR = 64
"""Problems that a prediction is made from, the nearest ones: a fit of one family takes 0.4 ms."""
LIKENESS = 1.0
"""Distance at which a row counts e times less: a factor of e in one feature."""
RIDGE = 0.1
"""What an exponent costs, in rows."""
SLOWEST = 1.0
"""A family slower than e = 2.7 times the fastest of its problem counts as that: it was searched for less, and by how
much it lost does not matter."""


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A problem that was tuned, and the fastest of each family there."""

    problem: Problem
    times: tuple[tuple[str, float], ...]
    """Families and times in ns, one at the least."""

    @property
    def best_ns(self) -> float:
        """The fastest of all."""
        return min(time_ns for _, time_ns in self.times)

    def log_ns(self, family: str) -> float | None:
        """The logarithm of a family's time, no more than SLOWEST above the best; None where it has none."""
        time_ns = dict(self.times).get(family)
        return None if time_ns is None else min(math.log(time_ns), math.log(self.best_ns) + SLOWEST)


@functools.lru_cache(maxsize=4096)
def numbers_of(problem: Problem) -> tuple[float, ...]:
    """The logarithms of a problem's features that are numbers, in a fixed order."""
    found = problem.features()
    return tuple(math.log(found[name]) for name in sorted(found) if not isinstance(found[name], str))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=4096)
def words_of(problem: Problem) -> tuple[tuple[str, str], ...]:
    """Its features that are words."""
    return tuple((name, value) for name, value in sorted(problem.features().items()) if isinstance(value, str))


def predicted(problem: Problem, measured: Iterable[Measured], families: Iterable[str]) -> dict[str, float]:
    """What each of `families` is likely to take for `problem`, in ns; those with fewer than LEAST_ROWS are left out.

    Args:
        problem: the question.
        measured: other problems of the operation, on one device under alike conditions. Those whose words differ say
            nothing.
        families: by name.
    """
    near = nearest(problem, measured)
    found = {}
    for family in families:
        rows = [(far, offset, log) for far, offset, each in near if (log := each.log_ns(family)) is not None]
        if len(rows) >= LEAST_ROWS:
            found[family] = math.exp(_intercept(rows))
    return found


Offset = tuple[float, ...]
"""From one problem to another, in the logarithms of their features."""


def nearest(problem: Problem, measured: Iterable[Measured]) -> list[tuple[float, Offset, Measured]]:
    """MOST_NEAR of the problems with equal words, nearest first: how far each is, in which direction, and itself."""
    words, here = words_of(problem), numbers_of(problem)
    found = []
    for number, each in enumerate(measured):
        if words_of(each.problem) == words:
            offset = tuple(map(operator.sub, numbers_of(each.problem), here))
            found.append((math.hypot(*offset), offset, number, each))
    return [(far, offset, each) for far, offset, _, each in heapq.nsmallest(MOST_NEAR, found)]


def how_far(problem: Problem, measured: Iterable[Measured]) -> float:
    """The distance of the nearest problem with equal words, in the logarithms of the features; infinite without any."""
    return next((far for far, _, _ in nearest(problem, measured)), math.inf)


def _intercept(rows: Sequence[tuple[float, Offset, float]]) -> float:
    """The value at offset 0 of a weighted linear fit with a ridge.

    Args:
        rows: how far a problem is, in which direction, and the logarithm of its time; the nearest first.
    """
    least = rows[0][0]
    size = 1 + len(rows[0][1])
    normal = [[0.0] * (size + 1) for _ in range(size)]
    for distance, offset, log in rows:
        weight = math.exp((least - distance) / LIKENESS)  # of a far question the nearest still count fully
        row = (1.0, *offset, log)
        for line, factor in enumerate(row[:-1]):
            share = weight * factor
            normal[line] = [value + share * other for value, other in zip(normal[line], row, strict=True)]
    for line in range(1, size):
        normal[line][line] += RIDGE
    return _first_of_solution(normal)


def _first_of_solution(normal: list[list[float]]) -> float:
    """The first unknown of a positive definite system with its right side in the last column, by elimination from the
    last unknown up.
    """
    for line in range(len(normal) - 1, 0, -1):
        pivot = normal[line]
        for upper in normal[:line]:
            factor = upper[line] / pivot[line]
            upper[:] = [value - factor * other for value, other in zip(upper, pivot, strict=True)]
    return normal[0][-1] / normal[0][0]


@dataclasses.dataclass(frozen=True, slots=True)
class CrossCheck:
    """How well families are chosen for problems that were left out, one at a time."""

    problems: int
    right: int
    """Of which the fastest family was chosen."""
    lost: float
    """The geometric mean of the chosen family's time over the fastest one's, less 1."""
    right_without: int
    """The same of what a look-up chooses without the model."""
    lost_without: float
    reach: float
    """How far the nearest measured problem was, of the farthest that was left out: the check says nothing beyond."""

    @property
    def is_passed(self) -> bool:
        """Whether the model chooses better, on enough problems."""
        return self.problems >= LEAST_CHECKED and self.lost < self.lost_without


LEAST_CHECKED = 8
"""Problems left out, from which on a cross-check decides."""
MOST_CHECKED = 12
"""Problems that are left out at most, spread over all: 3 ms each where 50 are stored, and 8 where there are 300."""


def goes_with(problem: Problem, other: Problem, *, sizes: bool) -> bool:
    """Whether `other` is unknown too where `problem` is left out: itself, and with `sizes` its other sizes."""
    return other == problem or (sizes and problem.is_resized(other))


def cross_check(measured: Sequence[Measured], without: Mapping[Problem, str], *, sizes: bool = False) -> CrossCheck:
    """Leaves out the problems of `without`, one at a time.

    Problems of which less than two families have a time, or the family chosen has none, say nothing.

    Args:
        measured: all.
        without: the family that a look-up chooses where each is left out.
        sizes: whether its other sizes are left out with each, as where the question has none.
    """
    outcomes, reach = [], 0.0
    for each in (each for each in measured if each.problem in without):
        times, ordinary = dict(each.times), without[each.problem]
        others = [other for other in measured if not goes_with(each.problem, other.problem, sizes=sizes)]
        likely = predicted(each.problem, others, times)
        if ordinary not in likely or len(likely) < 2:
            continue
        chosen = min(likely, key=likely.__getitem__)
        outcomes.append((times[chosen] / each.best_ns, times[ordinary] / each.best_ns))
        reach = max(reach, how_far(each.problem, others))
    if not outcomes:
        return CrossCheck(0, 0, 0.0, 0, 0.0, 0.0)
    with_model, ordinary_ones = zip(*outcomes, strict=True)
    return CrossCheck(
        problems=len(outcomes),
        right=with_model.count(1.0),
        lost=math.expm1(sum(map(math.log, with_model)) / len(outcomes)),
        right_without=ordinary_ones.count(1.0),
        lost_without=math.expm1(sum(map(math.log, ordinary_ones)) / len(outcomes)),
        reach=reach,
    )


def left_out(measured: Sequence[Measured]) -> tuple[Measured, ...]:
    """MOST_CHECKED of the problems that say something, spread over all."""
    telling = [each for each in measured if len(each.times) > 1]
    return tuple(telling[:: max(1, -(-len(telling) // MOST_CHECKED))])
