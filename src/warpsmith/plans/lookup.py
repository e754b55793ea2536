"""Look-up of the best stored answer to a request. It never searches and never runs a kernel."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from warpsmith.devices.process import ForkLock
from warpsmith.errors import BadArgument, WrongResult
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.pins import NO_PINS, Pins
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import family_named, selected_families, selected_family
from warpsmith.generator.selection import EVERYTHING, Selection
from warpsmith.generator.space import Config
from warpsmith.plans.family_choice import better_guess, of_family
from warpsmith.plans.guesses import Guess, candidates, guesses, ranked
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.poisoned import WRONG_HERE
from warpsmith.plans.untimed_family import untimed_guess
from warpsmith.store.conditions import rank
from warpsmith.store.record import Record, was_wrong
from warpsmith.store.store_chain import StoreChain, open_for_look_up
from warpsmith.store.store_reader import Winners

_LOOKING_UP = ForkLock()
"""Lock that lets one thread look up at a time: it is Python code, and 16 threads that share the interpreter take 4.6 s
for 69 look-ups where one takes 2.4. Compilers of the others run meanwhile.
"""


def look_up(problem: Problem, device: Device, store: str | None, selection: Selection = EVERYTHING) -> Match:
    """Runs `find` in `store` and the stores that are searched after it.

    Raises StoreError if `store` cannot be read, besides the errors of `find`; other unreadable stores are skipped.
    """
    return look_up_wholly(problem, device, store, selection)[0]


def look_up_wholly(
    problem: Problem, device: Device, store: str | None, selection: Selection = EVERYTHING
) -> tuple[Match, bool]:
    """Returns `look_up`'s match, and whether every store could be read, so that the match may be cached."""
    with _LOOKING_UP, open_for_look_up(store) as stores:
        match = find(problem, device, stores, selection)
        return match, stores.is_whole


def find(problem: Problem, device: Device, stores: StoreChain[Winners], selection: Selection = EVERYTHING) -> Match:
    """The best answer for `problem` on `device`: exact, near shape, other device, default.

    A winner of another size or device answers by its own config if that is legal here, else by the most similar legal
    config. If nothing exact is stored, stored times of several families may choose the family (`family_choice`), and so
    may the models where the stored search did not know a family (`untimed_family`).
    A `selection` other than EVERYTHING is answered by its fastest known kernel. Programs that are poisoned on this
    device are skipped.

    Raises BadArgument if no family of the selection solves the problem; WrongResult if every possible answer is
    poisoned.
    """
    answers, wrong = matches(problem, device, stores, selection), WRONG_HERE.of(device)
    match = next(answers)
    # A search verified the winner, so only faults found by this process count against it.
    if match.kind is MatchKind.EXACT and match.program.fingerprint not in wrong:
        return match
    refused = {each: failure.message for each, failure in stores.poisoned(device).items()} | wrong
    refusals: list[str] = []
    with contextlib.suppress(StopIteration, BadArgument):
        while refused and (why := refused.get(match.program.fingerprint)) is not None:
            refusals.append(f"{match.kind}: {match.program.family} is poisoned on this device: {why}")
            match = next(answers)
        return dataclasses.replace(match, reasons=(*match.reasons, *refusals)) if refusals else match
    raise WrongResult(f"no program is left that gives right results for {problem.key()}: {'; '.join(refusals)}")


def matches(
    problem: Problem, device: Device, stores: StoreChain[Winners], selection: Selection = EVERYTHING
) -> Iterator[Match]:
    """Yields all answers, best first: the first is the one of `find`, the next one answers without it.

    An answer whose program cannot be generated is skipped, and later ones say so in their reasons. Models
    that choose answers which are not exact know the device's stored ceilings. Raises BadArgument as `find` does, and if
    none is left.
    """
    family = selected_family(selection, problem, device)
    gate = Gate(problem, stores.measured(device), selection.pins)
    if selection.pins:
        selected_families(selection, gate)  # otherwise a stored kernel could answer before a wrong value is refused
    reasons: list[str] = []
    has_answered = False
    if match := _exact(problem, device, stores, reasons, family, selection.pins):
        has_answered = True
        yield match
    for guess in _guesses(gate, stores, _right_records(problem, stores), family):
        try:
            match = guess.match(gate, *reasons)
        except IllegalConfig as refused:
            reasons.append(f"{guess.kind}: {refused}")
            continue
        has_answered = True
        yield match
    if not has_answered:
        raise BadArgument(f"no kernel family answers {problem.key()}: {'; '.join(reasons)}")


def exact(problem: Problem, device: Device, stores: StoreChain[Winners], family: Family | None = None) -> Match | None:
    """The stored winner, or the fastest stored kernel of `family`. None if this problem was not tuned on this device,
    or if this version generates a different source.
    """
    return _exact(problem, device, stores, [], family)


