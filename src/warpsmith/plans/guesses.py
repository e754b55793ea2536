"""Answers that are not exact: which family, with which config, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import answering
from warpsmith.generator.space import Config
from warpsmith.plans.candidates import Candidate, Ranked, candidates, ranked
from warpsmith.plans.match import Match, MatchKind
from warpsmith.store.record import Record


@dataclasses.dataclass(frozen=True, slots=True)
class Guess:
    """An answer whose text is not generated yet."""

    kind: MatchKind
    family: Family
    config: Config
    record: Record | None
    """The stored candidate that it comes from, where its kind says so."""
    reasons: tuple[str, ...]

    def match(self, problem: Problem, *earlier: str) -> Match:
        """The answer with its text; the reasons that came `earlier` stand first."""
        program = self.family.program(problem, self.config)
        return Match(self.kind, program, self.record, (*earlier, *self.reasons))


def best_guess(problem: Problem, device: Device, records: Sequence[Record], family: Family | None = None) -> Guess:
    """Of the nearest record whose config can be carried over, or a default.

    Args:
        problem: the question.
        device: of the question.
        records: what may answer, of any problem and device.
        family: the one that all of `records` are of, and whose default answers; None for any, and the default of the
            one that is likely to win.

    Raises BadArgument where no family solves the problem.
    """
    reasons: list[str] = []
    nearest = ranked(problem, device, records)
    answers = [each for each in nearest if problem.is_answered_by(each.record.problem)]
    here = [each for each in answers if each.record.device.key() == device.key()]
    best = next(candidates(problem, device, answers), None)
    if best is not None and best.record.device.key() == device.key():
        return _guessed(problem, MatchKind.NEAR, best, reasons)
    reasons.append(f"near: {_passed_over(here, best)}")
    if best is not None:
        return _guessed(problem, MatchKind.DEVICE, best, reasons)
    reasons.append(f"device: {_passed_over(answers[len(here) :], best)}")
    return _unmeasured(problem, device, nearest, reasons, family)


def _unmeasured(
    problem: Problem, device: Device, nearest: list[Ranked], reasons: list[str], family: Family | None
) -> Guess:
    """What answers where nothing is stored: from the winner of a like problem, or a family's default."""
    unlike = (
        each for each in nearest if each.may_say_more_than_default and not problem.is_answered_by(each.record.problem)
    )
    known = (each for each in candidates(problem, device, unlike) if each.is_likelier_than_default)
    if (best := next(known, None)) is not None:
        source = best.record.problem.key(), best.record.device.name
        whose = "the winner" if family is None else f"the fastest {family.name}"
        reasons.append(f"default: the config is that of {whose} of {source[0]} on {source[1]}, or most like it")
        return Guess(MatchKind.DEFAULT, best.family, best.config, None, tuple(reasons))
    own, config = answering(problem, device) if family is None else (family, family.default(problem, device))
    return Guess(MatchKind.DEFAULT, own, config, None, tuple(reasons))


def _passed_over(nearest: list[Ranked], best: Candidate | None) -> str:
    """Why the answer is none of these."""
    if not nearest:
        return "none is stored"
    if best is None or nearest[0].octaves < best.octaves:
        return f"{len(nearest)} stored, none with a config that is legal here"
    return f"{len(nearest)} stored, the nearest of them farther off than another device's winner"


def _guessed(problem: Problem, kind: MatchKind, best: Candidate, reasons: list[str]) -> Guess:
    """The answer that a candidate is, which says where it comes from unless its kind does."""
    told = []
    if kind is MatchKind.DEVICE and best.record.problem != problem:
        told.append(f"{kind}: this is the winner of {best.record.problem.key()} on {best.record.device.name}")
    if best.is_changed:
        told.append(f"{kind}: the stored config does not fit here; changed: {_changes(best)}")
    return Guess(kind, best.family, best.config, best.record, (*reasons, *told))


def _changes(candidate: Candidate) -> str:
    was, now = candidate.record.trial.config.values(), candidate.config.values()
    return ", ".join(f"{name} {was.get(name, '-')} to {value}" for name, value in now.items() if was.get(name) != value)
