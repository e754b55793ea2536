"""Ridge model of the cost of parameter values, alone and in pairs, for configs of several spaces."""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from warpsmith.generator.space import Config, Value

Numbers = npt.NDArray[np.float64]
Feature = tuple[tuple[str, Value], ...]
"""One parameter with its value or the octave of its value, or a pair of these."""

RIDGE, PAIR_RIDGE = 1.0, 8.0
"""Ridge weights, in samples, that pull effects to 0: of a single value, and of a pair of values, of which there are far
more.
"""
SWEEPS = 4
"""Passes over all parameters."""


class Effects:
    """The logarithm of a time as a sum over the features of a config. Immutable after fitting.

    It is fitted by weighted ridge regression, one set of features after the other (backfitting, Hastie and Tibshirani
    1986, "Generalized additive models", section 3), so that finer features explain only what coarser ones do not.
    """

    def __init__(self, mean: float, costs: dict[Feature, float]) -> None:
        self._mean, self._costs = mean, costs

    @classmethod
    def fit(cls, configs: Sequence[Config], outcomes: Sequence[float], weights: Sequence[float]) -> Effects:
        """Fits the effects to outcomes, one per config. The configs may come from several spaces of a family.

        Raises ValueError if there is no config.
        """
        if not configs:
            raise ValueError("effects need a config at the least")
        weight, rest = np.array(weights), np.array(outcomes)
        mean = float((weight * rest).sum() / weight.sum())
        rest = rest - mean
        columns = [_Column(slot, rows) for slot, rows in _slots(configs).items()]
        for _ in range(SWEEPS):
            for column in columns:
                column.improve(weight, rest)
        return cls(mean, {feature: cost for column in columns for feature, cost in column.costs()})

    def predicted(self, config: Config) -> float:
        """The expected outcome; features that were never seen add nothing."""
        costs = self._costs
        return self._mean + sum(costs.get(feature, 0.0) for feature in features(config))


class _Column:
    """One feature slot, such as `columns` or `columns` and `path`, with the feature that each config has in it."""

    def __init__(self, slot: tuple[str, ...], rows: list[tuple[int, Feature]]) -> None:
        names = sorted({feature for _, feature in rows}, key=repr)
        place = {feature: number for number, feature in enumerate(names)}
        self._features = names
        self._at = np.array([row for row, _ in rows])
        self._places = np.array([place[feature] for _, feature in rows])
        self._cost = np.zeros(len(names))
        self._ridge = PAIR_RIDGE if len(slot) == 2 else RIDGE

    def improve(self, weight: Numbers, rest: Numbers) -> None:
        """Refits the costs to the residual `rest`, and subtracts their change from it."""
        here = weight[self._at]
        total = np.bincount(self._places, here, len(self._cost))
        pull = np.bincount(self._places, here * rest[self._at], len(self._cost))
        change = (pull - self._ridge * self._cost) / (total + self._ridge)
        self._cost += change
        rest[self._at] -= change[self._places]

    def costs(self) -> Iterable[tuple[Feature, float]]:
        return zip(self._features, self._cost.tolist(), strict=True)


@functools.lru_cache(maxsize=1 << 14)
def features(config: Config) -> tuple[Feature, ...]:
    """Each value; each number's octave; each pair of values, with numbers replaced by their octaves.

    The result is cached: a cross-check fits models to the same samples eight times, which would cost a tenth of a
    second each.
    """
    coarse = [(name, _octave(value)) for name, value in config.items]
    alone: list[Feature] = []
    for item, rough in zip(config.items, coarse, strict=True):
        alone.append((item,))
        if rough[1] != item[1]:
            alone.append(((f"{rough[0]}~", rough[1]),))
    return (*alone, *itertools.combinations(coarse, 2))


@functools.lru_cache(maxsize=1 << 14)
def _parameters(config: Config) -> tuple[tuple[str, ...], ...]:
    """Names of the parameters that each feature of `features(config)` covers."""
    return tuple(tuple(name for name, _ in feature) for feature in features(config))


def _slots(configs: Sequence[Config]) -> dict[tuple[str, ...], list[tuple[int, Feature]]]:
    """Features grouped by the parameters that they cover, single values before pairs, with the rows that have them."""
    found: defaultdict[tuple[str, ...], list[tuple[int, Feature]]] = defaultdict(list)
    for row, config in enumerate(configs):
        for slot, feature in zip(_parameters(config), features(config), strict=True):
            found[slot].append((row, feature))
    # Order: octaves, values, pairs. What a coarser feature explains is not left to a finer one.
    return dict(sorted(found.items(), key=lambda slot: (len(slot[0]), not slot[0][0].endswith("~"), slot[0])))


def _octave(value: Value) -> Value:
    return f"2^{round(math.log2(value + 1))}" if isinstance(value, int) and value >= 0 else value
