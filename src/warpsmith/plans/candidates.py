"""Stored winners of other problems and devices as candidates for a request, likeliest first."""

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
    found = []
    for record in records:
        there = problem.distance(record.problem)
        if there is not None and record.device.kind is device.kind:
            found.append(Ranked(there + between_devices(device, record.device), record))
    return sorted(found)


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
    if config is None or family.unrolled(problem, config) > MAX_UNROLLED:
        return None  # the first call of a plan would wait long for the compiler
    return Candidate(record, family, config, near.octaves)
