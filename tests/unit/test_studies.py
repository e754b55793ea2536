"""Optuna's studies on a server, beside a store."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.store.store import Store
from warpsmith.tuner.neighbours import Neighbours
from warpsmith.tuner.studies import Model

SPACE = Space(tuple(Parameter(name, tuple(range(8)), "a number") for name in "ab"), ())


def known(count: int, tried: set[Config]) -> Neighbours:
    """So many configs with their times."""
    neighbours = Neighbours(SPACE, tried, random.Random(0))
    for config in list(SPACE.configs())[:count]:
        tried.add(config)
        failed = config.integer("a") == config.integer("b")
        neighbours.learn(config, None if failed else 100.0 + config.integer("a") + config.integer("b"))
    return neighbours


def states(server: Any, url: str) -> dict[str, int]:
    """Optuna's trials in the database, by state."""
    rows = server.execute("SELECT state, count(*) FROM trials GROUP BY state", url.rpartition("/")[2])
    return {str(state): int(count) for state, count in rows}


def test_are_one_for_all_tuners(database: str, postgresql: Any) -> None:
    with Store.open(database, write=True) as store:
        assert store.server_url == database
        for seed in range(2):
            tried: set[Config] = set()
            learned = known(30, tried)
            suggested = Model("a study", SPACE, tried, seed, store.server_url).next(learned)
            assert suggested is None or suggested not in tried
        assert store.check() == ()
    # Thirty were known, four of them failures, which each tuner tells for itself.
    assert states(postgresql, database)["COMPLETE"] == 26
    names = postgresql.execute("SELECT study_name FROM studies", database.rpartition("/")[2])
    assert names == [("a study",)]


def test_are_begun_by_many_at_once(database: str, postgresql: Any) -> None:
    start, errors = threading.Barrier(4), []

    def work(seed: int) -> None:
        tried: set[Config] = set()
        learned, model = known(12, tried), Model("a study", SPACE, tried, seed, database)
        start.wait(30)
        try:
            model.next(learned)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    assert states(postgresql, database)["COMPLETE"] >= 10


def test_are_done_without_while_the_server_is_away(database: str, postgresql: Any) -> None:
    tried: set[Config] = set()
    learned, model = known(12, tried), Model("a study", SPACE, tried, 0, database)
    model.next(learned)
    postgresql.stop()
    assert [model.next(learned) for _ in range(2)] == [None, None]
    postgresql.start()
    suggestions = [model.next(learned) for _ in range(8)]
    assert any(suggestions)


def test_a_fault_of_its_own_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    from optuna.exceptions import OptunaError

    def fail(*_: Any, **__: Any) -> None:
        raise OptunaError("no such thing")

    monkeypatch.setattr("optuna.create_study", fail)
    tried: set[Config] = set()
    with pytest.raises(OptunaError):
        Model("a study", SPACE, tried, 0).next(known(12, tried))
