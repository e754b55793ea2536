"""Searches as Optuna studies beside a store: Optuna reads back exactly what was tried."""

from __future__ import annotations

import contextlib
import datetime
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest

from builders import NVRTC, failure, measurement, record, timing, trial
from warpsmith.errors import StoreError
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config, Parameter, Space
from warpsmith.store import optuna_tables
from warpsmith.store.contents import Scope, check_store
from warpsmith.store.optuna_tables import study_prefix
from warpsmith.store.prune import Unwanted, prune_store
from warpsmith.store.record import Failure, FailureKind, Measurement, Record
from warpsmith.store.rows import config_text
from warpsmith.store.store import Store
from warpsmith.tuner.search.finished import Finished
from warpsmith.tuner.search.studies import study_store
from warpsmith.tuner.search.studies.study_store import StudyStore

SPACE = Space((Parameter("rows", (1, 2, 4, 8), "outputs"), Parameter("path", ("global", "shared"), "memory")), ())
NOON = datetime.datetime(2026, 5, 4, 12, 0, tzinfo=datetime.UTC)


def finished() -> list[Finished]:
    """Two measured trials, a wrong one and a dropped one, a second apart."""
    timed = timing(1500.0, 1400.0, 1600.0, samples=30, policy="median")
    outcomes: list[Measurement | Failure] = [
        measurement(timed, max_error=1e-8, registers=32, spill_bytes=0, shared_bytes=0, clock_mhz=1980),
        failure(FailureKind.WRONG, "off by one"),
        measurement(timed, max_error=1e-8),
        failure(FailureKind.DROPPED, "each thread spills"),
    ]
    return [
        Finished(
            NOON + datetime.timedelta(seconds=at),
            trial(at, outcome, config=config, fingerprint=f"text {at}", compiler=NVRTC),
        )
        for at, (config, outcome) in enumerate(zip(SPACE.configs(), outcomes, strict=False))
    ]


def loaded(url: str, name: str = "a study") -> list[optuna.trial.FrozenTrial]:
    return optuna.load_study(study_name=name, storage=url).trials


def facts(trials: Sequence[optuna.trial.FrozenTrial]) -> list[tuple[Any, ...]]:
    return [
        (each.number, each.state, each.values, each.params, each.distributions, each.user_attrs, each.datetime_start)
        for each in trials
    ]


@pytest.fixture(params=["file", "server"])
def address(request: pytest.FixtureRequest, tmp_path: Path, made_file: Path) -> str:
    """Address of an existing store."""
    if request.param == "file":
        location = str(shutil.copy(made_file, tmp_path / "store.db"))
    else:
        location = str(request.getfixturevalue("database_with_store"))
    with Store.open(location, write=True) as store:
        assert store.database.address is not None
        return store.database.address


def url_of(address: str) -> str:
    return address if "://" in address else f"sqlite:///{address}"


def test_optuna_reads_what_was_tried(address: str) -> None:
    StudyStore(address).add("a study", SPACE, finished())
    trials = loaded(url_of(address))
    assert [each.state.name for each in trials] == ["COMPLETE", "FAIL", "COMPLETE", "PRUNED"]
    assert [each.value for each in trials] == [1500.0, None, 1500.0, None]
    assert [Config.of(each.params) for each in trials] == [each.trial.config for each in finished()]
    assert trials[1].user_attrs == {
        "fingerprint": "text 1", "compiler": NVRTC, "failure": "wrong", "message": "off by one"
    }  # fmt: skip
    started = trials[3].datetime_start
    assert started is not None
    assert started.astimezone(datetime.UTC) == NOON + datetime.timedelta(seconds=3)
    assert optuna.load_study(study_name="a study", storage=url_of(address)).best_trial.number == 0
    with Store.open(address, write=True) as store:
        assert check_store(store) == ()


