"""Predicted time of a pipeline: the sum of its stages' times, each from a model fitted to that stage's own trials."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from warpsmith.generator.space import Config, Space, Value
from warpsmith.tuner.search.additive import WIDE, Additive

FITS = 4
"""Number of fits. Each fit of `Additive` starts from the last one; after this many the costs no longer change."""


class StageTimes:
    """Predicts the time of a joined config from trials of its stages as separate problems.

    In 30 made-up pipelines of two stages with six, four and three values per parameter, the best of the first five
    proposals took 1.001 times the best time after 30 trials of each stage. The additive model of the whole pipeline
    needs 80 trials of it for 1.015. Fitting stages to times of the whole pipeline was no better than that
    (docs/lab/tuning-notes.md).

    Args:
        spaces: spaces of the stages, by stage name.
        trials: for each stage its times in ns and configs, fastest first, one or more.
    """

    def __init__(self, spaces: Mapping[str, Space], trials: Mapping[str, Sequence[tuple[float, Config]]]) -> None:
        self._costs: dict[str, dict[tuple[str, Value], float]] = {}
        """Costs of each stage: what each value adds to the logarithm of its time. The mean is part of the first
        parameter's costs.
        """
        for stage, space in spaces.items():
            model, fastest = Additive(space, focus=WIDE), trials[stage]
            for _ in range(FITS):
                costs = model.costs(fastest, [])
            best_ns, best = fastest[0]
            first, *_ = best.items
            level = math.log(best_ns) - sum(costs[item] for item in best.items)
            self._costs[stage] = {item: cost + (level if item[0] == first[0] else 0.0) for item, cost in costs.items()}

    def log_ns(self, config: Config) -> float:
        """Logarithm of the sum of the stages' times in ns."""
        return math.log(
            sum(
                math.exp(sum(map(costs.__getitem__, config.of_stage(stage).items)))
                for stage, costs in self._costs.items()
            )
        )
