"""Choice of a faster family from the stored times of several families."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED, Family
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import able_families
from warpsmith.plans.family_model import (
    CrossCheck,
    Measured,
    cross_check,
    goes_with,
    how_far,
    left_out,
    nearest,
    predicted,
    words_of,
)
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
    told = (
        f"family: {chosen.name} by a model of {count} stored times (expected {format_time(likely[chosen.name])}; "
        f"{ordinary.family.name} {format_time(likely[ordinary.family.name])})"
    )
    return dataclasses.replace(guess, reasons=(*guess.reasons, told))


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
def checked(evidence: Evidence) -> CrossCheck:
    """Cross-check of the model on problems left out of the evidence, compared with the choice without it.

    The latter looks only at the nearest problems of the evidence: looking at all winners takes 10 ms per problem.
    """
    here = evidence.device.key()
    by_problem = {record.problem: record for record in evidence.records if record.device.key() == here}
    ordinary = {}
    for each in left_out(evidence.measured):
        others = tuple(
            by_problem[other.problem]
            for _, _, other in nearest(each.problem, evidence.measured)
            if not goes_with(each.problem, other.problem, sizes=evidence.sizes)
        )
        try:
            ordinary[each.problem] = best_guess(each.problem, evidence.device, others).family.name
        except BadArgument:  # only a search may choose a family for it
            continue
    return cross_check(evidence.measured, ordinary, sizes=evidence.sizes)


def _of_family(
    family: Family, problem: Problem, device: Device, stores: StoreChain[Winners], records: Sequence[Record]
) -> Guess | None:
    """A family's answer: from its fastest kernels for near problems, or its default; None if neither may answer."""
    guess = best_guess(problem, device, of_family(family, stores, records), family)
    is_quick = family.unrolled(problem, guess.config) <= MAX_UNROLLED
    return guess if is_quick and (guess.record is not None or family.may_answer) else None


def of_family(family: Family, stores: StoreChain[Winners], records: Iterable[Record]) -> tuple[Record, ...]:
    """A family's winners among `records` and its runners-up in all stores, of any problem and device.

    Only the first record of each problem and device counts; those under the usual conditions come first.
    """
    won = (record for record in records if record.trial.family == family.name)
    found: dict[tuple[str, str], Record] = {}
    for record in (*won, *stores.beaten(family.name)):
        found.setdefault((record.problem.key(), record.device.key()), record)
    return tuple(found.values())
