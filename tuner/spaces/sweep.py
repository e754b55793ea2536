"""Sweep of a problem's design space: the best time for each memory path and number of outputs per thread.

Source: figures 2 and 3 of Iandola et al. 2013, "Communication-minimizing 2D convolution in GPU registers".
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind, Timing, Trial, trial_spec
from warpsmith.tuner.costs import Ledger
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.finals.choose import failures_by_kind, fastest_first
from warpsmith.tuner.progress import Progress, Snapshot, estimate_time_left
from warpsmith.tuner.run.flow import AllOf, Candidate, Flow
from warpsmith.tuner.run.interrupt import watching_for_interrupt
from warpsmith.tuner.spaces.regions import Region, RegionPlan, path_words
from warpsmith.tuner.workers.deadlines import Deadlines


@dataclasses.dataclass(frozen=True, slots=True)
class RegionResult:
    """A region and its trials."""

    region: Region
    size: int
    """Number of legal configs."""
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial | None:
        """The fastest trial that is right."""
        return next(iter(fastest_first(self.trials)), None)

    @property
    def failures(self) -> dict[FailureKind, int]:
        return failures_by_kind(self.trials)

    def spec(self) -> dict[str, Any]:
        """The region as JSON values."""
        return {
            **dataclasses.asdict(self.region),
            "outputs": self.region.outputs,
            "configs": self.size,
            "failures": {str(kind): count for kind, count in self.failures.items()},
            "trials": [trial_spec(trial) for trial in self.trials],
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Sweep:
    """Result of a sweep."""

    problem: Problem
    device: Device
    copy: Timing | None
    """The device's own copy of as many bytes as the problem must move; None if it failed."""
    regions: tuple[RegionResult, ...]
    environment: Mapping[str, str]
    elapsed_s: float
    interrupted: bool

    @property
    def size(self) -> int:
        """Number of legal configs in all regions."""
        return sum(result.size for result in self.regions)

    @property
    def tried(self) -> int:
        """Number of configs tried, including those that failed."""
        return sum(len(result.trials) for result in self.regions)

    @property
    def right(self) -> int:
        """Number of configs that were verified and timed."""
        return self.tried - sum(sum(result.failures.values()) for result in self.regions)

    def spec(self) -> dict[str, Any]:
        """The sweep as JSON values, times in ns."""
        return {
            "operation": self.problem.operation,
            "problem": self.problem.spec(),
            "problem_key": self.problem.key(),
            "device": self.device.spec(),
            "environment": dict(self.environment),
            "copy": None if self.copy is None else dataclasses.asdict(self.copy),
            "configs": self.size,
            "tried": self.tried,
            "elapsed_s": self.elapsed_s,
            "interrupted": self.interrupted,
            "cells": [result.spec() for result in self.regions],
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """Regions of one memory path with equal numbers of outputs per thread, shown as one point of a figure."""

    line: str
    """Name of the memory path."""
    outputs: int
    regions: tuple[RegionResult, ...]

    @property
    def best(self) -> Trial | None:
        """The fastest trial of all its regions."""
        return next(iter(fastest_first(trial for result in self.regions for trial in result.trials)), None)


def points(regions: Iterable[RegionResult]) -> tuple[Point, ...]:
    """Points of a figure, line by line in the order of `regions`, with rising numbers of outputs per thread."""
    lines: dict[tuple[str, str], list[RegionResult]] = {}
    for result in regions:
        lines.setdefault((result.region.family, result.region.path), []).append(result)
    words = collections.Counter(path_words(line[0].region) for line in lines.values())
    found = []
    for (family, _), line in lines.items():
        name = path_words(line[0].region)
        name = name if words[name] == 1 else f"{name} ({family})"
        ordered = sorted(line, key=lambda result: result.region.outputs)
        for outputs, group in itertools.groupby(ordered, key=lambda result: result.region.outputs):
            found.append(Point(name, outputs, tuple(group)))
    return tuple(found)


def sweep(
    problem: Problem,
    device: DeviceRef,
    plans: Sequence[RegionPlan],
    seed: int,
    progress: Progress,
    families: tuple[Family, ...] | None = None,
) -> Sweep:
    """Verifies and times the configs in `plans`, the first config of every region before the second of any.

    Ctrl-C ends the sweep and keeps what was measured.

    Raises:
        DeviceError: the device failed.
        CompileError: there is no compiler.
        KeyboardInterrupt: Ctrl-C before anything was tried.
    """
    start = time.monotonic()
    interrupted = False
    with Evaluator.open(problem, device, families, CompilerChoice.AUTO, seed, Deadlines(), sanitize=False) as evaluator:
        running = _Running(evaluator, plans, progress)
        try:
            with watching_for_interrupt() as interrupt, Flow(evaluator, running, Ledger(), running.total) as flow:
                for trial in flow.trials(lambda: None):
                    running.trials[Region.of(trial.family, trial.config)].append(trial)
                    progress.update(_snapshot(running.trials, running.total, time.monotonic() - start))
                    interrupt.check()
        except KeyboardInterrupt:
            if not any(running.trials.values()):
                raise
            interrupted = True
        finally:
            progress.stop()
        results = tuple(RegionResult(plan.region, plan.size, tuple(running.trials[plan.region])) for plan in plans)
        elapsed_s = time.monotonic() - start
        return Sweep(
            problem, evaluator.device, running.copy, results, evaluator.bench.opened.environment, elapsed_s, interrupted
        )


class _Running(AllOf):
    """A sweep while it runs."""

    def __init__(self, evaluator: Evaluator, plans: Sequence[RegionPlan], progress: Progress) -> None:
        super().__init__(evaluator.program(*each) for each in _in_rounds(plans))
        self._evaluator, self._progress = evaluator, progress
        self.total = sum(len(plan.configs) for plan in plans)
        self.trials: dict[Region, list[Trial]] = {plan.region: [] for plan in plans}
        self.copy: Timing | None = None

    def best_ns(self, candidate: Candidate) -> float | None:
        """The best time in the candidate's own region."""
        trials = self.trials[Region.of(candidate.program.family, candidate.program.config)]
        return min((trial.median_ns for trial in trials if trial.median_ns is not None), default=None)

    def opened(self, copy: Timing | Failure) -> None:
        self.copy = None if isinstance(copy, Failure) else copy
        problem, copy_ns = self._evaluator.problem, None if self.copy is None else self.copy.median_ns
        title = f"design space of {problem.key()} on {self._evaluator.device.name}"
        self._progress.start(title, self.total, problem.bytes, copy_ns)


def _in_rounds(plans: Sequence[RegionPlan]) -> Iterator[tuple[str, Config]]:
    for configs in itertools.zip_longest(*(plan.configs for plan in plans)):
        for plan, config in zip(plans, configs, strict=True):
            if config is not None:
                yield plan.region.family, config


def _snapshot(trials: Mapping[Region, list[Trial]], total: int, elapsed_s: float) -> Snapshot:
    tried = [trial for each in trials.values() for trial in each]
    best = next(iter(fastest_first(tried)), None)
    return Snapshot(
        done=len(tried),
        total=total,
        reused=0,
        best_ns=best.median_ns if best else None,
        best=f"{best.family} {best.config}" if best else "",
        failures=failures_by_kind(tried),
        elapsed_s=elapsed_s,
        time_left_s=estimate_time_left(done=len(tried), reused=0, total=total, elapsed_s=elapsed_s, limit_s=None),
    )
