"""Guesses: answers that are not exact. Adapted winners of the nearest problems come first, then families' defaults."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Iterator, Sequence

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import defaults
from warpsmith.generator.registry import able_families, family_named
from warpsmith.generator.space import Config
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
        reason = f"default: the config is that of {whose} of {source[0]} on {source[1]}, or most like it"
        yield Guess(MatchKind.DEFAULT, best.family, best.config, None, (*reasons, reason))
    refused: list[str] = []
    answered = False
    families = (family,) if family is not None else able_families(gate) if gate.pins else None
    for own, config in defaults(gate, refused, families):
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
    own = []
    if kind is MatchKind.DEVICE and best.record.problem != problem:
        own.append(f"{kind}: this is the winner of {best.record.problem.key()} on {best.record.device.name}")
    if best.is_changed:
        own.append(f"{kind}: the stored config does not fit here; changed: {_changes(best)}")
    return Guess(kind, best.family, best.config, best.record, (*reasons, *own))


def _changes(candidate: Candidate) -> str:
    was, now = candidate.record.trial.config.values(), candidate.config.values()
    return ", ".join(f"{name} {was.get(name, '-')} to {value}" for name, value in now.items() if was.get(name) != value)


CHANGED = 1.0
"""Octaves of size (`Problem.distance`) added to the distance of a winner whose config is not legal here and is replaced
by the most similar legal one.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A stored winner, with the config adapted to the request."""

    record: Record
    family: Family
    config: Config
    """Config that is legal for the request."""
    octaves: float
    """Distance from the request in octaves: problem, device, and a change of the config together."""

    @property
    def is_likelier_than_default(self) -> bool:
        """True if it is near enough to be a better choice than its family's own default."""
        return self.octaves <= self.family.default_reach

    @property
    def is_changed(self) -> bool:
        """True if the stored config is not legal for the request and was changed."""
        return self.config != self.record.trial.config


@dataclasses.dataclass(frozen=True, slots=True)
class Ranked:
    """A stored winner and its distance, before its config is adapted."""

    octaves: float
    record: Record

    def __lt__(self, other: Ranked) -> bool:
        return self._order < other._order

    @property
    def may_say_more_than_default(self) -> bool:
        """True if `Candidate.is_likelier_than_default` may be true; adapting a config takes milliseconds."""
        family = family_named(self.record.trial.family)
        return family is not None and self.octaves <= family.default_reach

    @property
    def _order(self) -> tuple[float, str, str]:
        return self.octaves, self.record.problem.key(), self.record.device.key()


def ranked(problem: Problem, device: Device, records: Iterable[Record]) -> list[Ranked]:
    """The winners near enough to the request, nearest first; equally near ones are ordered by key."""
    here = Subject(problem, device)
    far = ((here.distance(Subject(record.problem, record.device)), record) for record in records)
    return sorted(Ranked(octaves, record) for octaves, record in far if octaves is not None)


def candidates(gate: Gate, nearest: Iterable[Ranked]) -> Iterator[Candidate]:
    """Yields winners with a config legal for the request, likeliest first; each is adapted only when it is needed."""
    changed: list[tuple[Ranked, Candidate]] = []
    for each in nearest:
        while changed and changed[0][0] < each:
            yield heapq.heappop(changed)[1]
        if (candidate := _carried(gate, each)) is None:
            continue
        if candidate.is_changed:
            later = dataclasses.replace(candidate, octaves=each.octaves + CHANGED)
            heapq.heappush(changed, (Ranked(later.octaves, each.record), later))
        else:
            yield candidate
    while changed:
        yield heapq.heappop(changed)[1]


def _carried(gate: Gate, near: Ranked) -> Candidate | None:
    record, problem = near.record, gate.problem
    if (family := family_named(record.trial.family)) is None:
        return None
    config = gate.carried(family, record.trial.config, Subject(record.problem, record.device))
    if config is None or family.is_long(problem, config):
        return None  # the first call of a plan would wait long for the compiler
    return Candidate(record, family, config, near.octaves)
