"""Stored winners of other problems and devices as answers to a question, the likeliest first."""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Iterable, Iterator

from warpsmith.generator.device import Device
from warpsmith.generator.distances import between_devices
from warpsmith.generator.family import MAX_UNROLLED, Family, Subject
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import family_named
from warpsmith.generator.space import Config
from warpsmith.store.record import Record

CHANGED = 1.0
"""What a winner counts as whose config does not fit here, and is changed to the one most like it that does, in octaves
of size (`Problem.distance`)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A stored winner, and the config for the question that comes of it."""

    record: Record
    family: Family
    config: Config
    """Legal for the question."""
    octaves: float
    """How far it comes from: problem, device, and a change of its config together."""

    @property
    def is_likelier_than_default(self) -> bool:
        """Whether it comes from so near that it says more of the question than its family's own default."""
        return self.octaves <= self.family.default_reach

    @property
    def is_changed(self) -> bool:
        """Whether the stored config does not fit the question."""
        return self.config != self.record.trial.config


@dataclasses.dataclass(frozen=True, slots=True)
class Ranked:
    """A stored winner and how far it comes from, before its config is looked at."""

    octaves: float
    record: Record

    def __lt__(self, other: Ranked) -> bool:
        return self._order < other._order

    @property
    def may_say_more_than_default(self) -> bool:
        """Whether `Candidate.is_likelier_than_default` may hold of it: to carry a config over takes milliseconds."""
        family = family_named(self.record.trial.family)
        return family is not None and self.octaves <= family.default_reach

    @property
    def _order(self) -> tuple[float, str, str]:
        return self.octaves, self.record.problem.key(), self.record.device.key()


def ranked(problem: Problem, device: Device, records: Iterable[Record]) -> list[Ranked]:
    """The winners that are near enough, nearest first; equally near ones in the order of their keys."""
    found = []
    for record in records:
        there = problem.distance(record.problem)
        if there is not None and record.device.kind is device.kind:
            found.append(Ranked(there + between_devices(device, record.device), record))
    return sorted(found)


def candidates(gate: Gate, nearest: Iterable[Ranked]) -> Iterator[Candidate]:
    """Winners with a config for the question, the likeliest first; each is looked at when it is asked for."""
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
    if config is None or family.unrolled(problem, config) > MAX_UNROLLED:
        return None  # the first call of a plan would wait for the compiler
    return Candidate(record, family, config, near.octaves)
