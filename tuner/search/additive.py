"""Additive model of log time: a time is a product of one factor per parameter value, or a sum of such stage times."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from warpsmith.generator.space import Config, Value

Item = tuple[str, Value]
"""A parameter's name and one of its values."""

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

Expected = Callable[[Config], float]
"""Function that predicts the logarithm of a config's time, up to a constant."""

FITTED = 500
"""Number of fastest configs that the model is fitted to, and of failures: it need not know how slow a slow config
is.
"""
FAILURE_WEIGHT = 0.2
"""Weight of a failure, which counts as the slowest time: enough to avoid it, too little to outweigh fast configs near
it.
"""
RIDGE = 0.5
"""Ridge weight, in configs: a value seen in a single config moves the prediction by two thirds of its residual."""
SWEEPS = 3
"""Passes over the parameters per fit; each fit starts from the last one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Focus:
    """Range of times that a model explains: only fast ones, or slow ones too."""

    weight_scale: float
    """Decay of the weights: a config that takes e^weight_scale times the fastest time has 0.37 times its weight."""
    slowest: float
    """Logarithmic cap: a time longer than e^slowest times the shortest is clipped to that."""


NEAR_THE_BEST = Focus(weight_scale=0.3, slowest=1.0)
"""Times beyond e times the shortest are clipped: they say nothing about fast configs."""
WIDE = Focus(weight_scale=2.0, slowest=3.0)
"""Focus for one stage of several: the time of a slow stage decides how much speed in another stage is worth it."""


class Additive:
    """Models the logarithm of a time as a sum of one cost per parameter value. Not thread-safe.

    It is fitted by weighted ridge regression, one parameter after the other. This needs no matrix product, whose
    threads would compete with compilers for the cores, and no sum whose order a library chooses.

    Parameters and values are those of the configs that it is fitted to. A parameter that a config lacks, as in another
    branch of a space, adds nothing to its time.

    Args:
        expected: other prediction of a config's log time, up to a constant; the sum is fitted to its residual. None if
            there is none.
        focus: range of times that the model explains.

    Source of the fit: backfitting, Hastie and Tibshirani 1986, "Generalized additive models", section 3.
    """

    def __init__(self, expected: Expected | None = None, focus: Focus = NEAR_THE_BEST) -> None:
        self._expected, self._focus = expected, focus
        self._places: dict[str, dict[Value, int]] = {}
        """Index of each value of a parameter; 0 is that of no value."""
        self._cost: list[Numbers] = []
        """Cost of each value, one array per parameter."""
        self._numbers: dict[Config, int] = {}
        self._rows: Places = np.zeros((256, 0), dtype=np.int64)
        """Value indices of each config: one row per config number, one column per parameter."""

    def costs(
        self, fastest: Sequence[tuple[float, Config]], failed: Sequence[Config]
    ) -> dict[tuple[str, Value], float]:
        """Cost of each value of the configs so far, added to the logarithm of the time; other values add nothing.

        Args:
            fastest: times in ns, one or more, and their configs, fastest first; only the first FITTED are used.
            failed: configs without a time, the latest last.
        """
        fastest, failed = fastest[:FITTED], failed[-FITTED:]
        focus = self._focus
        excess = [min(math.log(time_ns / fastest[0][0]), focus.slowest) for time_ns, _ in fastest]
        weight = np.array([math.exp(-each / focus.weight_scale) for each in excess] + [FAILURE_WEIGHT] * len(failed))
        configs = [*(config for _, config in fastest), *failed]
        outcome = np.array(excess + [focus.slowest] * len(failed))
        if self._expected is not None:
            outcome -= [self._expected(config) for config in configs]
        self._fit(self._rows_of(configs), outcome, weight)
        known = zip(self._places.items(), (cost.tolist() for cost in self._cost), strict=True)
        return {(name, value): cost[place] for (name, places), cost in known for value, place in places.items()}

    def _fit(self, rows: Places, outcome: Numbers, weight: Numbers) -> None:
        columns = np.ascontiguousarray(rows.T)
        mean = float((weight * outcome).sum() / weight.sum())
        rest = outcome - mean - sum(cost[column] for cost, column in zip(self._cost, columns, strict=True))
        totals = [np.bincount(column, weight, len(cost)) for cost, column in zip(self._cost, columns, strict=True)]
        for _ in range(SWEEPS):
            for column, cost, total in zip(columns, self._cost, totals, strict=True):
                pull = np.bincount(column, weight * rest, len(cost))
                change = (pull - RIDGE * cost) / (total + RIDGE)
                change[0] = 0.0
                cost += change
                rest -= change[column]

    def _rows_of(self, configs: Sequence[Config]) -> Places:
        for config in configs:
            if config not in self._numbers:
                number = self._numbers[config] = len(self._numbers)
                if number == len(self._rows):
                    self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
                places = {name: self._place(name, value) for name, value in config.items}
                self._rows[number] = [places.get(name, 0) for name in self._places]
        return self._rows[[self._numbers[config] for config in configs]]

    def _place(self, name: str, value: Value) -> int:
        """Index of a value, a new one if it is new; a new parameter gets a column."""
        if name not in self._places:
            self._places[name] = {}
            self._cost.append(np.zeros(1))
            self._rows = np.concatenate([self._rows, np.zeros((len(self._rows), 1), dtype=np.int64)], axis=1)
        places = self._places[name]
        if value not in places:
            places[value] = len(places) + 1
            column = list(self._places).index(name)
            self._cost[column] = np.append(self._cost[column], 0.0)
        return places[value]


FITS = 4
"""Number of fits. Each fit of `Additive` starts from the last one; after this many the costs no longer change."""


class StageTimes:
    """Predicts the time of a joined config from trials of its stages as separate problems.

    In 30 made-up pipelines of two stages with six, four and three values per parameter, the best of the first five
    proposals took 1.001 times the best time after 30 trials of each stage. The additive model of the whole pipeline
    needs 80 trials of it for 1.015. Fitting stages to times of the whole pipeline was no better than that
    (docs/lab/tuning-notes.md).

    Args:
        trials: for each stage, by its name, its times in ns and configs, fastest first, one or more.
    """

    def __init__(self, trials: Mapping[str, Sequence[tuple[float, Config]]]) -> None:
        self._costs: dict[str, dict[tuple[str, Value], float]] = {}
        """Costs of each stage: what each value adds to the logarithm of its time."""
        self._levels: dict[str, float] = {}
        """Logarithm of each stage's time without the costs of values."""
        for stage, fastest in trials.items():
            model = Additive(focus=WIDE)
            for _ in range(FITS):
                costs = model.costs(fastest, [])
            best_ns, best = fastest[0]
            self._costs[stage] = costs
            self._levels[stage] = math.log(best_ns) - sum(costs[item] for item in best.items)

    def log_ns(self, config: Config) -> float:
        """Logarithm of the sum of the stages' times in ns."""
        return math.log(
            sum(
                math.exp(sum((costs.get(item, 0.0) for item in config.of_stage(stage).items), self._levels[stage]))
                for stage, costs in self._costs.items()
            )
        )