def test_more_is_added_to_the_same_study(address: str) -> None:
    for _ in range(2):
        StudyStore(address).add("a study", SPACE, finished())
    StudyStore(address).add("another", SPACE, finished()[:1])
    assert [each.number for each in loaded(url_of(address))] == list(range(8))
    assert [each.number for each in loaded(url_of(address), "another")] == [0]


def test_optunas_own_way_writes_the_same(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna's own tables differ in a version that the fast path does not know."""
    StudyStore(address).add("quick", SPACE, finished())
    monkeypatch.setattr(study_store, "KNOWN_SCHEMA", 0)
    StudyStore(address).add("own", SPACE, finished())
    assert facts(loaded(url_of(address), "quick")) == facts(loaded(url_of(address), "own"))


def test_optuna_goes_on_from_there(address: str) -> None:
    """Optuna's own sequences account for the rows."""
    StudyStore(address).add("a study", SPACE, finished())
    study = optuna.load_study(study_name="a study", storage=url_of(address))
    trial = study.ask(
        {each.name: optuna.distributions.CategoricalDistribution(each.values) for each in SPACE.parameters}
    )
    study.tell(trial, 1.0)
    assert (trial.number, study.best_value) == (4, 1.0)
    StudyStore(address).add("a study", SPACE, finished())
    assert len(loaded(url_of(address))) == 9


def test_nothing_tried_leaves_an_empty_study(address: str) -> None:
    StudyStore(address).add("a study", SPACE, [])
    assert loaded(url_of(address)) == []


def test_what_is_not_of_the_space_is_left_out(address: str) -> None:
    first, *_ = finished()
    other = Finished(NOON, trial(1, first.trial.outcome, compiler=NVRTC))
    StudyStore(address).add("a study", SPACE, [other, first])
    assert len(loaded(url_of(address))) == 1


def test_tables_are_made_by_many_at_once(database: str) -> None:
    start, errors = threading.Barrier(4), []

    def work(number: int) -> None:
        start.wait(30)
        try:
            StudyStore(database).add(f"study {number}", SPACE, finished())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert errors == []
    assert [len(loaded(database, f"study {number}")) for number in range(4)] == [4] * 4


@pytest.mark.parametrize("name", ["other.db?x", "other.db#x", "other%41.db", "other{0}.db", "other.db?mode=ro&x={y}"])
def test_tables_go_into_the_file_of_that_name_alone(tmp_path: Path, made_file: Path, name: str) -> None:
    theirs = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(theirs)) as connection:
        connection.execute("CREATE TABLE theirs (number INTEGER)")
    before, ours = theirs.read_bytes(), tmp_path / name
    shutil.copy(made_file, ours)
    StudyStore(str(ours)).add("a study", SPACE, finished())
    assert sorted(tmp_path.iterdir()) == sorted([theirs, ours])
    assert theirs.read_bytes() == before
    with contextlib.closing(sqlite3.connect(ours)) as connection:
        assert connection.execute("SELECT count(*) FROM trials").fetchone() == (4,)


