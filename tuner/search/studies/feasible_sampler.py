"""Optuna samplers that propose only legal configs of a search space, each once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial, TrialState

from warpsmith.generator.space import Config, Space
from warpsmith.tuner.search.random_order import RandomOrder


def categories(space: Space) -> dict[str, BaseDistribution]:
    """A space's parameters as unordered categorical distributions of a study."""
    return {each.name: CategoricalDistribution(each.values) for each in space.parameters}


class SpaceExhausted(Exception):
    """Every config of the space was tried."""


class FeasibleSampler(BaseSampler):
    """Draws configs at random. Not thread-safe.

    Its study has one objective, the time in ns, to be minimised, and the parameters `distributions`. A trial that
    failed or was pruned marks a config to avoid.

    Args:
        order: the configs of the space, and those already tried, which are not proposed again.
    """

    def __init__(self, order: RandomOrder) -> None:
        self.order = order
        self.distributions = categories(order.space)
        """Distributions to pass to `Study.ask`."""
        self._others = RandomSampler()

    def learn(self, config: Config, time_ns: float | None) -> None:  # noqa: ARG002 - it draws whatever the times
        """Takes in a time in ns, above 0, or None for a failure. The last of several reports of one config counts."""
        self.order.tried.add(config)

    def proposal(self) -> Config | None:
        """The next config to try; None if every config was tried."""
        return self.order.next()

    def infer_relative_search_space(
        self,
        study: Study,  # noqa: ARG002 - whatever was tried, the space stays
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        return self.distributions

    def sample_relative(
        self,
        study: Study,  # noqa: ARG002 - what came of trials was learned when they were told
        trial: FrozenTrial,  # noqa: ARG002
        search_space: dict[str, BaseDistribution],  # noqa: ARG002 - that of infer_relative_search_space
    ) -> dict[str, Any]:
        """Draws a new config. Raises SpaceExhausted if none is left."""
        if (config := self.proposal()) is None:
            raise SpaceExhausted("every config of the space was tried")
        self.order.tried.add(config)
        return dict(config.values())

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A random value of a parameter that the space does not have."""
        return self._others.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: Study,  # noqa: ARG002 - every study with this sampler has its space
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Takes in the outcome of a trial."""
        config = Config.of({name: trial.params[name] for name in self.distributions})
        self.learn(config, values[0] if state is TrialState.COMPLETE and values else None)