def known_configs(
    problem: Problem, device: Device, stores: StoreChain[Winners], count: int, selection: Selection = EVERYTHING
) -> tuple[tuple[str, Config], ...]:
    """Known candidates before a search: at most `count` distinct pairs of family name and config that are legal here.

    The first is the answer of `find`. The winners of the nearest stored shapes and devices follow, adapted to this
    problem, nearest first. Only kernels of the `selection` count.
    """
    family = selected_family(selection, problem, device)
    records, found = _right_records(problem, stores), dict[tuple[str, Config], None]()
    gate = Gate(problem, stores.measured(device), selection.pins)
    with contextlib.suppress(BadArgument):  # only a search may choose a family for the method
        if exact := _exact(problem, device, stores, [], family, selection.pins):
            found[exact.program.family, exact.program.config] = None
        else:
            guess = next(_guesses(gate, stores, records, family))
            found[guess.family.name, guess.config] = None
    if family is not None:
        records = of_family(family, stores, records)
    for candidate in candidates(gate, ranked(problem, device, records)):
        if len(found) >= count:
            break
        found[candidate.family.name, candidate.config] = None
    return tuple(found)[:count]


def regenerate(record: Record) -> Program | None:
    """The program that the record's time belongs to; None if this version generates a different one or none."""
    program = program_of(record, record.problem, record.device)
    return program if program is not None and program.has_fingerprint(record.trial.fingerprint) else None


def program_of(record: Record, problem: Problem, device: Device) -> Program | None:
    """The record's config as a program for `problem` on `device`; None if it is not legal there, or if this version has
    no such family.
    """
    family = family_named(record.trial.family)
    return None if family is None else Gate(problem, device).program_if_legal(family, record.trial.config)


def _guesses(
    gate: Gate, stores: StoreChain[Winners], records: tuple[Record, ...], family: Family | None
) -> Iterator[Guess]:
    """Yields the answers that are not exact, best first, of any family or of one. Raises BadArgument as `find` does."""
    if family is not None or gate.pins:
        mine = records if family is None else of_family(family, stores, records)
        yield from guesses(gate, tuple(each for each in mine if gate.pins.allow(each.trial.config)), family)
        return
    ordinary = guesses(gate, records)
    first = next(ordinary)
    better = better_guess(gate, stores, records, first)
    untimed = untimed_guess(gate, stores, better or first)
    if untimed is not None:
        yield untimed
    if better is not None:
        yield better
    yield first
    yield from ordinary


def _exact(
    problem: Problem,
    device: Device,
    stores: StoreChain[Winners],
    reasons: list[str],
    family: Family | None,
    pins: Pins = NO_PINS,
) -> Match | None:
    """The first store's winner, or the fastest stored kernel of `family` and inside the pins, whose source this version
    generates unchanged.
    """
    for record in _pinned(problem, device, stores, family, pins) if pins else _stored(problem, device, stores, family):
        program = program_of(record, problem, device)
        if was_wrong(record):
            reasons.append("exact: the stored winner was not right when it was last looked at; tune again")
        elif program is None:
            reasons.append(f"exact: the stored config of {record.trial.family} is not legal in this version")
        elif program.has_fingerprint(record.trial.fingerprint):
            return Match(MatchKind.EXACT, program, record, ())
        else:
            reasons.append("exact: the stored time is of an older text of this kernel; tune again to renew it")
    if not reasons:
        of = "" if family is None else f"{family.name} of "
        within = f" with {pins}" if pins else ""
        reasons.append(f"exact: {of}{problem.key()}{within} is not stored for {device.key()}")
    return None


def _stored(problem: Problem, device: Device, stores: StoreChain[Winners], family: Family | None) -> Iterator[Record]:
    """Yields the winners of a problem, store by store, or the records of one family: its wins before its defeats."""
    subject = problem.key(), device.key()
    won = stores.winners(*subject)
    if family is None:
        yield from won
        return
    yield from (record for record in won if record.trial.family == family.name)
    yield from (record for record in stores.runners_up(*subject) if record.trial.family == family.name)


def _pinned(
    problem: Problem, device: Device, stores: StoreChain[Winners], family: Family | None, pins: Pins
) -> Iterator[Record]:
    """Yields the stored kernels inside the pins, of any family or of one: preferred conditions first, then fastest."""
    subject = problem.key(), device.key()
    kept = (*stores.winners(*subject), *stores.runners_up(*subject), *stores.pinned_winners(*subject))
    inside = (record for record in kept if pins.allow(record.trial.config))
    mine = (record for record in inside if family is None or record.trial.family == family.name)
    yield from sorted(mine, key=lambda record: (rank(record.conditions), record.timing.median_ns))


def _right_records(problem: Problem, stores: StoreChain[Winners]) -> tuple[Record, ...]:
    """The winners of the problem's operation, except those that were wrong at their last check."""
    return tuple(record for record in stores.answers(problem.operation) if not was_wrong(record))
