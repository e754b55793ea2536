"""From a question to the best stored answer. Never searches, never runs a kernel."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for, family_named
from warpsmith.plans.match import Match, MatchKind
from warpsmith.store.checked import Verdict, checked_of
from warpsmith.store.location import StoreChain, open_for_look_up
from warpsmith.store.record import Record


def look_up(problem: Problem, device: Device, store: str | None) -> Match:
    """`find` in the stores that are asked where the user names `store`.

    Raises StoreError, where that one cannot be read, beside its errors; the others are then done without.
    """
    with open_for_look_up(store) as stores:
        return find(problem, device, stores)


def find(problem: Problem, device: Device, stores: StoreChain) -> Match:
    """The best answer for `problem` on `device`: exact, near shape, other device, default.

    Raises BadArgument where no family solves the problem.
    """
    reasons: list[str] = []
    if match := _exact(problem, device, stores, reasons):
        return match
    records = tuple(record for record in stores.records(problem.operation) if not _was_wrong(record))
    if match := _first_legal(problem, device, _near(problem, device, records), MatchKind.NEAR, reasons):
        return match
    if match := _first_legal(problem, device, _elsewhere(problem, device, records), MatchKind.DEVICE, reasons):
        return match
    family = families_for(problem, device)[0]
    return Match(MatchKind.DEFAULT, family.program(problem, family.default(problem, device)), None, tuple(reasons))


def regenerate(record: Record) -> Program | None:
    """The program whose time the record holds; None where this version would generate another, or none at all."""
    program = _program(record.problem, record.device, record)
    return program if program is not None and program.fingerprint == record.trial.fingerprint else None


def _exact(problem: Problem, device: Device, stores: StoreChain, reasons: list[str]) -> Match | None:
    """The first store's winner that this version would generate to the letter."""
    for record in stores.winners(problem.key(), device.key()):
        program = _program(problem, device, record)
        if _was_wrong(record):
            reasons.append("exact: the stored winner was not right when it was last looked at; tune again")
        elif program is None:
            reasons.append(f"exact: the stored config of {record.trial.family} is not legal in this version")
        elif program.fingerprint == record.trial.fingerprint:
            return Match(MatchKind.EXACT, program, record, ())
        else:
            reasons.append("exact: the stored time is of an older text of this kernel; tune again to renew it")
    if not reasons:
        reasons.append(f"exact: {problem.key()} is not stored for {device.key()}")
    return None


def _was_wrong(record: Record) -> bool:
    checked = checked_of(record)
    return checked is not None and checked.verdict is Verdict.WRONG


def _program(problem: Problem, device: Device, record: Record) -> Program | None:
    """The record's config as a program for `problem`; None where it is not legal there."""
    family = family_named(record.trial.family)
    return None if family is None else family.legal_program(problem, device, record.trial.config)


def _near(problem: Problem, device: Device, records: Iterable[Record]) -> list[Record]:
    """Winners of like problems on this device, nearest first."""
    distances = [
        (distance, record)
        for record in records
        if record.device.key() == device.key() and (distance := problem.distance(record.problem)) is not None
    ]
    return [record for _, record in sorted(distances, key=lambda pair: (pair[0], pair[1].problem.key()))]


def _elsewhere(problem: Problem, device: Device, records: Iterable[Record]) -> list[Record]:
    """Winners of this problem on other devices of the same kind, the same architecture first."""
    others = [
        record
        for record in records
        if record.problem == problem and record.device.kind is device.kind and record.device.key() != device.key()
    ]
    return sorted(others, key=lambda record: (record.device.arch != device.arch, record.device.key()))


def _first_legal(
    problem: Problem, device: Device, records: list[Record], kind: MatchKind, reasons: list[str]
) -> Match | None:
    for record in records:
        if program := _program(problem, device, record):
            return Match(kind, program, record, tuple(reasons))
    told = f"{len(records)} stored, none with a config that is legal here" if records else "none is stored"
    reasons.append(f"{kind}: {told}")
    return None
