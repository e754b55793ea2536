"""What each value of each parameter costs: a time as a product of one factor a parameter."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from warpsmith.generator.space import Config, Space, Value

Item = tuple[str, Value]
"""A parameter's name and one of its values."""

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

Expected = Callable[[Config], float]
"""The logarithm of a config's time, up to a constant."""

FITTED = 500
"""The fastest configs, to which the model is fitted, and as many failures: it need not know how slow a slow one is."""
FAILURE_WEIGHT = 0.2
"""What a failure counts, as the slowest time: enough to be avoided, too little to outweigh fast configs beside it."""
RIDGE = 0.5
"""The prior's weight, in configs: a value that one config has moves the prediction by two thirds of what it seems."""
SWEEPS = 3
"""Passes over the parameters a fit; each begins where the last fit ended."""


@dataclasses.dataclass(frozen=True, slots=True)
class Focus:
    """Which times a model is to explain: the fast ones alone, or slow ones too."""

    weight_scale: float
    """A config that takes e^weight_scale times as long as the fastest counts as much as 0.37 of the fastest."""
    slowest: float
    """A time longer than e^slowest times the shortest counts as so many times."""


NEAR_THE_BEST = Focus(weight_scale=0.3, slowest=1.0)
"""Beyond e times the shortest a time says nothing about what is fast."""
WIDE = Focus(weight_scale=2.0, slowest=3.0)
"""For a stage of several: how slow a slow one is decides what it may cost to be fast in the others."""


class Additive:
    """The logarithm of a time as a sum over parameters of what each value costs. Not thread-safe.

    Fitted by weighted ridge regression, one parameter after the other. That takes neither a matrix product, whose
    threads would compete with compilers for the cores, nor a sum whose order a library chooses.

    Args:
        space: the configs' space.
        expected: the logarithm of a config's time as far as it is known otherwise, up to a constant: the sum is fitted
            to what that leaves to explain. None where nothing is known.
        focus: how far beyond the shortest time the model looks.

    Source of the fit: backfitting, Hastie and Tibshirani 1986, "Generalized additive models", section 3.
    """

    def __init__(self, space: Space, expected: Expected | None = None, focus: Focus = NEAR_THE_BEST) -> None:
        self._expected, self._focus = expected, focus
        values = {parameter.name: parameter.values for parameter in space.parameters}
        self._items = [[(name, value) for value in values[name]] for name in sorted(values)]
        self._places = {item: place for items in self._items for place, item in enumerate(items)}
        self._cost = [np.zeros(len(items)) for items in self._items]
        self._numbers: dict[Config, int] = {}
        self._rows = np.zeros((256, len(self._items)), dtype=np.int64)
        """For each config by its number, the place of its value among those of each parameter."""

    def costs(
        self, fastest: Sequence[tuple[float, Config]], failed: Sequence[Config]
    ) -> dict[tuple[str, Value], float]:
        """What each value adds to the logarithm of the time.

        Args:
            fastest: times in ns, one or more, and their configs, fastest first; beyond FITTED they are not looked at.
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
        costs = (zip(items, cost.tolist(), strict=True) for items, cost in zip(self._items, self._cost, strict=True))
        return {item: cost for each in costs for item, cost in each}

    def _fit(self, rows: Places, outcome: Numbers, weight: Numbers) -> None:
        columns = np.ascontiguousarray(rows.T)
        mean = float((weight * outcome).sum() / weight.sum())
        rest = outcome - mean - sum(cost[column] for cost, column in zip(self._cost, columns, strict=True))
        totals = [np.bincount(column, weight, len(cost)) for cost, column in zip(self._cost, columns, strict=True)]
        for _ in range(SWEEPS):
            for column, cost, total in zip(columns, self._cost, totals, strict=True):
                pull = np.bincount(column, weight * rest, len(cost))
                change = (pull - RIDGE * cost) / (total + RIDGE)
                cost += change
                rest -= change[column]

    def _rows_of(self, configs: Sequence[Config]) -> Places:
        for config in configs:
            if config not in self._numbers:
                number = self._numbers[config] = len(self._numbers)
                if number == len(self._rows):
                    self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
                self._rows[number] = [self._places[item] for item in config.items]
        return self._rows[[self._numbers[config] for config in configs]]
