"""Stages of pipelines as problems of their own: tuned before the whole with a share of its budget, and known to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.pipeline import Pipeline, Stage
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.generator.registry import likely
from warpsmith.generator.space import Config
from warpsmith.store.store import Store
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.search.additive import Expected
from warpsmith.tuner.search.stage_times import StageTimes

SHARE = 0.4
"""Of the trials and of the time limit that go to the stages. A pipeline's space is the product of theirs: in made-up
pipelines of two stages 30 trials of each left the whole 0.1% above its best config (docs/tuning-notes.md)."""
LEAST_TRIALS = 10
"""Of a stage: with fewer its model says nothing (1.08 times the best config in the same pipelines)."""
FIRSTS = 4
"""Configs of a pipeline that are tried first, of the fastest ones of its stages."""


@dataclasses.dataclass(frozen=True, slots=True)
class KnownStages:
    """What trials of its stages say of a pipeline."""

    firsts: tuple[Config, ...] = ()
    """The fastest config of every stage together, then the second, as far as there are so many."""
    expected: Expected | None = None
    """What a config is expected to take; None where too little is known of a stage."""
    best_ns: float | None = None
    """What the best config is expected to take: the best times of all that it runs; None where one of them has none."""


def budget_of_parts(
    problem: Problem, device: Device, families: Iterable[Family], store: Store, options: TuneOptions
) -> tuple[tuple[tuple[Problem, TuneOptions], ...], TuneOptions]:
    """What is to be tuned before `problem`, each with its options, and the options that are left for the problem.

    Stages are those of the likeliest pipeline, or of all where nothing else solves the problem: others that are likely
    have some of the same stages, and took 1.4 times as long, the median of 12 layers (H200). Nothing where none is
    likely to win, where the budget is too small to be shared, or where as much is stored already.
    """
    able = tuple(families)
    pipelines = [family for family in able if isinstance(family, Pipeline)]
    if len(pipelines) < len(able):
        pipelines = likely(pipelines, problem, device)[:1]
    parts = dict.fromkeys(stage.problem for family in pipelines for stage in family.stages(problem))
    if not parts or options.sanitize or options.trials * SHARE < LEAST_TRIALS * len(parts):
        return (), options
    trials = int(options.trials * SHARE / len(parts))
    unknown = [part for part in parts if len(store.trials(part, device)) < trials]
    limit_s = options.time_limit_s
    share_s = None if limit_s is None else limit_s * SHARE / len(parts)
    each = dataclasses.replace(options, trials=trials, time_limit_s=share_s, method=AUTO)
    left_s = None if limit_s is None or share_s is None else limit_s - share_s * len(unknown)
    left = options.trials - trials * len(parts)
    return tuple((part, each) for part in unknown), dataclasses.replace(options, trials=left, time_limit_s=left_s)


def known_stages(family: Family, problem: Problem, device: Device, store: Store) -> KnownStages:
    """What the store's trials say of the stages of a pipeline; nothing of another family."""
    if not isinstance(family, Pipeline):
        return KnownStages()
    spaces = family.spaces(problem, device)
    trials = {
        stage.name: [each for each in _timed(stage, device, store) if spaces[stage.name].contains(each[1])]
        for stage in family.stages(problem)
    }
    fewest = min(map(len, trials.values()))
    best_ns = sum(trials[run.stage.name][0][0] for run in family.runs(problem)) if fewest else None
    firsts = tuple(
        Config.joined({name: fastest[number][1] for name, fastest in trials.items()})
        for number in range(min(FIRSTS, fewest))
    )
    expected = StageTimes(spaces, trials).log_ns if fewest >= LEAST_TRIALS else None
    return KnownStages(firsts, expected, best_ns)


def _timed(stage: Stage, device: Device, store: Store) -> list[tuple[float, Config]]:
    """Times in ns and configs of the stage's family, fastest first."""
    timed = [
        (trial.median_ns, trial.config)
        for trial in store.trials(stage.problem, device)
        if trial.family == stage.family.name and trial.median_ns is not None
    ]
    return sorted(timed, key=lambda each: each[0])
