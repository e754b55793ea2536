"""Choice of a faster family from the stored times of several families, by a model of each family's time.

The model is log-linear: the logarithm of a family's time over the logarithms of the problem's features
(`Problem.features`). It is fitted anew for each request, with greater weights for nearer problems. Its value at the
request is the intercept of the fit. Plain Python: a look-up has a few dozen rows, and NumPy would take longer to load
than the fit.

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

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import able_families
from warpsmith.plans.guesses import Guess, best_guess
from warpsmith.plans.match import MatchKind
from warpsmith.store.record import FamilyTime, Record
from warpsmith.store.store_chain import StoreChain
from warpsmith.store.store_reader import Winners
from warpsmith.units import format_time


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """Data that a choice between families is based on. Two are equal if their times are."""

    device: Device
    measured: tuple[Measured, ...]
    """Times on that device, of problems whose categorical features are equal."""
    sizes: bool
    """True if no record has the request's problem in another size, so that a check must leave other sizes out too. With
    another size at hand, the nearest winner is nearly always of the right family.
    """
    records: tuple[Record, ...] = dataclasses.field(compare=False)
    """Winners of the operation on all devices, which decide without a model."""


def better_guess(gate: Gate, stores: StoreChain[Winners], records: tuple[Record, ...], ordinary: Guess) -> Guess | None:
    """The answer of another family than the `ordinary` one, if the model expects it to be faster.

    None if the model agrees, knows too little, or did not choose better for left-out problems, and if the request lies
    farther from the measured problems than any of those. The cross-check runs only if the two disagree, and once for
    equal stored times.

    Args:
        gate: gate of the requested problem, for which nothing exact is stored, and of its device.
        stores: stores with the times of all families.
        records: winners of the operation that may answer.
        ordinary: the answer without a model.
    """
    problem, device = gate.problem, gate.device
    beaten = stores.family_times(problem.operation)
    if not beaten:
        return None
    sizes = ordinary.kind is MatchKind.DEFAULT
    evidence = Evidence(device, _alike(problem, measured_on(device, records, beaten)), sizes, records)
    able = {family.name: family for family in able_families(gate)}
    likely = predicted(problem, evidence.measured, able)
    if ordinary.family.name not in likely or len(likely) < 2:
        return None
    chosen = able[min(likely, key=likely.__getitem__)]
    if chosen is ordinary.family or not _is_believed(problem, evidence):
        return None
    guess = _of_family(chosen, problem, device, stores, records)
    if guess is None:
        return None
    count = sum(len(each.times) for each in evidence.measured)
    reason = (
        f"family: {chosen.name} by a model of {count} stored times (expected {format_time(likely[chosen.name])}; "
        f"{ordinary.family.name} {format_time(likely[ordinary.family.name])})"
    )
    return dataclasses.replace(guess, reasons=(*guess.reasons, reason))


def _is_believed(problem: Problem, evidence: Evidence) -> bool:
    """True if the model chose better for left-out problems, one of them at least as far from the others as this one."""
    check = checked(evidence)
    return check.is_passed and how_far(problem, evidence.measured) <= check.reach


def measured_on(device: Device, records: Iterable[Record], beaten: Iterable[FamilyTime]) -> tuple[Measured, ...]:
    """Problems of `records` on a device, with the times of all their families under the winner's conditions."""
    by_subject: dict[tuple[str, str], tuple[Problem, dict[str, float]]] = {}
    here = device.key()
    for record in records:
        if record.device.key() == here:
            times = {record.trial.family: record.timing.median_ns}
            by_subject.setdefault((_key_of(record.problem), record.conditions), (record.problem, times))
    for each in beaten:
        if each.device_key == here and (found := by_subject.get((each.problem_key, each.conditions))) is not None:
            found[1].setdefault(each.family, each.median_ns)
    return tuple(Measured(problem, tuple(sorted(times.items()))) for problem, times in by_subject.values())


@functools.lru_cache(maxsize=4096)
def _key_of(problem: Problem) -> str:
    """The problem's key, which takes 6 us to format, cached: look-ups see the same record objects each time."""
    return problem.key()


def _alike(problem: Problem, measured: Iterable[Measured]) -> tuple[Measured, ...]:
    return tuple(each for each in measured if words_of(each.problem) == words_of(problem))


