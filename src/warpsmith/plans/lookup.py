"""From a question to the best stored answer. Never searches, never runs a kernel."""

from __future__ import annotations

import contextlib

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import answering, family_named
from warpsmith.generator.space import Config
from warpsmith.plans.candidates import Candidate, Ranked, candidates, ranked
from warpsmith.plans.match import Match, MatchKind
from warpsmith.store.checked import Verdict, checked_of
from warpsmith.store.location import StoreChain, open_for_look_up
from warpsmith.store.record import Record
from warpsmith.store.store_reader import Winners


def look_up(problem: Problem, device: Device, store: str | None) -> Match:
    """`find` in the stores that are asked where the user names `store`.

    Raises StoreError, where that one cannot be read, beside its errors; the others are then done without.
    """
    return look_up_wholly(problem, device, store)[0]


def look_up_wholly(problem: Problem, device: Device, store: str | None) -> tuple[Match, bool]:
    """`look_up`, and whether every store could be asked, so that the answer may be kept."""
    with open_for_look_up(store) as stores:
        match = find(problem, device, stores)
        return match, stores.is_whole


def find(problem: Problem, device: Device, stores: StoreChain[Winners]) -> Match:
    """The best answer for `problem` on `device`: exact, near shape, other device, default.

    A winner of another size, or from another device, answers by its own config where that is legal here, else by the
    legal config most like it. Raises BadArgument where no family solves the problem.
    """
    reasons: list[str] = []
    if match := _exact(problem, device, stores, reasons):
        return match
    return _best_guess(problem, device, _right_records(problem, stores), reasons)


def known_configs(
    problem: Problem, device: Device, stores: StoreChain[Winners], count: int
) -> tuple[tuple[str, Config], ...]:
    """What is known before a search: names of families and configs that are legal here, distinct, at most `count`.

    First what `find` answers, then what the winners of the nearest stored shapes and devices become here, nearest
    first.
    """
    records, found = _right_records(problem, stores), dict[tuple[str, Config], None]()
    with contextlib.suppress(BadArgument):  # nothing answers what only a search may choose a family for
        answer = _exact(problem, device, stores, []) or _best_guess(problem, device, records, [])
        found[answer.program.family, answer.program.config] = None
    for candidate in candidates(problem, device, ranked(problem, device, records)):
        if len(found) >= count:
            break
        found[candidate.family.name, candidate.config] = None
    return tuple(found)[:count]


def regenerate(record: Record) -> Program | None:
    """The program whose time the record holds; None where this version would generate another, or none at all."""
    program = program_of(record, record.problem, record.device)
    return program if program is not None and program.fingerprint == record.trial.fingerprint else None


def program_of(record: Record, problem: Problem, device: Device) -> Program | None:
    """The record's config as a program for `problem` on `device`; None where it is not legal there, or where this
    version has no family of that name.
    """
    family = family_named(record.trial.family)
    return None if family is None else family.legal_program(problem, device, record.trial.config)


def _exact(problem: Problem, device: Device, stores: StoreChain[Winners], reasons: list[str]) -> Match | None:
    """The first store's winner that this version would generate to the letter."""
    for record in stores.winners(problem.key(), device.key()):
        program = program_of(record, problem, device)
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


def _right_records(problem: Problem, stores: StoreChain[Winners]) -> tuple[Record, ...]:
    """The winners of the problem's operation, without those that were wrong when they were last looked at."""
    return tuple(record for record in stores.answers(problem.operation) if not _was_wrong(record))


def _best_guess(problem: Problem, device: Device, records: tuple[Record, ...], reasons: list[str]) -> Match:
    """The best answer that is not exact: of the nearest winner whose config can be carried over, or the default."""
    nearest = ranked(problem, device, records)
    answers = [each for each in nearest if problem.is_resized(each.record.problem)]
    here = [each for each in answers if each.record.device.key() == device.key()]
    best = next(candidates(problem, device, answers), None)
    if best is not None and best.record.device.key() == device.key():
        return _guessed(problem, MatchKind.NEAR, best, reasons)
    reasons.append(f"near: {_passed_over(here, best)}")
    if best is not None:
        return _guessed(problem, MatchKind.DEVICE, best, reasons)
    reasons.append(f"device: {_passed_over(answers[len(here) :], best)}")
    return _unmeasured(problem, device, nearest, reasons)


def _unmeasured(problem: Problem, device: Device, nearest: list[Ranked], reasons: list[str]) -> Match:
    """What answers where nothing is stored: from the winner of a like problem, or a family's default."""
    unlike = (each for each in nearest if not problem.is_resized(each.record.problem))
    known = (each for each in candidates(problem, device, unlike) if each.is_likelier_than_default)
    if (best := next(known, None)) is not None:
        source = best.record.problem.key(), best.record.device.name
        reasons.append(f"default: the config is that of the winner of {source[0]} on {source[1]}, or most like it")
        family, config = best.family, best.config
    else:
        family, config = answering(problem, device)
    return Match(MatchKind.DEFAULT, family.program(problem, config), None, tuple(reasons))


def _passed_over(nearest: list[Ranked], best: Candidate | None) -> str:
    """Why the answer is none of these."""
    if not nearest:
        return "none is stored"
    if best is None or nearest[0].octaves < best.octaves:
        return f"{len(nearest)} stored, none with a config that is legal here"
    return f"{len(nearest)} stored, the nearest of them farther off than another device's winner"


def _guessed(problem: Problem, kind: MatchKind, best: Candidate, reasons: list[str]) -> Match:
    """The answer that a candidate is, which says where it comes from unless its kind does."""
    told = []
    if kind is MatchKind.DEVICE and best.record.problem != problem:
        told.append(f"{kind}: this is the winner of {best.record.problem.key()} on {best.record.device.name}")
    if best.is_changed:
        told.append(f"{kind}: the stored config is not legal here; changed: {_changes(best)}")
    return Match(kind, best.family.program(problem, best.config), best.record, (*reasons, *told))


def _changes(candidate: Candidate) -> str:
    was, now = candidate.record.trial.config.values(), candidate.config.values()
    return ", ".join(f"{name} {was.get(name, '-')} to {value}" for name, value in now.items() if was.get(name) != value)
