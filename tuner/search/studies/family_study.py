"""Search over one family's space as an Optuna study, which receives every trial by ask and tell."""

from __future__ import annotations

from collections.abc import Mapping

import optuna
from optuna.distributions import BaseDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from warpsmith.errors import BadArgument
from warpsmith.generator.space import Config, Space, Value
from warpsmith.tuner.search.neighbours import Neighbours
from warpsmith.tuner.search.random_order import RandomOrder
from warpsmith.tuner.search.sampler_choice import SamplerChoice
from warpsmith.tuner.search.studies.samplers import (
    AdditiveSampler,
    FeasibleSampler,
    SpaceExhausted,
    categories,
    is_left_to_chance,
    quiet_optuna,
)

REPEATS = 8
"""Number of tried configs that one of Optuna's own samplers may suggest in a row before a random config is taken."""
NEEDS = {SamplerChoice.GP: "scipy and torch", SamplerChoice.CMAES: "cmaes"}
"""Packages that a sampler needs in addition to Optuna."""


class FamilyStudy:
    """An Optuna study in memory and its sampler. Not thread-safe.

    Optuna's own samplers know no constraints. Their suggestion is replaced by the most similar legal config. A
    suggestion that was already tried is reported as pruned, so that the sampler looks elsewhere.

    Args:
        name: name of the study.
        choice: sampler to use.
        seed: seed of the sampler.
        order: the configs of the space, and those already tried.
        neighbours: model of the same configs, with their known times.

    Raises:
        BadArgument: a package that the sampler needs is missing.
    """

    def __init__(self, name: str, choice: SamplerChoice, seed: int, order: RandomOrder, neighbours: Neighbours) -> None:
        self._order, self._neighbours = order, neighbours
        self._own: FeasibleSampler | None = None
        self._coding: Coding = Categories(order.space)
        if choice is SamplerChoice.CMAES:
            self._coding = Places(order.space)
        if choice is SamplerChoice.ADDITIVE:
            self._own = AdditiveSampler(order, neighbours)
        elif choice is SamplerChoice.RANDOM:
            self._own = FeasibleSampler(order)
        with quiet_optuna():
            sampler = self._own or _optunas_own(choice, seed)
            self.study = optuna.create_study(study_name=name, sampler=sampler, direction="minimize")
        self._pending: dict[Config, optuna.trial.Trial] = {}

    def ask(self) -> Config | None:
        """A new legal config; None if every config was tried."""
        if self._own is None:
            return self._suggested() or self._order.next()
        try:
            trial = self.study.ask(self._coding.distributions)
        except SpaceExhausted:
            return None
        config = self._coding.config(trial.params)
        self._pending[config] = trial
        return config

    def tell(self, config: Config, time_ns: float | None) -> None:
        """Reports the outcome of a config, asked or not: its time in ns, or None for a failure."""
        # Pruned, not failed: Optuna's samplers rank pruned trials last, but forget failed ones.
        state = TrialState.PRUNED if time_ns is None else TrialState.COMPLETE
        if (trial := self._pending.pop(config, None)) is not None:
            self.study.tell(trial, time_ns, state)
            return
        params = self._coding.params(config)
        self.study.add_trial(
            create_trial(state=state, value=time_ns, params=params, distributions=self._coding.distributions)
        )
        if self._own is not None:
            self._own.learn(config, time_ns)

    def _suggested(self) -> Config | None:
        """A new legal config from a sampler that knows neither the constraints nor the tried configs."""
        if is_left_to_chance(self._order, self._neighbours):
            return None
        for _ in range(REPEATS):
            with quiet_optuna():
                trial = self.study.ask(self._coding.distributions)
            suggested = self._coding.config(trial.params)
            config = self._order.space.like(suggested.values())
            if config is None or config in self._order.tried:
                self.study.tell(trial, state=TrialState.PRUNED)
            elif config == suggested:
                self._pending[config] = trial
                return config
            else:
                self.study.tell(trial, state=TrialState.FAIL)  # reported by `tell`, as the config that replaced it
                return config
        return None


class Categories:
    """Encodes a config as unordered parameter values of a study."""

    def __init__(self, space: Space) -> None:
        self.distributions = categories(space)

    def config(self, params: Mapping[str, Value]) -> Config:
        return Config.of(params)

    def params(self, config: Config) -> dict[str, Value]:
        return config.values()


class Places:
    """Encodes a config as the index of each value in its parameter's list of values."""

    def __init__(self, space: Space) -> None:
        self._values = {each.name: each.values for each in space.parameters}
        self.distributions: dict[str, BaseDistribution] = {
            name: IntDistribution(0, len(values) - 1) for name, values in self._values.items()
        }

    def config(self, params: Mapping[str, Value]) -> Config:
        return Config.of({name: values[int(params[name])] for name, values in self._values.items()})

    def params(self, config: Config) -> dict[str, Value]:
        return {name: self._values[name].index(value) for name, value in config.items}


Coding = Categories | Places


def _optunas_own(choice: SamplerChoice, seed: int) -> optuna.samplers.BaseSampler:
    """One of Optuna's samplers, without random start trials: the search has its own start."""
    try:
        if choice is SamplerChoice.GP:
            return optuna.samplers.GPSampler(seed=seed, n_startup_trials=1)
        if choice is SamplerChoice.CMAES:
            return optuna.samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
    except ImportError as error:
        reason = str(error).splitlines()[0]
        raise BadArgument(f"the sampler {choice} needs the packages {NEEDS[choice]}: {reason}") from None
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, multivariate=True)
