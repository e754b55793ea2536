"""What Optuna suggests. The only module that imports it, which takes 0.4 s: when it is first asked."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from sqlalchemy import NullPool
from sqlalchemy.exc import SQLAlchemyError

from warpsmith.generator.space import Config, Space
from warpsmith.tuner.neighbours import Neighbours

if TYPE_CHECKING:
    import optuna

ATTEMPTS = 3
"""At opening a shared study: of two tuners that make Optuna's tables at once, one is refused."""


class Model:
    """Optuna's sampler over one space.

    It learns what a proposal needs, the fastest trials and the latest failures: to tell it a trial takes 0.3 ms in
    memory. On a server the study is one for all tuners; while that is away, there is nothing to propose.

    Args:
        study_name: of the study.
        space: the choices.
        tried: what is not to be proposed again; read at each call.
        seed: of the sampler.
        studies: URL of a server's database that keeps the study; None for memory.
    """

    TAUGHT = 64
    """The fastest configs that it learns of at each suggestion, and a quarter as many failures."""

    def __init__(
        self, study_name: str, space: Space, tried: Container[Config], seed: int, studies: str | None = None
    ) -> None:
        self._study_name, self._space, self._tried, self._seed = study_name, space, tried, seed
        self._studies = studies
        self._taught: set[Config] = set()
        self._study: optuna.Study | None = None

    def next(self, known: Neighbours) -> Config | None:
        """What the sampler suggests, or the legal config most like it; None where that was tried."""
        from optuna.exceptions import OptunaError

        try:
            self._study = self._study or self._opened()
            return self._suggested(self._study, known)
        except (OptunaError, SQLAlchemyError):
            if self._studies is None:
                raise
            self._study = None  # connects anew, once the server is back
            return None

    def _suggested(self, study: optuna.Study, known: Neighbours) -> Config | None:
        from optuna.distributions import BaseDistribution, CategoricalDistribution
        from optuna.trial import TrialState, create_trial

        # Choices without an order: for integers the sampler takes three times as long, and finds no more.
        choices: dict[str, BaseDistribution] = {
            each.name: CategoricalDistribution(each.values) for each in self._space.parameters
        }
        if self._studies is not None:
            done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
            self._taught.update(Config.of(trial.params) for trial in done)
        for config, time_ns in known.fastest(self.TAUGHT) + known.failed(self.TAUGHT // 4):
            if config not in self._taught:
                self._taught.add(config)
                # Pruned, not failed: the sampler ranks pruned trials last but forgets failed ones.
                state = TrialState.PRUNED if time_ns is None else TrialState.COMPLETE
                value = None if time_ns is None else math.log(time_ns)
                study.add_trial(create_trial(state=state, value=value, params=config.values(), distributions=choices))
        trial = study.ask(choices)
        suggested = self._space.like(trial.params)
        is_new = suggested is not None and suggested not in self._tried
        # Pruned where it repeats itself, so that it learns; else forgotten, since its time is taught above.
        study.tell(trial, state=TrialState.FAIL if is_new else TrialState.PRUNED)
        return suggested if is_new else None

    def _opened(self) -> optuna.Study:
        import optuna

        sampler = optuna.samplers.TPESampler(seed=self._seed, n_startup_trials=0, multivariate=True)
        with _quiet_optuna():
            return optuna.create_study(
                study_name=self._study_name,
                storage=None if self._studies is None else _server(self._studies),
                sampler=sampler,
                direction="minimize",
                load_if_exists=True,
            )


def _server(url: str) -> optuna.storages.RDBStorage:
    """Optuna's tables in a server's database, made where they are missing."""
    import optuna

    # No connection outlives its use, which is once in a while.
    opened = functools.partial(optuna.storages.RDBStorage, url, engine_kwargs={"poolclass": NullPool})
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(SQLAlchemyError):
            return opened()
    return opened()


@contextlib.contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Silences the one line that Optuna logs here, the creation of a study.

    Optuna has one level for the whole process. Put back at once, the user's own studies log as before; set at import,
    it would silence them too.
    """
    import optuna

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)
