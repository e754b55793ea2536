"""Problems with times of several families: stored ones, and those that `networks.py measure` wrote.

A time counts only if this version generates the program that it was measured for.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from conv2d_bench import lines

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import likely
from warpsmith.generator.registry import able_families, family_named
from warpsmith.generator.space import Config
from warpsmith.store.record import Record, was_wrong
from warpsmith.store.store import Store

MOST_TRIALS = 4
"""Trials of a family that are looked at for one of an unchanged text, the fastest first; each takes up to 100 ms."""


@dataclasses.dataclass(frozen=True, slots=True)
class Timed:
    """A family that may answer a problem without a search, and has a time for it."""

    family: str
    time_ns: float
    expected_ns: float | None
    """Time that the family's model expects of its default; None without a model."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A problem on a device with the times of its likely families."""

    problem: Problem
    device: Device
    timed: tuple[Timed, ...]
    """Families with a time, in the order of `ranking.likely`."""
    first: str
    """The family that this order begins with, with or without a time; empty if no family is likely."""
    uncounted: int = 0
    """Number of families without a time that counts: theirs are of other texts, or of other configs than defaults."""

    @property
    def best_ns(self) -> float:
        return min(each.time_ns for each in self.timed)

    def time_ns(self, family: str) -> float:
        return next(each.time_ns for each in self.timed if each.family == family)


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A config with its time and the fingerprint of the program that was timed."""

    family: str
    config: Config
    fingerprint: str
    time_ns: float


def stored_cases(location: str, *, defaults: bool = False) -> Iterator[Case]:
    """Yields a case for each winner of a store, with the times of all families under the winner's conditions.

    Args:
        location: the store.
        defaults: count only times of families' present defaults, not the shortest time of each family.
    """
    with Store.open(location, write=False) as store:
        for record in store.records():
            yield case_of(record.problem, record.device, _candidates(store, record), defaults=defaults)


def _candidates(store: Store, record: Record) -> Iterator[Candidate]:
    """Yields the winner, the runners-up and the trials beside it, except those that were wrong."""
    beaten = store.runners_up(record.problem.key(), record.device.key())
    for each in (record, *(each for each in beaten if each.conditions == record.conditions)):
        if not was_wrong(each):
            yield Candidate(each.trial.family, each.trial.config, each.trial.fingerprint, each.timing.median_ns)
    for trial in store.trials(record.problem, record.device):
        if trial.median_ns is not None and trial.is_under(record.conditions):
            yield Candidate(trial.family, trial.config, trial.fingerprint, trial.median_ns)


def measured_cases(path: Path) -> Iterator[Case]:
    """Yields a case for each layer that `networks.py measure` timed, with the times of families' defaults.

    Raises BadArgument for a file whose rows do not say which programs they timed.
    """
    device = None
    for row in lines.read(path):
        if "run" in row:
            device = row["run"].get("device_facts")
        elif row.get("set") == "networks" and lines.is_measured(row) and "tried_us" in row:
            if device is None or any(len(each) < 4 for each in row["tried_us"]):
                raise BadArgument(f"{path} does not say which programs it timed: measure again with networks.py")
            problem, here = Conv2d.of(row["problem"]), Device.from_spec(device)
            yield case_of(problem, here, _tried(row, Gate(problem, here)), defaults=True)


def _tried(row: Mapping[str, Any], gate: Gate) -> Iterator[Candidate]:
    """Yields the defaults of a row that are still their families' defaults."""
    for name, config, time_us, fingerprint in row["tried_us"]:
        family = family_named(name)
        if family is None or time_us is None:
            continue
        with contextlib.suppress(IllegalConfig):
            default = gate.default(family)
            if default.key() == config:
                yield Candidate(name, default, fingerprint, 1e3 * time_us)


def case_of(problem: Problem, device: Device, found: Iterable[Candidate], *, defaults: bool = False) -> Case:
    """The case of a problem on a device.

    Args:
        problem: the problem.
        device: the device that all candidates were timed on.
        found: its candidates, in any order.
        defaults: count only times of families' present defaults.
    """
    gate, by_family = Gate(problem, device), dict[str, list[Candidate]]()
    for each in sorted(found, key=lambda each: each.time_ns):
        by_family.setdefault(each.family, []).append(each)
    times = {name: _fresh_ns(gate, own, defaults=defaults) for name, own in by_family.items()}
    order = likely((each for each in able_families(gate) if each.may_answer), problem, device)
    timed = [
        Timed(family.name, time_ns, gate.likely_ns(family) or None)
        for family in order
        if (time_ns := times.get(family.name)) is not None
    ]
    uncounted = sum(time_ns is None for time_ns in times.values())
    return Case(problem, device, tuple(timed), order[0].name if order else "", uncounted)


def _fresh_ns(gate: Gate, own: Iterable[Candidate], *, defaults: bool) -> float | None:
    """Shortest time of a family's unchanged programs, given its candidates, the fastest first; None without one."""
    looked_at = 0
    for each in own:
        family = family_named(each.family)
        if family is None or looked_at == MOST_TRIALS:
            return None
        try:
            if defaults and each.config != gate.default(family):
                continue
            program = gate.program(family, each.config)
        except IllegalConfig:
            continue
        if program.has_fingerprint(each.fingerprint):
            return each.time_ns
        looked_at += 1
    return None
