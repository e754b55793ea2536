"""The reader of stores that look-ups use: the same answers as `Store` gives, and the same refusals."""

from __future__ import annotations

import dataclasses
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import record, timing
from warpsmith.errors import StoreError
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.store import rows, sqlite
from warpsmith.store.layout import SCHEMA_VERSION
from warpsmith.store.location import shipped_store
from warpsmith.store.store import Store
from warpsmith.store.store_reader import StoreReader, open_winners

PROBLEMS: tuple[Problem, ...] = (
    Filter2d(image=(64, 64), filter=(5, 5)),
    Filter2d(image=(64, 64), filter=(3, 3)),
    Fft(size=(8,), batch=4),
)
OTHER_GPU = dataclasses.replace(H200, name="another GPU")


def test_winners_under_several_conditions_have_the_usual_first(tmp_path: Path) -> None:
    path = tmp_path / "several.db"
    launched = ("CUDA graph", "eager", "queued first")
    with Store.open(str(path), write=True) as store:
        for each in launched:
            store.put_winner(record(PROBLEMS[0], timing(policy=f"median, 5 runs a sample, {each}, cold L2")))
        expected = store.winners(PROBLEMS[0].key(), H200.key())
    assert [each.conditions for each in expected] == [f"{each}, cold L2" for each in reversed(launched)]
    with StoreReader.open(path) as reader:
        assert reader.winners(PROBLEMS[0].key(), H200.key()) == reader.records() == expected


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with Store.open(str(path), write=True) as store:
        for problem in PROBLEMS:
            store.put_winner(record(problem))
            store.put_winner(dataclasses.replace(record(problem), device=OTHER_GPU))
    return path


def execute(path: Path, *statements: str) -> None:
    """Changes a file behind the store's back."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def answers(path: Path) -> list[object]:
    """The reader's answers; asserts that `Store` gives the same."""

    def asked(store: Store | StoreReader) -> list[object]:
        devices = (H200, OTHER_GPU)
        return [
            store.location,
            store.records(),
            store.records("filter2d"),
            store.records("conv2d"),
            *(store.winners(problem.key(), device.key()) for problem in PROBLEMS for device in devices),
            store.winners("filter2d image=1x1", H200.key()),
        ]

    with Store.open(str(path), write=False) as store, StoreReader.open(path) as reader:
        assert asked(reader) == asked(store)
        return asked(reader)


def test_answers_are_those_of_the_store(file: Path) -> None:
    _, every, filters, none, *winners, missing = answers(file)
    assert every == tuple(
        dataclasses.replace(record(problem), device=device)
        for problem in sorted(PROBLEMS, key=lambda problem: problem.key())
        for device in sorted((H200, OTHER_GPU), key=lambda device: device.key())
    )
    assert filters == tuple(each for each in every if each.problem.operation == "filter2d")
    assert (none, missing) == ((), ())
    assert sorted((each for (each,) in winners), key=every.index) == list(every)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE warpsmith_winners SET spec = '{' WHERE problem_key LIKE '%3x3%'",
        "UPDATE warpsmith_winners SET median_ns = 1 WHERE problem_key LIKE '%3x3%'",
        "UPDATE warpsmith_winners SET spec = replace(spec, '\"fft\"', '\"dct\"')",
    ],
)
def test_damaged_rows_count_as_absent(file: Path, statement: str) -> None:
    execute(file, statement)
    _, every, *_ = answers(file)
    assert isinstance(every, tuple)
    assert len(every) == 4


def test_the_shipped_store() -> None:
    path = shipped_store()
    with Store.open(str(path), write=False) as store, StoreReader.open(path, immutable=True) as reader:
        assert reader.records() == store.records()
        assert len(reader.records()) > 100


def test_a_store_of_the_first_schema(file: Path) -> None:
    execute(
        file,
        *(f"DROP TABLE warpsmith_{name}" for name in ("claims", "tuners", "poisoned", "runs")),
        "PRAGMA user_version = 1",
        "UPDATE warpsmith_version SET version_num = '0001'",
    )
    assert len(answers(file)) == 11


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def paint(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(5000))


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def drop_tables(path: Path) -> None:
    path.unlink()
    execute(path, "CREATE TABLE t (a)", "DROP TABLE t")


def replace_with_other_program(path: Path) -> None:
    path.unlink()
    execute(path, "CREATE TABLE trials (trial_id INTEGER)", "PRAGMA user_version = 1")


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def changed(statement: str) -> Callable[[Path], None]:
    return lambda path: execute(path, statement)


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        paint,
        shorten,
        empty,
        drop_tables,
        replace_with_other_program,
        make_folder,
        Path.unlink,
        changed(f"PRAGMA user_version = {SCHEMA_VERSION + 1}"),
        changed("UPDATE warpsmith_version SET version_num = '0099'"),
        changed("UPDATE warpsmith_version SET version_num = 'a1b2c3'"),
        changed("DELETE FROM warpsmith_version"),
        changed("DROP TABLE warpsmith_version"),
    ],
)
def test_refusals_are_those_of_the_store(file: Path, damage: Callable[[Path], None]) -> None:
    damage(file)
    before = file.read_bytes() if file.is_file() else None
    with pytest.raises(StoreError) as of_store:
        Store.open(str(file), write=False)
    with pytest.raises(StoreError) as of_reader:
        StoreReader.open(file)
    assert str(of_reader.value) == str(of_store.value)
    assert (file.read_bytes() if file.is_file() else None) == before