@functools.lru_cache(maxsize=16)
def checked(evidence: Evidence) -> FamilyCheck:
    """Cross-check of the model on problems left out of the evidence, compared with the choice without it.

    The latter looks only at the nearest problems of the evidence: looking at all winners takes 10 ms per problem. It
    takes 50 ms even so, and ends as soon as too few problems are left to pass.
    """
    times = ((each, _left_out_times(each, evidence)) for each in left_out(evidence.measured))
    telling = [(each, likely) for each, likely in times if len(likely) > 1]
    here = evidence.device.key()
    by_problem = {record.problem: record for record in evidence.records if record.device.key() == here}
    ordinary: dict[Problem, str] = {}
    for looked_at, (each, likely) in enumerate(telling):
        if len(ordinary) + len(telling) - looked_at < LEAST_CHECKED:
            break
        others = tuple(
            by_problem[other.problem]
            for _, _, other in nearest(each.problem, evidence.measured)
            if not goes_with(each.problem, other.problem, sizes=evidence.sizes)
        )
        try:
            family = best_guess(each.problem, evidence.device, others).family.name
        except BadArgument:  # only a search may choose a family for it
            continue
        if family in likely:
            ordinary[each.problem] = family
    return cross_check(evidence.measured, ordinary, sizes=evidence.sizes)


def _left_out_times(each: Measured, evidence: Evidence) -> dict[str, float]:
    """Times of the families of a problem by the model that does not know it."""
    return predicted(each.problem, _others(each, evidence.measured, sizes=evidence.sizes), dict(each.times))


def _of_family(
    family: Family, problem: Problem, device: Device, stores: StoreChain[Winners], records: Sequence[Record]
) -> Guess | None:
    """A family's answer: from its fastest kernels for near problems, or its default; None if neither may answer."""
    guess = best_guess(problem, device, of_family(family, stores, records), family)
    is_long = family.is_long(problem, guess.config)
    return guess if not is_long and (guess.record is not None or family.may_answer) else None


def of_family(family: Family, stores: StoreChain[Winners], records: Iterable[Record]) -> tuple[Record, ...]:
    """A family's winners among `records` and its runners-up in all stores, of any problem and device.

    Only the first record of each problem and device counts; those under the usual conditions come first.
    """
    won = (record for record in records if record.trial.family == family.name)
    found: dict[tuple[str, str], Record] = {}
    for record in (*won, *stores.beaten(family.name)):
        found.setdefault((record.problem.key(), record.device.key()), record)
    return tuple(found.values())


LEAST_ROWS = 8
"""Least number of a family's times, each of another problem, for a model: two for each coefficient of a fit with three
features.
"""
MOST_NEAR = 64
"""Number of nearest problems that a prediction is made from: a fit of one family takes 0.4 ms."""
LIKENESS = 1.0
"""Distance at which the weight of a row falls by a factor e: a factor of e in one feature."""
RIDGE = 0.1
"""Ridge weight of an exponent, in rows."""
SLOWEST = 1.0
"""Cap on the logarithm of a family's time over the fastest, e = 2.7 times: a slow family was searched less, and by how
much it lost does not matter.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """A tuned problem with the fastest time of each family."""

    problem: Problem
    times: tuple[tuple[str, float], ...]
    """Families and times in ns, at least one."""

    @property
    def best_ns(self) -> float:
        return min(time_ns for _, time_ns in self.times)

    def log_ns(self, family: str) -> float | None:
        """Logarithm of a family's time, at most SLOWEST above the best; None if it has no time."""
        time_ns = dict(self.times).get(family)
        return None if time_ns is None else min(math.log(time_ns), math.log(self.best_ns) + SLOWEST)


@functools.lru_cache(maxsize=4096)
def numbers_of(problem: Problem) -> tuple[float, ...]:
    """Logarithms of a problem's numeric features, in a fixed order."""
    found = problem.features()
    return tuple(math.log(found[name]) for name in sorted(found) if not isinstance(found[name], str))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=4096)
def words_of(problem: Problem) -> tuple[tuple[str, str], ...]:
    """The problem's categorical features."""
    return tuple((name, value) for name, value in sorted(problem.features().items()) if isinstance(value, str))


def predicted(problem: Problem, measured: Iterable[Measured], families: Iterable[str]) -> dict[str, float]:
    """Predicted time of each family for `problem`, in ns; families with fewer than LEAST_ROWS times are left out.

    Args:
        problem: requested problem.
        measured: other problems of the operation, on one device under equal conditions. Problems with other categorical
            features are ignored.
        families: names of the families.
    """
    near = nearest(problem, measured)
    found = {}
    for family in families:
        rows = [(far, offset, log) for far, offset, each in near if (log := each.log_ns(family)) is not None]
        if len(rows) >= LEAST_ROWS:
            found[family] = math.exp(_intercept(rows))
    return found


Offset = tuple[float, ...]
"""Difference of two problems in the logarithms of their features."""


def nearest(problem: Problem, measured: Iterable[Measured]) -> list[tuple[float, Offset, Measured]]:
    """The MOST_NEAR nearest problems with equal categorical features, nearest first: distance, offset and problem."""
    words, here = words_of(problem), numbers_of(problem)
    found = []
    for number, each in enumerate(measured):
        if words_of(each.problem) == words:
            offset = tuple(map(operator.sub, numbers_of(each.problem), here))
            found.append((math.hypot(*offset), offset, number, each))
    return [(far, offset, each) for far, offset, _, each in heapq.nsmallest(MOST_NEAR, found)]


