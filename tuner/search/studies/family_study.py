"""Search over one family's space as an Optuna study, which receives every trial by ask and tell."""

from __future__ import annotations

import optuna
from optuna.trial import TrialState, create_trial

from warpsmith.errors import BadArgument
from warpsmith.generator.space import Config
from warpsmith.tuner.search.neighbours import Neighbours
from warpsmith.tuner.search.random_order import RandomOrder
from warpsmith.tuner.search.sampler_choice import SamplerChoice
from warpsmith.tuner.search.studies.coding import Branched, Categories, Coding, Places
from warpsmith.tuner.search.studies.samplers import (
    AdditiveSampler,
    FeasibleSampler,
    SpaceExhausted,
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
        self._coding: Coding = Branched(order.space)
        if choice is SamplerChoice.ADDITIVE:
            self._own = AdditiveSampler(order, neighbours)
        elif choice is SamplerChoice.RANDOM:
            self._own = FeasibleSampler(order)
        else:
            self._coding = Places(order.space) if choice is SamplerChoice.CMAES else Categories(order.space)
        with quiet_optuna():
            sampler = self._own or _optunas_own(choice, seed)
            self.study = optuna.create_study(study_name=name, sampler=sampler, direction="minimize")
        self._pending: dict[Config, optuna.trial.Trial] = {}

    def ask(self) -> Config | None:
        """A new legal config; None if every config was tried."""
        if self._own is None:
            return self._suggested() or self._order.next()
        try:
            config = self._own.coming()
        except SpaceExhausted:
            return None
        trial = self.study.ask(self._own.coding.distributions_of(config))
        self._pending[config] = trial
        return config

    def tell(self, config: Config, time_ns: float | None) -> None:
        """Reports the outcome of a config, asked or not: its time in ns, or None for a failure."""
        # Pruned, not failed: Optuna's samplers rank pruned trials last, but forget failed ones.
        state = TrialState.PRUNED if time_ns is None else TrialState.COMPLETE
        if (trial := self._pending.pop(config, None)) is not None:
            self.study.tell(trial, time_ns, state)
            return
        params, distributions = self._coding.params(config), self._coding.distributions_of(config)
        self.study.add_trial(create_trial(state=state, value=time_ns, params=params, distributions=distributions))
        if self._own is not None:
            self._own.learn(config, time_ns)

    def _suggested(self) -> Config | None:
        """A new legal config from a sampler that knows neither the constraints nor the tried configs."""
        if is_left_to_chance(self._order, self._neighbours):
            return None
        coding = self._coding
        assert not isinstance(coding, Branched)
        for _ in range(REPEATS):
            with quiet_optuna():
                trial = self.study.ask(coding.distributions)
            suggested = coding.config(trial.params)
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
