"""Search: which config to try next. The only module that imports Optuna.

Optuna proposes, this module decides: every config handed out is feasible and new. Studies live in memory, since the
store of trials is the durable record; a search goes on by being told the stored trials again.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import TrialState

from warpsmith.generator.space import Config, Parameter, Space, Value

STARTUP = 10
"""Configs tried before the model is asked: the default and a seeded random sample."""
SMALL = 32
"""With no more untried configs than this, a seeded order takes them all: the model would mostly repeat itself."""
MAX_REJECTED = 16
"""Suggestions in a row that may be infeasible or repeated before a random config is taken instead."""
DOUBTED_AFTER = 3
"""Failures, with no success beside them, after which a family gets few asks."""
LEADER_SHARE = 4
"""Asks that the fastest family gets for every one that the others get between them; four in five."""
DOUBTED_WEIGHT = 0.2
"""Asks that a family which only fails gets for every one that another slow family gets."""


class FamilySearch:
    """The search over one family's space: the default first, never a config twice, until none is left.

    Times enter as their logarithm, so that 10 us against 20 us counts as much as 1 ms against 2 ms. For a given seed
    and sequence of asks and tells the configs are the same. Not thread-safe.

    Args:
        study_name: names the Optuna study, together with the space's fingerprint, because a study's choices may
            not change.
        space: the family's space; every feasible config is listed at once (about 5 us each).
        default: the config to try first.
        seed: of the random order and of the sampler.
        stored: earlier trials, each a config and its time in ns, or None for a failure. They count as tried and
            teach the model; of several for one config the last counts. Those outside the space are passed over.

    Raises:
        ValueError: `default` is not a point of `space`.

    Source of the sampler: Watanabe 2023, "Tree-Structured Parzen Estimator", arXiv 2304.11127.
    """

    def __init__(
        self,
        study_name: str,
        space: Space,
        default: Config,
        seed: int,
        stored: Iterable[tuple[Config, float | None]] = (),
    ) -> None:
        if reason := space.why_not(default):
            raise ValueError(f"the default config of {study_name} is not feasible: {reason}")
        self.study_name = f"{study_name}/{space.fingerprint}"
        self._encoding = _Encoding(space)
        self._study = _new_study(self.study_name, seed)
        # One listing serves membership tests, the exact count, and the order for random and small searches.
        order = list(space.configs())
        self._feasible = frozenset(order)
        random.Random(seed).shuffle(order)
        self._order = iter([default, *order])
        self._default = default
        self._tried: set[Config] = set()
        self._outstanding: dict[Config, optuna.Trial] = {}
        self._best_ns: float | None = None
        self._failures = 0
        for config, time_ns in {config: time_ns for config, time_ns in stored if config in self._feasible}.items():
            self._tried.add(config)
            self._study.add_trial(self._encoding.finished(config, time_ns))
            self._count(time_ns)

    @property
    def size(self) -> int:
        """Feasible configs of the space."""
        return len(self._feasible)

    @property
    def remaining(self) -> int:
        """Feasible configs that are neither stored nor handed out yet."""
        return len(self._feasible) - len(self._tried)

    @property
    def default_is_due(self) -> bool:
        """Whether the next ask returns the default config."""
        return self._default not in self._tried

    @property
    def best_ns(self) -> float | None:
        """The shortest time stored or told, in ns; None where nothing has succeeded."""
        return self._best_ns

    @property
    def is_doubted(self) -> bool:
        """Whether several configs have failed and none has succeeded."""
        return self._best_ns is None and self._failures >= DOUBTED_AFTER

    def ask(self) -> Config | None:
        """The next config to try, feasible and new; None once the space is exhausted.

        Asks may run ahead of their tells: `constant_liar` makes the model count what is under way as slow, so that
        it spreads them out.
        """
        if self.remaining == 0:
            return None
        config, trial = self._next_in_order() if self._model_is_no_use() else self._next_of_model()
        self._tried.add(config)
        self._outstanding[config] = trial
        return config

    def tell(self, config: Config, time_ns: float | None) -> None:
        """Reports what came of an asked config: its time in ns, above 0, or None for a failure.

        Raises:
            ValueError: `config` was not asked for, or was told before.
        """
        if config not in self._outstanding:
            raise ValueError(f"{config} was told without being asked for")
        trial = self._outstanding.pop(config)
        if time_ns is None:
            # Pruned, not failed: the sampler ranks pruned trials last but forgets failed ones. Where four fifths
            # of a space fail, 19 of the first 40 trials do instead of 31.
            self._study.tell(trial, state=TrialState.PRUNED)
        else:
            self._study.tell(trial, math.log(time_ns))
        self._count(time_ns)

    def _count(self, time_ns: float | None) -> None:
        if time_ns is None:
            self._failures += 1
        else:
            self._best_ns = time_ns if self._best_ns is None else min(self._best_ns, time_ns)

    def _model_is_no_use(self) -> bool:
        # Before the first success it would rank nothing but failures.
        starting = self.default_is_due or len(self._tried) < STARTUP or self._best_ns is None
        return starting or self.remaining <= SMALL

    def _next_in_order(self) -> tuple[Config, optuna.Trial]:
        config = next(config for config in self._order if config not in self._tried)
        self._study.enqueue_trial(self._encoding.encode(config))
        return config, self._study.ask(self._encoding.distributions)

    def _next_of_model(self) -> tuple[Config, optuna.Trial]:
        for _ in range(MAX_REJECTED):
            trial = self._study.ask(self._encoding.distributions)
            config = self._encoding.decode(trial.params)
            if config in self._feasible and config not in self._tried:
                return config, trial
            # Pruned here too. On a 14400-point space, forgetting repeats instead left the sampler stuck at its best
            # point: 400 trials ended 7% above the optimum instead of 1%, after 8 times the search time.
            self._study.tell(trial, state=TrialState.PRUNED)
        return self._next_in_order()


class _Encoding:
    """A space as Optuna sees it.

    Rising integers become their index, so that the model knows 4 to lie between 2 and 8 and equally far from both;
    words are unordered choices.
    """

    def __init__(self, space: Space) -> None:
        self._indexed = {each.name: each.values for each in space.parameters if _is_rising(each)}
        self.distributions: dict[str, BaseDistribution] = {
            each.name: IntDistribution(0, len(each.values) - 1)
            if each.name in self._indexed
            else CategoricalDistribution(each.values)
            for each in space.parameters
        }

    def encode(self, config: Config) -> dict[str, Value]:
        return {
            name: self._indexed[name].index(value) if name in self._indexed else value for name, value in config.items
        }

    def decode(self, params: Mapping[str, Any]) -> Config:
        return Config.of(
            {name: self._indexed[name][value] if name in self._indexed else value for name, value in params.items()}
        )

    def finished(self, config: Config, time_ns: float | None) -> optuna.trial.FrozenTrial:
        """An earlier trial, in the states that `FamilySearch.tell` uses."""
        return optuna.trial.create_trial(
            state=TrialState.PRUNED if time_ns is None else TrialState.COMPLETE,
            value=None if time_ns is None else math.log(time_ns),
            params=self.encode(config),
            distributions=self.distributions,
        )


def _is_rising(parameter: Parameter) -> bool:
    numbers = [value for value in parameter.values if isinstance(value, int)]
    return len(numbers) == len(parameter.values) and numbers == sorted(numbers)


def _new_study(name: str, seed: int) -> optuna.Study:
    # The model is asked only after STARTUP, so the sampler's own random start is switched off.
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, multivariate=True, constant_liar=True)
    with _quiet_optuna():
        return optuna.create_study(study_name=name, sampler=sampler, direction="minimize")


@contextlib.contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Silences the one line that Optuna logs here, the creation of a study.

    Optuna has one level for the whole process. Put back at once, the user's own studies log as before; set at import,
    it would silence them too.
    """
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


