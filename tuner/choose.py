"""From trials to a winner: the fastest few are verified and timed again on fresh data, then set beside the peers."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import importlib.metadata
import warnings
from collections.abc import Callable, Iterable, Iterator

from warpsmith.errors import WarpsmithError
from warpsmith.generator.program import Program
from warpsmith.store.record import Baseline, Failure, FailureKind, Measurement, Provenance, Record, Trial
from warpsmith.tuner.jobs import Compiled
from warpsmith.tuner.workshop import Workshop

FINALISTS = 3
"""Candidates that are verified and timed again, on fresh data and longer, before one of them is stored."""


class TuningFailed(WarpsmithError):
    """No candidate was both right and timed."""


def fastest_first(trials: Iterable[Trial]) -> list[Trial]:
    """The right ones of `trials`, fastest first; equal times in the order of their configs."""
    measured = [trial for trial in trials if isinstance(trial.outcome, Measurement)]
    return sorted(measured, key=lambda trial: (trial.median_ns or 0.0, trial.family, trial.config.key()))


def failures_by_kind(trials: Iterable[Trial]) -> dict[FailureKind, int]:
    """How many of `trials` have no time, by kind."""
    outcomes = (trial.outcome for trial in trials)
    return dict(collections.Counter(outcome.kind for outcome in outcomes if isinstance(outcome, Failure)))


def choose(workshop: Workshop, trials: list[Trial], seed: int, keep: Callable[[Trial], None]) -> Record:
    """The winner of `trials`, with what was measured beside it.

    Args:
        workshop: where the finalists are evaluated again.
        trials: what the search tried.
        seed: of the fresh data.
        keep: told every finalist's new outcome, so that it is stored.

    Raises TuningFailed where no trial is right, or none stays right on fresh data.
    """
    if not (ranked := fastest_first(trials)):
        raise TuningFailed(_why_none(workshop, trials))
    workshop.bench.renew(seed)
    finalists = list(_finalists(workshop, ranked, keep))
    if not finalists:
        raise TuningFailed(f"no candidate of {workshop.problem.key()} stayed right on fresh data")
    winner, program, compiled = min(finalists, key=lambda finalist: finalist[0].median_ns or 0.0)
    beside = workshop.bench.side_by_side(program, compiled)
    if isinstance(beside, Failure):
        warnings.warn(f"nothing was timed beside the winner: {beside.message}", stacklevel=2)
    baselines = () if isinstance(beside, Failure) else beside[1]
    return Record(
        problem=workshop.problem,
        device=workshop.device,
        trial=winner,
        baselines=(*baselines, *_plainest(workshop, ranked, winner)),
        provenance=Provenance(
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            warpsmith=importlib.metadata.version("warpsmith"),
            environment=workshop.bench.environment,
        ),
    )


def _finalists(
    workshop: Workshop, ranked: list[Trial], keep: Callable[[Trial], None]
) -> Iterator[tuple[Trial, Program, Compiled]]:
    passed = 0
    for trial in ranked:
        if passed == FINALISTS:
            return
        program = workshop.program(trial.family, trial.config)
        compiled = workshop.compile(program).result()
        if isinstance(compiled, Failure):
            keep(dataclasses.replace(trial, outcome=compiled))
            continue
        again = dataclasses.replace(trial, outcome=workshop.bench.evaluate(program, compiled, finalist=True))
        keep(again)
        if isinstance(again.outcome, Measurement):
            passed += 1
            yield again, program, compiled


def _plainest(workshop: Workshop, ranked: list[Trial], winner: Trial) -> tuple[Baseline, ...]:
    """The best trial of the plainest family, the last in the registry's order, where another one won."""
    plainest = list(workshop.families)[-1]
    for trial in ranked:
        if trial.family == plainest != winner.family and isinstance(trial.outcome, Measurement):
            return (Baseline(plainest, trial.outcome.timing),)
    return ()


def _why_none(workshop: Workshop, trials: list[Trial]) -> str:
    failures = [trial.outcome for trial in trials if isinstance(trial.outcome, Failure)]
    if not failures:
        return f"no candidate of {workshop.problem.key()} was tried; give it more trials or time"
    counts = collections.Counter(str(failure.kind) for failure in failures)
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"none of {len(failures)} candidates is right: {told}; the first: {failures[0].message}"
