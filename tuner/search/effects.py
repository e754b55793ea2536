"""What values of configs cost, alone and in pairs, with shrinkage: a model that configs of several spaces share."""

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
"""One parameter and its value, or its octave, or two of these."""

RIDGE, PAIR_RIDGE = 1.0, 8.0
"""What holds an effect at 0, in samples: of a value alone, and of two together, of which there are far more."""
SWEEPS = 4
"""Passes over all parameters."""


class Effects:
    """The logarithm of a time as a sum over the features of a config. Frozen once it is fitted.

    Fitted by weighted ridge regression, one set of features after the other (backfitting, Hastie and Tibshirani 1986,
    "Generalized additive models", section 3), so that finer features explain only what coarser ones do not.
    """

    def __init__(self, mean: float, costs: dict[Feature, float]) -> None:
        self._mean, self._costs = mean, costs

    @classmethod
    def fit(cls, configs: Sequence[Config], outcomes: Sequence[float], weights: Sequence[float]) -> Effects:
        """The effects on outcomes, one for each config, which may be of several spaces of a family.

        Raises ValueError where there is none.
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
        """The expected outcome. What was never seen costs nothing."""
        costs = self._costs
        return self._mean + sum(costs.get(feature, 0.0) for feature in features(config))


class _Column:
    """One feature slot, such as `columns` or `columns` and `path`: which of its features each config has."""

    def __init__(self, slot: tuple[str, ...], rows: list[tuple[int, Feature]]) -> None:
        names = sorted({feature for _, feature in rows}, key=repr)
        place = {feature: number for number, feature in enumerate(names)}
        self._features = names
        self._at = np.array([row for row, _ in rows])
        self._places = np.array([place[feature] for _, feature in rows])
        self._cost = np.zeros(len(names))
        self._ridge = PAIR_RIDGE if len(slot) == 2 else RIDGE

    def improve(self, weight: Numbers, rest: Numbers) -> None:
        """Moves the costs to where the rest is least, and takes that from the rest."""
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
    """Each value; each number's octave; each pair of values, numbers by their octaves.

    Kept: a cross-check fits models to the same samples eight times, a tenth of a second each without.
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
    """What each of its features is of."""
    return tuple(tuple(name for name, _ in feature) for feature in features(config))


def _slots(configs: Sequence[Config]) -> dict[tuple[str, ...], list[tuple[int, Feature]]]:
    """The features by the parameters that they are of, values before pairs, with the rows that have them."""
    found: defaultdict[tuple[str, ...], list[tuple[int, Feature]]] = defaultdict(list)
    for row, config in enumerate(configs):
        for slot, feature in zip(_parameters(config), features(config), strict=True):
            found[slot].append((row, feature))
    # Octaves, values, pairs: what a coarser feature explains is no longer left to a finer one.
    return dict(sorted(found.items(), key=lambda slot: (len(slot[0]), not slot[0][0].endswith("~"), slot[0])))


def _octave(value: Value) -> Value:
    return f"2^{round(math.log2(value + 1))}" if isinstance(value, int) and value >= 0 else value