def test_a_password_with_braces_is_no_template(monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []
    monkeypatch.setattr(study_store, "RDBStorage", lambda url, **_: urls.append(url.format(SCHEMA_VERSION=1)))
    StudyStore("postgresql+psycopg://user:a{b}{}@host/store")
    assert urls == ["postgresql+psycopg://user:a{b}{}@host/store"]


def test_tables_of_a_newer_optuna_are_one_line(tmp_path: Path, made_file: Path) -> None:
    ours = str(shutil.copy(made_file, tmp_path / "a.db"))
    StudyStore(ours).add("a study", SPACE, finished())
    with contextlib.closing(sqlite3.connect(ours)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v9.0.0.a'")
        connection.commit()
    with pytest.raises(StoreError, match="the search is stored, but not as an Optuna study: The runtime optuna"):
        StudyStore(ours)


def test_a_server_that_is_away_is_one_line(database: str, postgresql: Any) -> None:
    studies = StudyStore(database)
    postgresql.stop()
    try:
        with pytest.raises(StoreError, match="the search is stored, but not as an Optuna study: ") as caught:
            studies.add("a study", SPACE, finished())
        assert "\n" not in str(caught.value)
    finally:
        postgresql.start()


class TestPruning:
    """Optuna's trials go with the store's."""

    PROBLEM, OTHER = Filter2d(image=(64, 64), filter=(3, 3)), Filter2d(image=(64, 64), filter=(5, 5))

    @pytest.fixture
    def names(self, address: str) -> dict[Filter2d, str]:
        """Study names of two problems with trials in the store, and of one from another program."""
        named = {each: f"{study_prefix(each.key(), H200.key())}plain/space" for each in (self.PROBLEM, self.OTHER)}
        with Store.open(address, write=True) as store:
            for problem, name in named.items():
                store.add_trials(problem, H200, [each.trial for each in finished()])
                StudyStore(address).add(name, SPACE, finished())
        optuna.create_study(study_name="the user's own", storage=url_of(address)).add_trial(
            optuna.trial.create_trial(value=1.0, user_attrs={"fingerprint": "text 0"})
        )
        return named

    def test_of_some_trials_leaves_the_others_numbered_without_a_gap(
        self, address: str, names: dict[Filter2d, str]
    ) -> None:
        text, (first, *_) = "text 0", finished()
        program = (self.PROBLEM.key(), H200.key(), "plain", config_text(first.trial.config), text)
        unwanted = Unwanted(stale=frozenset({program}))
        with Store.open(address, write=True) as store:
            assert prune_store(store, unwanted, dry_run=True).study_trials == 1
            assert len(loaded(url_of(address), names[self.PROBLEM])) == 4
            assert prune_store(store, unwanted).study_trials == 1
            assert check_store(store) == ()
        left = loaded(url_of(address), names[self.PROBLEM])
        assert [(each.number, each.user_attrs["fingerprint"]) for each in left] == [
            (0, "text 1"), (1, "text 2"), (2, "text 3")
        ]  # fmt: skip
        assert facts(left)[1][1:] == facts(loaded(url_of(address), names[self.OTHER]))[2][1:]
        study = optuna.load_study(study_name=names[self.PROBLEM], storage=url_of(address))
        assert study.best_trial.number == 1
        assert study.ask().number == 3

    def test_of_all_trials_removes_the_study(self, address: str, names: dict[Filter2d, str]) -> None:
        with Store.open(address, write=True) as store:
            store.put_winner(self.winner(self.PROBLEM))
            assert prune_store(store, Unwanted(Scope(operation="filter2d"), everything=True)).study_trials == 8
        assert optuna.get_all_study_names(url_of(address)) == ["the user's own"]
        assert len(loaded(url_of(address), "the user's own")) == 1
        StudyStore(address).add(names[self.OTHER], SPACE, finished())  # and a search goes on
        assert len(loaded(url_of(address), names[self.OTHER])) == 4

    @staticmethod
    def winner(problem: Filter2d) -> Record:
        return record(problem, finished()[0].trial)

    def test_of_the_slow_is_of_that_problem_alone(self, address: str, names: dict[Filter2d, str]) -> None:
        with Store.open(address, write=True) as store:
            store.put_winner(self.winner(self.PROBLEM))
            assert prune_store(store, Unwanted(keep_trials=0)).study_trials == 3
        assert [len(loaded(url_of(address), name)) for name in names.values()] == [1, 4]

    def test_leaves_other_tables_of_optuna_as_they_are(
        self, address: str, names: dict[Filter2d, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(optuna_tables, "KNOWN_SCHEMA", 0)
        with Store.open(address, write=True) as store:
            assert prune_store(store, Unwanted(Scope(operation="filter2d"), everything=True)).study_trials == 0
        assert all(len(loaded(url_of(address), name)) == 4 for name in names.values())