class Search:
    """Several families that compete for one problem.

    The default config of every family comes first. Then of every five asks four go to the family with the best time
    so far and one to the others in turn, so that a slow starter gets its chance. A family that only fails gets few,
    an exhausted one none. Not thread-safe.

    Args:
        families: one search a family, by the family's name.
        seed: of the order in which families of equal standing take their turns, so that none is favoured by its
            place in the registry.
    """

    def __init__(self, families: Mapping[str, FamilySearch], seed: int) -> None:
        self._families = dict(families)
        self._turns = list(families)
        random.Random(seed).shuffle(self._turns)
        self._credit = dict.fromkeys(families, 0.0)

    @property
    def size(self) -> int:
        """Feasible configs of all families."""
        return sum(family.size for family in self._families.values())

    @property
    def remaining(self) -> int:
        """Feasible configs of all families that are neither stored nor handed out yet."""
        return sum(family.remaining for family in self._families.values())

    def ask(self) -> tuple[str, Config] | None:
        """The next family, by name, and its config; None once every space is exhausted."""
        due = (name for name, family in self._families.items() if family.default_is_due)
        name = next(due, None) or self._next_turn()
        config = self._families[name].ask() if name is not None else None
        return None if name is None or config is None else (name, config)

    def tell(self, family: str, config: Config, time_ns: float | None) -> None:
        """Reports what came of an asked config: its time in ns, above 0, or None for a failure.

        Raises:
            ValueError: `config` was not asked of `family`, or was told before.
        """
        self._families[family].tell(config, time_ns)

    def _next_turn(self) -> str | None:
        """Smooth weighted round robin: credit grows by weight, and the turn costs what all have gained."""
        contenders = [name for name in self._turns if self._families[name].remaining]
        if not contenders:
            return None
        weights = self._weights(contenders)
        for name, weight in weights.items():
            self._credit[name] += weight
        chosen = max(contenders, key=self._credit.__getitem__)
        self._credit[chosen] -= sum(weights.values())
        return chosen

    def _weights(self, contenders: list[str]) -> dict[str, float]:
        weights = {name: DOUBTED_WEIGHT if self._families[name].is_doubted else 1.0 for name in contenders}
        times = {name: best for name in contenders if (best := self._families[name].best_ns) is not None}
        if times:
            # Per other family, so that the share of the fastest does not shrink with their number.
            weights[min(times, key=times.__getitem__)] = LEADER_SHARE * (len(contenders) - 1)
        return weights
