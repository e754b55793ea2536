"""Search: which config to try next. The only module that imports Optuna.

Optuna proposes, this module decides: every config handed out is feasible and new. Studies live in memory, since the
store of trials is the durable record; a search goes on by being told the stored trials again.
"""

from __future__ import annotations

import contextlib
import itertools
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
LISTED = 20_000
"""Feasible configs up to which a space is listed, in about half a second; a larger one is drawn from at random."""
SMALL = 32
"""With no more untried configs than this, a seeded order takes them all: the model would mostly repeat itself."""
NEIGHBOURS = 3
"""Of so many asks and one, the one goes to the model, at 30 ms a suggestion, most of them infeasible in a space with
many rules; the others are neighbours of the best, which cost under 1 ms."""
NEIGHBOUR_TRIES = 200
"""Random changes that may be infeasible or repeated before the model is asked."""
BEST = 8
"""The fastest configs, whose neighbours are tried."""
MAX_REJECTED = 16
"""Suggestions in a row that may be infeasible or repeated before a random config is taken instead."""
DOUBTED_AFTER = 3
"""Failures, with no success beside them, after which a family gets few asks."""


class FamilySearch:
    """The search over one family's space: the default first, never a config twice, until none is left.

    Times enter as their logarithm, so that 10 us against 20 us counts as much as 1 ms against 2 ms. For a given seed
    and sequence of asks and tells the configs are the same. Not thread-safe.

    Args:
        study_name: names the Optuna study, together with the space's fingerprint, because a study's choices may
            not change.
        space: the family's space.
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
        self._space = space
        self._listing = space.listed(LISTED)
        self._order = itertools.chain([default], _random_order(space, self._listing, random.Random(seed)))
        self._default = default
        self._tried: set[Config] = set()
        self._outstanding: dict[Config, optuna.Trial] = {}
        self._rng = random.Random(f"{seed} neighbours")
        self._best: list[tuple[float, Config]] = []
        self._failures = 0
        for config, time_ns in {config: time_ns for config, time_ns in stored if space.contains(config)}.items():
            self._tried.add(config)
            self._study.add_trial(self._encoding.finished(config, time_ns))
            self._count(config, time_ns)

    @property
    def size(self) -> int | None:
        """Feasible configs of the space; None where they are more than LISTED."""
        return None if self._listing is None else len(self._listing)

    @property
    def remaining(self) -> int | None:
        """Feasible configs that are neither stored nor handed out yet; None where they are too many to count."""
        return None if self._listing is None else len(self._listing) - len(self._tried)

    @property
    def default_is_due(self) -> bool:
        """Whether the next ask returns the default config."""
        return self._default not in self._tried

    @property
    def best_ns(self) -> float | None:
        """The shortest time stored or told, in ns; None where nothing has succeeded."""
        return self._best[0][0] if self._best else None

    @property
    def is_doubted(self) -> bool:
        """Whether several configs have failed and none has succeeded."""
        return not self._best and self._failures >= DOUBTED_AFTER

    def ask(self) -> Config | None:
        """The next config to try, feasible and new; None once the space is exhausted.

        Asks may run ahead of their tells: `constant_liar` makes the model count what is under way as slow, so that
        it spreads them out.
        """
        if self.remaining == 0:
            return None
        if self._model_is_no_use():
            config, trial = self._next_in_order()
        elif len(self._tried) % (NEIGHBOURS + 1):
            config, trial = self._next_neighbour()
        else:
            config, trial = self._next_of_model()
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
        self._count(config, time_ns)

    def _count(self, config: Config, time_ns: float | None) -> None:
        if time_ns is None:
            self._failures += 1
        else:
            self._best = sorted([*self._best, (time_ns, config)], key=lambda known: known[0])[:BEST]

    def _model_is_no_use(self) -> bool:
        # Before the first success it would rank nothing but failures.
        starting = self.default_is_due or len(self._tried) < STARTUP or not self._best
        return starting or (self.remaining is not None and self.remaining <= SMALL)

    def _next_neighbour(self) -> tuple[Config, optuna.Trial]:
        """One of the best configs with one to three parameters changed."""
        for _ in range(NEIGHBOUR_TRIES):
            values = self._rng.choice(self._best)[1].values()
            for parameter in self._rng.sample(self._space.parameters, min(self._rng.randint(1, 3), len(values))):
                values[parameter.name] = self._rng.choice(parameter.values)
            config = Config.of(values)
            if config not in self._tried and self._space.contains(config):
                return config, self._enqueued(config)
        return self._next_of_model()

    def _enqueued(self, config: Config) -> optuna.Trial:
        self._study.enqueue_trial(self._encoding.encode(config))
        return self._study.ask(self._encoding.distributions)

    def _next_in_order(self) -> tuple[Config, optuna.Trial]:
        config = next(config for config in self._order if config not in self._tried)
        return config, self._enqueued(config)

    def _next_of_model(self) -> tuple[Config, optuna.Trial]:
        for _ in range(MAX_REJECTED):
            trial = self._study.ask(self._encoding.distributions)
            config = self._encoding.decode(trial.params)
            if config not in self._tried and self._space.contains(config):
                return config, trial
            # Pruned here too. On a 14400-point space, forgetting repeats instead left the sampler stuck at its best
            # point: 400 trials ended 7% above the optimum instead of 1%, after 8 times the search time.
            self._study.tell(trial, state=TrialState.PRUNED)
        return self._next_in_order()


def _random_order(space: Space, listing: tuple[Config, ...] | None, rng: random.Random) -> Iterator[Config]:
    """Feasible configs in a random order: each once of a listing, else without end and with repeats."""
    if listing is not None:
        yield from rng.sample(listing, len(listing))
        return
    while (config := space.drawn(rng)) is not None:
        yield config


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