def test_a_table_that_is_missing_is_one_line(file: Path) -> None:
    execute(file, "DROP TABLE warpsmith_winners")
    with StoreReader.open(file) as reader, pytest.raises(StoreError, match=r"a\.db: no such table: warpsmith_winners"):
        reader.records()


@pytest.mark.parametrize("name", ["spec", "problem_key", "median_ns"])
def test_a_column_that_is_missing_is_one_line(file: Path, name: str) -> None:
    connection = sqlite3.connect(file)
    connection.execute(f"ALTER TABLE warpsmith_winners RENAME COLUMN {name} TO damaged")
    connection.commit()
    connection.close()
    with StoreReader.open(file) as reader, pytest.raises(StoreError, match=rf"damaged .*no.* column.* {name}"):
        reader.records()


@pytest.mark.parametrize("immutable", [False, True])
def test_reading_changes_nothing_and_holds_nothing_open(file: Path, immutable: bool) -> None:
    before = file.read_bytes(), file.stat().st_mtime_ns
    with StoreReader.open(file, immutable=immutable) as reader:
        assert len(reader.records()) == 6
        held = {name.resolve() for name in Path("/proc/self/fd").iterdir()}
        assert file not in held
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert list(file.parent.iterdir()) == [file]


def test_reading_goes_on_beside_a_writer(file: Path) -> None:
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with StoreReader.open(file) as reader:
        assert len(reader.records()) == 6
    writer.close()


def test_an_installed_file_is_read_without_locks(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[sqlite.Access] = []
    monkeypatch.setattr(sqlite, "uri", lambda path, access: asked.append(access) or f"{path.as_uri()}?{access}")
    with StoreReader.open(file, immutable=True) as reader:
        reader.records()
    assert set(asked) == {sqlite.Access.IMMUTABLE}


class TestLocations:
    def test_of_files(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(file.parent)
        monkeypatch.setenv("HOME", str(file.parent))
        for location in ("a.db", "~/a.db", str(file), "sqlite:///a.db", f"sqlite:///{file}"):
            reader = open_winners(location)
            assert isinstance(reader, StoreReader)
            assert len(reader.records()) == 6

    @pytest.mark.parametrize("location", [":memory:", "sqlite://", "sqlite:///:memory:"])
    def test_of_memory(self, location: str) -> None:
        with pytest.raises(StoreError, match="in memory starts empty"):
            open_winners(location)

    @pytest.mark.parametrize("location", ["mysql://localhost/a", "sqlite:///a.db?mode=ro", "://"])
    def test_others_are_refused_as_by_the_store(self, location: str) -> None:
        with pytest.raises(StoreError) as of_store:
            Store.open(location, write=False)
        with pytest.raises(StoreError) as told:
            open_winners(location)
        assert str(told.value) == str(of_store.value)

    def test_of_a_server_without_sqlalchemy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [name for name in sys.modules if name.startswith("warpsmith.store.store")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "sqlalchemy", None)
        with pytest.raises(StoreError, match=r'needs sqlalchemy: pip install "warpsmith\[postgres\]"') as told:
            open_winners("postgresql://me:secret@host/db")
        assert "secret" not in str(told.value)


def test_equal_rows_are_made_into_records_once() -> None:
    with StoreReader.open(shipped_store()) as reader:
        first, second = reader.records("filter2d"), reader.records("filter2d")
    assert first == second
    assert all(one is other for one, other in zip(first, second, strict=True))
    row = rows.winner_row(first[0])
    changed = {**row, "created_at": "another time"}
    assert rows.record_of(row) == first[0]
    with pytest.raises(rows.Unreadable):
        rows.record_of(changed)


def test_what_a_look_up_reads_once_follows_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records and runners-up of an operation are read again as soon as another process has written."""
    queries: list[str] = []
    found = StoreReader._found
    monkeypatch.setattr(
        StoreReader, "_found", lambda self, query, *rest: queries.append(query) or found(self, query, *rest)
    )
    with StoreReader.open(file) as first, StoreReader.open(file) as second:
        assert first.records("fft") is second.records("fft")
        assert len(queries) == 1
        assert len(first.records("fft")) == 2
        beaten = dataclasses.replace(record(PROBLEMS[2]), device=H200)
        with Store.open(str(file), write=True) as store:
            store.put_winner(dataclasses.replace(record(PROBLEMS[2]), device=dataclasses.replace(H200, name="third")))
            store.put_runners_up(
                (dataclasses.replace(beaten, trial=dataclasses.replace(beaten.trial, family="fft_x")),)
            )
        assert len(first.records("fft")) == 3
        assert [each.family for each in first.family_times("fft")] == ["fft_x"]
