"""Guesses: answers to a look-up that are not exact, with family, config and reasons."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import defaults
from warpsmith.generator.space import Config
from warpsmith.plans.candidates import Candidate, Ranked, candidates, ranked
from warpsmith.plans.match import Match, MatchKind
from warpsmith.store.record import Record


@dataclasses.dataclass(frozen=True, slots=True)
class Guess:
    """An answer whose source is not generated yet."""

    kind: MatchKind
    family: Family
    config: Config
    record: Record | None
    """Stored record of the candidate that it comes from; None for a default."""
    reasons: tuple[str, ...]

    def match(self, gate: Gate, *earlier: str) -> Match:
        """The match with its generated program; the `earlier` reasons come first. Raises IllegalConfig."""
        program = gate.program(self.family, self.config)
        return Match(self.kind, program, self.record, (*earlier, *self.reasons))


def best_guess(problem: Problem, device: Device, records: Sequence[Record], family: Family | None = None) -> Guess:
    """The first of the `guesses`. Raises BadArgument with the reasons if there is none."""
    return next(guesses(Gate(problem, device), records, family))


def guesses(gate: Gate, records: Sequence[Record], family: Family | None = None) -> Iterator[Guess]:
    """Yields answers that are not exact, best first, each with a legal config: adapted nearest records, then defaults.

    Args:
        gate: gate of the requested problem and device.
        records: records that may answer, of any problem and device.
        family: the only family of `records`, whose default may answer too; None for any family, and the defaults of all
            families that may answer without a search.

    Raises BadArgument if there is none.
    """
    problem, device, reasons = gate.problem, gate.device, list[str]()
    nearest = ranked(problem, device, records)
    answers = [each for each in nearest if problem.is_answered_by(each.record.problem)]
    here = [each for each in answers if each.record.device.key() == device.key()]
    found = candidates(gate, answers)
    best = next(found, None)
    if best is None or best.record.device.key() != device.key():
        reasons.append(f"near: {_passed_over(here, best)}")
    while best is not None:
        kind = MatchKind.NEAR if best.record.device.key() == device.key() else MatchKind.DEVICE
        yield _guessed(problem, kind, best, reasons)
        best = next(found, None)
    reasons.append(f"device: {_passed_over(answers[len(here) :], best)}")
    yield from _unmeasured(gate, nearest, reasons, family)


def _unmeasured(gate: Gate, nearest: list[Ranked], reasons: list[str], family: Family | None) -> Iterator[Guess]:
    """Yields answers for which nothing fitting is stored: the winners of similar problems, and families' defaults."""
    problem = gate.problem
    unlike = (
        each for each in nearest if each.may_say_more_than_default and not problem.is_answered_by(each.record.problem)
    )
    for best in candidates(gate, unlike):
        if not best.is_likelier_than_default:
            continue
        source = best.record.problem.key(), best.record.device.name
        whose = "the winner" if family is None else f"the fastest {family.name}"
        told = f"default: the config is that of {whose} of {source[0]} on {source[1]}, or most like it"
        yield Guess(MatchKind.DEFAULT, best.family, best.config, None, (*reasons, told))
    refused: list[str] = []
    answered = False
    for own, config in defaults(gate, refused, None if family is None else (family,)):
        answered = True
        passed_over = (f"default: {why}" for why in refused)
        yield Guess(MatchKind.DEFAULT, own, config, None, (*reasons, *passed_over))
    if not answered:
        raise BadArgument(f"no kernel family answers {problem.key()} without a search: {'; '.join(refused)}")


def _passed_over(nearest: list[Ranked], best: Candidate | None) -> str:
    """Reason why none of the `nearest` records is the answer."""
    if not nearest:
        return "none is stored"
    if best is None or nearest[0].octaves < best.octaves:
        return f"{len(nearest)} stored, none with a config that is legal here"
    return f"{len(nearest)} stored, the nearest of them farther off than another device's winner"


def _guessed(problem: Problem, kind: MatchKind, best: Candidate, reasons: list[str]) -> Guess:
    """The answer from a candidate, with reasons that say where it comes from."""
    told = []
    if kind is MatchKind.DEVICE and best.record.problem != problem:
        told.append(f"{kind}: this is the winner of {best.record.problem.key()} on {best.record.device.name}")
    if best.is_changed:
        told.append(f"{kind}: the stored config does not fit here; changed: {_changes(best)}")
    return Guess(kind, best.family, best.config, best.record, (*reasons, *told))


def _changes(candidate: Candidate) -> str:
    was, now = candidate.record.trial.config.values(), candidate.config.values()
    return ", ".join(f"{name} {was.get(name, '-')} to {value}" for name, value in now.items() if was.get(name) != value)
