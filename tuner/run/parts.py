"""Stages of pipelines as separate problems, tuned before the whole with a share of its budget."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate
from warpsmith.generator.pipeline import Pipeline, Stage
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import likely
from warpsmith.generator.selection import EVERYTHING
from warpsmith.generator.space import Config
from warpsmith.store.store import Store
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.search.additive import Expected, StageTimes

SHARE = 0.4
"""Share of the trials and of the time limit that goes to the stages. A pipeline's space is the product of its stages'
spaces. In made-up pipelines of two stages, 30 trials of each left the whole 0.1% above its best config
(docs/lab/tuning-notes.md).
"""
LEAST_TRIALS = 10
"""Least number of trials of a stage: with fewer its model is useless (1.08 times the best config in the same
pipelines).
"""
FIRSTS = 4
"""Number of configs of a pipeline that are tried first, combined from the fastest ones of its stages."""


@dataclasses.dataclass(frozen=True, slots=True)
class KnownStages:
    """Knowledge about a pipeline from trials of its stages."""

    firsts: tuple[Config, ...] = ()
    """The fastest config of every stage combined, then the second fastest of each, and so on, as far as every stage has
    one.
    """
    expected: Expected | None = None
    """Function that predicts the log time of a config; None if too little is known of a stage."""
    best_ns: float | None = None
    """Nanoseconds that the best config is expected to take: the sum over all stage runs of the stage's best time. None
    if a stage has no time.
    """


def budget_of_parts(
    problem: Problem, device: Device, families: Iterable[Family], store: Store, options: TuneOptions
) -> tuple[tuple[tuple[Problem, TuneOptions], ...], TuneOptions]:
    """The stages to tune before `problem`, each with its options, and the options left for the problem.

    The stages are those of the likeliest pipeline, or of all pipelines if no other family solves the problem; if they
    depend on the config, those of the default. Other likely pipelines share some of these stages, and took 1.4 times as
    long (median of 12 layers, H200). There are no stages to tune if no pipeline is likely to win, if the budget is too
    small to be shared, or if enough trials are stored already.
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
    each = dataclasses.replace(options, trials=trials, time_limit_s=share_s, selection=EVERYTHING)
    left_s = None if limit_s is None or share_s is None else limit_s - share_s * len(unknown)
    left = options.trials - trials * len(parts)
    return tuple((part, each) for part in unknown), dataclasses.replace(options, trials=left, time_limit_s=left_s)


def known_stages(family: Family, problem: Problem, device: Device, store: Store) -> KnownStages:
    """Knowledge from the store's trials about the stages of a pipeline; empty for any other family.

    If the stages depend on the config, it is that of the likely pipelines whose stages all have times, beginning with
    the one that is expected to be the fastest.
    """
    if not isinstance(family, Pipeline):
        return KnownStages()
    alternatives = family.alternatives(problem)
    able = (each for each in alternatives if len(alternatives) == 1 or Gate(problem, device).why_unable(each) is None)
    found = [known for each in able if (known := _known(each, problem, device, store)).best_ns is not None]
    found.sort(key=lambda known: known.best_ns or math.inf)
    firsts = tuple(config for known in found for config in known.firsts)[:FIRSTS]
    return KnownStages(firsts, found[0].expected, found[0].best_ns) if found else KnownStages()


def _known(pipeline: Pipeline, problem: Problem, device: Device, store: Store) -> KnownStages:
    timed = {stage.name: _timed(stage, device, store) for stage in pipeline.stages(problem)}
    if not all(timed.values()):
        return KnownStages()
    spaces = pipeline.spaces(problem, device)
    trials = {name: [each for each in found if spaces[name].contains(each[1])] for name, found in timed.items()}
    fewest = min(map(len, trials.values()))
    best_ns = sum(trials[run.stage.name][0][0] for run in pipeline.runs(problem)) if fewest else None
    firsts = tuple(
        pipeline.joined({name: fastest[number][1] for name, fastest in trials.items()})
        for number in range(min(FIRSTS, fewest))
    )
    expected = StageTimes(trials).log_ns if fewest >= LEAST_TRIALS else None
    return KnownStages(firsts, expected, best_ns)


def _timed(stage: Stage, device: Device, store: Store) -> list[tuple[float, Config]]:
    """Times in ns and configs of the stage's family, fastest first."""
    timed = [
        (trial.median_ns, trial.config)
        for trial in store.trials(stage.problem, device)
        if trial.family == stage.family.name and trial.median_ns is not None
    ]
    return sorted(timed, key=lambda each: each[0])
