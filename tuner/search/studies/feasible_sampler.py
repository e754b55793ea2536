"""Optuna samplers that propose nothing but legal configs of a search space, and none twice."""

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
    """The parameters of a space as those of a study: their values, without an order."""
    return {each.name: CategoricalDistribution(each.values) for each in space.parameters}


class SpaceExhausted(Exception):
    """Every config of the space was tried."""


class FeasibleSampler(BaseSampler):
    """Draws configs at random. Not thread-safe.

    A study with it has one objective, the time in ns, to be minimised, and the parameters `distributions`. A trial that
    is told as failed or pruned is one of a config to keep away from.

    Args:
        order: the configs and those that were tried, which are not proposed again.
    """

    def __init__(self, order: RandomOrder) -> None:
        self.order = order
        self.distributions = categories(order.space)
        """What `Study.ask` is to be given."""
        self._others = RandomSampler()

    def learn(self, config: Config, time_ns: float | None) -> None:  # noqa: ARG002 - it draws whatever the times
        """Takes in a time in ns, above 0, or None for a failure; of several for one config the last counts."""
        self.order.tried.add(config)

    def proposal(self) -> Config | None:
        """What to try next; None where every config was tried."""
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
        """A new config. Raises SpaceExhausted where none is left."""
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
        """Learns what came of a trial."""
        config = Config.of({name: trial.params[name] for name in self.distributions})
        self.learn(config, values[0] if state is TrialState.COMPLETE and values else None)