def how_far(problem: Problem, measured: Iterable[Measured]) -> float:
    """Distance of the nearest problem with equal categorical features, in log features; infinite if there is none."""
    return next((far for far, _, _ in nearest(problem, measured)), math.inf)


def _intercept(rows: Sequence[tuple[float, Offset, float]]) -> float:
    """Value at offset 0 of a weighted linear fit with a ridge.

    Args:
        rows: distance, offset and log time of each problem, nearest first.
    """
    least = rows[0][0]
    size = 1 + len(rows[0][1])
    normal = [[0.0] * (size + 1) for _ in range(size)]
    for distance, offset, log in rows:
        weight = math.exp((least - distance) / LIKENESS)  # the nearest problem has weight 1
        row = (1.0, *offset, log)
        for line, factor in enumerate(row[:-1]):
            share = weight * factor
            normal[line] = [value + share * other for value, other in zip(normal[line], row, strict=True)]
    for line in range(1, size):
        normal[line][line] += RIDGE
    return _first_of_solution(normal)


def _first_of_solution(normal: list[list[float]]) -> float:
    """First unknown of a positive definite system, whose last column is the right side, by elimination from the last
    unknown up.
    """
    for line in range(len(normal) - 1, 0, -1):
        pivot = normal[line]
        for upper in normal[:line]:
            factor = upper[line] / pivot[line]
            upper[:] = [value - factor * other for value, other in zip(upper, pivot, strict=True)]
    return normal[0][-1] / normal[0][0]


@dataclasses.dataclass(frozen=True, slots=True)
class FamilyCheck:
    """Quality of the choice of families for problems that were left out, one at a time."""

    problems: int
    right: int
    """Number of problems for which the fastest family was chosen."""
    lost: float
    """Geometric mean of the chosen family's time over the fastest one's, less 1."""
    right_without: int
    """Number of problems for which a look-up without the model chooses the fastest family."""
    lost_without: float
    reach: float
    """Largest distance of a left-out problem from its nearest measured one; the check is not valid beyond."""

    @property
    def is_passed(self) -> bool:
        """True if the model chooses better than a look-up without it, on enough problems."""
        return self.problems >= LEAST_CHECKED and self.lost < self.lost_without


def _others(each: Measured, measured: Iterable[Measured], *, sizes: bool) -> list[Measured]:
    """The measured problems that stay when a problem is left out."""
    return [other for other in measured if not goes_with(each.problem, other.problem, sizes=sizes)]


LEAST_CHECKED = 8
"""Least number of left-out problems for a cross-check to pass."""
MOST_CHECKED = 12
"""Largest number of left-out problems, spread over all: 3 ms each if 50 are stored, and 8 ms if 300 are."""


def goes_with(problem: Problem, other: Problem, *, sizes: bool) -> bool:
    """True if `other` must be left out with `problem`: the problem itself and, with `sizes`, its other sizes."""
    return other == problem or (sizes and problem.is_resized(other))


def cross_check(measured: Sequence[Measured], without: Mapping[Problem, str], *, sizes: bool = False) -> FamilyCheck:
    """Leaves out the problems of `without`, one at a time.

    A problem is skipped if fewer than two families have a prediction, or the family chosen without the model has none.

    Args:
        measured: all tuned problems.
        without: for each problem to leave out, the family that a look-up then chooses.
        sizes: leave out each problem's other sizes too, as if the request had none.
    """
    outcomes, reach = [], 0.0
    for each in (each for each in measured if each.problem in without):
        times, ordinary = dict(each.times), without[each.problem]
        others = _others(each, measured, sizes=sizes)
        likely = predicted(each.problem, others, times)
        if ordinary not in likely or len(likely) < 2:
            continue
        chosen = min(likely, key=likely.__getitem__)
        outcomes.append((times[chosen] / each.best_ns, times[ordinary] / each.best_ns))
        reach = max(reach, how_far(each.problem, others))
    if not outcomes:
        return FamilyCheck(0, 0, 0.0, 0, 0.0, 0.0)
    with_model, ordinary_ones = zip(*outcomes, strict=True)
    return FamilyCheck(
        problems=len(outcomes),
        right=with_model.count(1.0),
        lost=math.expm1(sum(map(math.log, with_model)) / len(outcomes)),
        right_without=ordinary_ones.count(1.0),
        lost_without=math.expm1(sum(map(math.log, ordinary_ones)) / len(outcomes)),
        reach=reach,
    )


def left_out(measured: Sequence[Measured]) -> tuple[Measured, ...]:
    """Up to MOST_CHECKED problems with times of several families, spread over all."""
    telling = [each for each in measured if len(each.times) > 1]
    return tuple(telling[:: max(1, -(-len(telling) // MOST_CHECKED))])
