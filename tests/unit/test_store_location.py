"""Search order of stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import record
from warpsmith.errors import StoreError
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.store import location, store_chain
from warpsmith.store.contents import check_store
from warpsmith.store.location import redacted
from warpsmith.store.store import Store

PROBLEMS = tuple(Filter2d(image=(64, 64), filter=(size, size)) for size in (2, 3, 5))
"""Problems in the order of their keys."""

OWN_STORE = location.own_store
"""The real `own_store`; each test replaces it by one in its own folder."""


def put(path: Path, problem: Filter2d, median_ns: float) -> None:
    with Store.open(str(path), write=True) as store:
        store.put_winner(record(problem, median_ns))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a store, and a package that ships one winner of 30 ns for each problem."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv(location.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setattr(location, "own_store", lambda: tmp_path / "data" / "store.db")
    shipped = tmp_path / "package" / "cache.db"
    monkeypatch.setattr(location, "shipped_store", lambda: shipped)
    for problem in PROBLEMS:
        put(shipped, problem, 30.0)
    return tmp_path


def times(explicit: str | None) -> list[float | None]:
    with store_chain.open_for_reading(explicit) as chain:
        records = {record.problem: record.trial.median_ns for record in chain.records("filter2d")}
        for problem, median_ns in records.items():
            winner = next(chain.winners(problem.key(), H200.key()), None)
            assert winner is not None
            assert winner.trial.median_ns == median_ns
        return [records.get(problem) for problem in PROBLEMS]


def test_first_answer_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert times(None) == [30.0, 30.0, 30.0]
    put(location.own_store(), PROBLEMS[1], 20.0)
    put(location.own_store(), PROBLEMS[2], 20.0)
    assert times(None) == [30.0, 20.0, 20.0]
    put(home / "named.db", PROBLEMS[2], 10.0)
    assert times(str(home / "named.db")) == [30.0, 20.0, 10.0]
    monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, str(home / "named.db"))
    assert times(None) == [30.0, 20.0, 10.0]


def test_no_answer_is_none(home: Path) -> None:
    put(location.own_store(), PROBLEMS[0], 20.0)
    with store_chain.open_for_reading(None) as chain:
        assert list(chain.winners("filter2d image=1x1", H200.key())) == []
        assert chain.records("fft") == ()
        assert [store.location for store in chain.stores] == [
            str(location.own_store()),
            str(home / "package" / "cache.db"),
        ]


@pytest.mark.usefixtures("home")
def test_writes_go_to_the_named_store_or_the_users_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert location.write_location(None) == str(location.own_store())
    monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, "env.db")
    assert location.write_location(None) == "env.db"
    assert location.write_location("mine.db") == "mine.db"
    monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, "")
    assert location.write_location(None) == str(location.own_store())


@pytest.mark.parametrize("by", ["argument", "environment"])
@pytest.mark.parametrize("spelling", ["{}", "sqlite:///{}"])
def test_only_the_environment_may_name_a_store_before_it_is_made(
    home: Path, monkeypatch: pytest.MonkeyPatch, by: str, spelling: str
) -> None:
    missing = spelling.format(home / "typo.db")
    if by == "argument":
        with pytest.raises(StoreError, match="there is no store at"):
            store_chain.open_for_reading(missing)
        return
    monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, missing)
    for opening in (store_chain.open_for_reading, store_chain.open_with_trials, store_chain.open_for_look_up):
        with pytest.warns(store_chain.StorePassedOver, match="there is no store at .* yet"):
            chain = opening(None)
        with chain:
            assert [store.location for store in chain.stores] == [str(home / "package" / "cache.db")]
            assert chain.is_whole


def test_a_user_without_a_home_folder_has_no_own_store(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(*_: object, **__: object) -> str:
        raise RuntimeError("could not determine the home directory for '~/.local/share'")

    monkeypatch.setattr(location, "own_store", OWN_STORE)
    for found in (raising, lambda *_, **__: "~/.local/share/warpsmith"):  # as newer and older platformdirs do
        monkeypatch.setattr(location.platformdirs, "user_data_dir", found)
        assert location.own_store() is None
        assert location.look_up_locations(None) == (str(home / "package" / "cache.db"),)
        with pytest.raises(StoreError, match="no home folder for a store: name one with --store or WARPSMITH_STORE"):
            location.write_location(None)
        assert location.write_location("a.db") == "a.db"


@pytest.mark.usefixtures("home")
def test_the_own_store_may_be_empty_but_not_damaged() -> None:
    own = location.own_store()
    own.parent.mkdir()
    own.touch()
    assert times(None) == [30.0, 30.0, 30.0]
    own.write_text("not a database, though it should be one\n" * 9)
    with pytest.raises(StoreError, match=str(own)):
        store_chain.open_for_reading(None)


def test_own_store_lies_in_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert location.own_store().name == "store.db"
    assert location.own_store().parent.name == "warpsmith"


def test_the_shipped_store_is_sound_and_stays_as_it_is() -> None:
    path = location.shipped_store()
    before = path.read_bytes()
    assert before[18:20] == b"\x01\x01"  # rollback journal, not WAL (SQLite file format, section 1.3.3)
    folder = path.resolve().parent
    beside = set(folder.glob("cache.db*"))
    for immutable in (False, True):
        with Store.open(str(path), write=False, immutable=immutable) as store:
            assert check_store(store) == ()
            store.records()
    assert path.read_bytes() == before
    assert set(folder.glob("cache.db*")) == beside


def test_a_folder_that_may_not_be_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(13, f"Permission denied: {path}")

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(StoreError, match=r"Permission denied.*name another with --store"):
        store_chain.open_for_reading(None)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("store.db", "store.db"),
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://host/db?user=me&password=secret", "postgresql://host/db?user=me"),
        ("postgresql://host/db?password=secret&sslpassword=secret", "postgresql://host/db"),
        ("postgresql+psycopg://me:se/c:ret@host:bad/db", "postgresql+psycopg://me:***@host:bad/db"),
        ("no url ://", "no url ://"),
    ],
)
def test_no_password_is_told(named: str, told: str) -> None:
    assert redacted(named) == told


def test_the_answers_for_one_problem_are_its_own_of_all_answers(home: Path) -> None:
    put(home / "named.db", PROBLEMS[2], 10.0)
    with store_chain.open_for_look_up(str(home / "named.db")) as chain:
        everything = chain.answers()
        assert {each.problem for each in everything} >= {PROBLEMS[2]}
        for problem in PROBLEMS:
            assert chain.answers_for(problem) == tuple(each for each in everything if each.problem == problem)
