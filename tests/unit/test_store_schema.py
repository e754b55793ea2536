"""Schemas: new stores and migrated ones have the tables that the code uses."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, column, insert, inspect, table

from builders import SMALL as PROBLEM
from builders import measurement, record, timing, trial
from warpsmith.errors import StoreError
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config
from warpsmith.store import migrations, opening, rows, sqlite
from warpsmith.store.contents import check_store, contents_of
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.layout import SCHEMA_VERSION, VERSION_TABLE
from warpsmith.store.merging import merge_stores
from warpsmith.store.opening import schema_number
from warpsmith.store.prune import Unwanted, prune_store
from warpsmith.store.record import Failure, FailureKind, Record, Trial
from warpsmith.store.store import Store
from warpsmith.store.tables import add_subject, metadata

TRIAL = trial(1, measurement(), fingerprint="f")
RECORD = record(PROBLEM, TRIAL)


def migration_context(connection: Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})


def test_a_new_store_is_at_the_head_and_agrees_with_the_tables(location: str) -> None:
    Store.open(location, write=True).close()
    opened = opening.open_location(location, write=False, immutable=False)
    with opened.reading() as connection:
        context = migration_context(connection)
        head = ScriptDirectory.from_config(migrations.config()).get_current_head()
        assert context.get_current_revision() == head
        assert head == f"{SCHEMA_VERSION:04d}"
        assert schema_number(connection, "a.db") == SCHEMA_VERSION
        assert compare_metadata(context, metadata) == []
    opened.reader.dispose()


def test_the_revisions_make_the_tables_of_a_new_store(location: str) -> None:
    database = opening.open_location(location, write=True, immutable=False)
    with database.writing() as connection:
        made = layout_of(connection)
        command.downgrade(migrations.config(connection), "base")
        assert layout_of(connection).keys() == {VERSION_TABLE}
        migrations.upgrade(connection)
        assert layout_of(connection) == made
        assert compare_metadata(migration_context(connection), metadata) == []
    database.reader.dispose()


def layout_of(connection: Connection) -> dict[str, tuple[object, ...]]:
    """Columns, keys and indices of each table, in no order."""
    seen = inspect(connection)
    return {
        name: (
            {each["name"]: (str(each["type"]), each["nullable"], each["default"]) for each in seen.get_columns(name)},
            seen.get_pk_constraint(name),
            {each["name"]: each for each in seen.get_foreign_keys(name)},
            {each["name"]: each["column_names"] for each in seen.get_unique_constraints(name)},
            {each["name"]: each["column_names"] for each in seen.get_indexes(name)},
        )
        for name in seen.get_table_names()
    }


def _add_without_conditions(connection: Connection, name: str, row: rows.Row) -> None:
    """Adds a row to a table of a schema that has no column of its conditions."""
    columns = [column(name) for name in row if name != "conditions"]
    connection.execute(insert(table(name, *columns)), [{c.name: row[c.name] for c in columns}])


@pytest.fixture
def first(location: str) -> str:
    """A store of schema 1 with a trial and a winner."""
    Store.open(location, write=True).close()
    opened = opening.open_location(location, write=True, immutable=False)
    with opened.writing() as connection:
        command.downgrade(migrations.config(connection), "0001")
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA user_version = 1")
        add_subject(connection, PROBLEM, H200)
        _add_without_conditions(connection, "warpsmith_trials", rows.trial_row(PROBLEM, H200, TRIAL, rows.now()))
        _add_without_conditions(connection, "warpsmith_winners", rows.winner_row(RECORD))
    opened.reader.dispose()
    return location


class TestFirstSchema:
    def test_is_read_as_it_is_and_what_it_lacks_is_empty(self, first: str) -> None:
        for immutable in (False, True, False):
            with Store.open(first, write=False, immutable=immutable) as store:
                assert store.trials(PROBLEM, H200) == (TRIAL,)
                assert store.records() == (RECORD,)
                assert store.poisoned(H200) == {}
                assert store.runs.of(PROBLEM, H200) == ()
                assert store.tuners.beats() == {}
                assert check_store(store) == ()

    def test_comes_up_to_date_for_writing(self, first: str) -> None:
        with Store.open(first, write=False) as store:
            before = contents_of(store)
        with Store.open(first, write=True) as store:
            assert contents_of(store) == before
            store.runs.add(PROBLEM, H200, {"seed": 1})
            store.add_trials(
                PROBLEM, H200, [dataclasses.replace(TRIAL, outcome=Failure(FailureKind.CRASH, "signal 11"))]
            )
        with Store.open(first, write=False) as store:
            assert list(store.poisoned(H200)) == [TRIAL.fingerprint]
            assert len(store.runs.of(PROBLEM, H200)) == 1
            assert check_store(store) == ()

    def test_comes_up_to_date_once_where_several_open_it(self, first: str) -> None:
        def note(number: int) -> None:
            with Store.open(first, write=True) as store:
                store.runs.add(PROBLEM, H200, {"number": number})

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(note, range(4)))
        with Store.open(first, write=False) as store:
            assert len(store.runs.of(PROBLEM, H200)) == 4


class TestSecondSchema:
    """Second schema: one winner per problem and device, whatever the conditions."""

    POLICIES = (
        ((16, 16), "median, 2 runs a sample, queued first, in turns, cold L2", "queued first, cold L2"),
        ((32, 32), "median, 2 runs a sample, CUDA graph, in turns, warm caches, throttled", "CUDA graph, warm caches"),
        ((48, 48), "median of 9", "unknown"),
    )

    def records(self) -> tuple[Record, ...]:
        made = []
        for image, policy, _ in self.POLICIES:
            outcome = measurement(timing(policy=policy))
            problem, timed = dataclasses.replace(PROBLEM, image=image), dataclasses.replace(TRIAL, outcome=outcome)
            made.append(dataclasses.replace(RECORD, problem=problem, trial=timed))
        return tuple(made)

    @pytest.fixture
    def second(self, location: str) -> str:
        """A store of schema 2 with those winners."""
        Store.open(location, write=True).close()
        opened = opening.open_location(location, write=True, immutable=False)
        with opened.writing() as connection:
            command.downgrade(migrations.config(connection), "0002")
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA user_version = 2")
            for record in self.records():
                add_subject(connection, record.problem, H200)
                _add_without_conditions(connection, "warpsmith_winners", rows.winner_row(record))
        opened.reader.dispose()
        return location

    def assert_holds_all(self, store: Store) -> None:
        assert store.records() == store.records("filter2d") == self.records()
        assert store.records("fft") == ()
        for each, (_, _, conditions) in zip(self.records(), self.POLICIES, strict=True):
            key = each.problem.key()
            assert each.conditions == conditions
            assert store.winner(key, H200.key()) == store.winner(key, H200.key(), conditions) == each
            assert store.winner(key, H200.key(), "eager, warm caches") is None
        assert check_store(store) == ()

    def test_is_read_without_being_changed(self, second: str) -> None:
        before = Path(second).read_bytes() if Path(second).exists() else b""
        for immutable in (False, True):
            with Store.open(second, write=False, immutable=immutable) as store:
                self.assert_holds_all(store)
                assert len(prune_store(store, Unwanted(everything=True), dry_run=True).winners) == len(self.POLICIES)
        assert before == (Path(second).read_bytes() if before else b"")

    def test_comes_up_to_date_for_writing(self, second: str) -> None:
        with Store.open(second, write=False) as store:
            before = contents_of(store)
        with Store.open(second, write=True) as store:
            assert contents_of(store) == before
            self.assert_holds_all(store)

    def test_is_merged_and_exported_as_it_is(self, second: str) -> None:
        with Store.open(":memory:", write=True) as other, Store.open(second, write=False) as store:
            assert merge_stores(other, store).winners_added == len(self.POLICIES)
            self.assert_holds_all(other)
            with Store.open(":memory:", write=True) as third:
                import_lines(third, export_lines(store))
                self.assert_holds_all(third)

    def test_a_damaged_winner_comes_along(self, tmp_path: Path, second: str, execute: Callable[..., None]) -> None:
        if Path(second).parent != tmp_path:
            pytest.skip("what damages it knows files alone")
        execute(Path(second), "UPDATE warpsmith_winners SET spec = '{' WHERE problem_key LIKE '%16x16%'")
        for write in (False, True):
            with Store.open(second, write=write) as store:
                assert store.records() == self.records()[1:]
                (told,) = check_store(store)
                assert "16x16" in told

    def test_a_downgrade_keeps_the_usual_winner(self, second: str) -> None:
        usual, other, _ = self.records()
        with Store.open(second, write=True) as store:
            graph = dataclasses.replace(other, problem=usual.problem)
            store.put_winner(graph)
            assert store.winners(usual.problem.key(), H200.key()) == (usual, graph)
        opened = opening.open_location(second, write=True, immutable=False)
        with opened.writing() as connection:
            command.downgrade(migrations.config(connection), "0002")
        opened.reader.dispose()
        with Store.open(second, write=True) as store:
            assert store.winners(usual.problem.key(), H200.key()) == (usual,)


class TestThirdSchema:
    """Third schema: one trial per program and compiler, whatever the conditions."""

    POLICIES = (*(policy for _, policy, _ in TestSecondSchema.POLICIES), None)
    CONDITIONS = (*(conditions for _, _, conditions in TestSecondSchema.POLICIES), "any")

    def trials(self) -> tuple[Trial, ...]:
        """Trials, one for each policy and one failure."""
        outcomes = [
            Failure(FailureKind.WRONG, "off by one") if policy is None else measurement(timing(policy=policy))
            for policy in self.POLICIES
        ]
        return tuple(
            dataclasses.replace(TRIAL, config=Config.of({"n": number}), outcome=outcome)
            for number, outcome in enumerate(outcomes)
        )

    @pytest.fixture
    def third(self, location: str) -> str:
        """A store of schema 3 with those trials."""
        return self.made(location, self.trials())

    def made(self, location: str, kept: tuple[Trial, ...]) -> str:
        Store.open(location, write=True).close()
        opened = opening.open_location(location, write=True, immutable=False)
        with opened.writing() as connection:
            command.downgrade(migrations.config(connection), "0003")
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA user_version = 3")
            add_subject(connection, PROBLEM, H200)
            for trial in kept:
                row = rows.trial_row(PROBLEM, H200, trial, "2026-01-02T03:04:05+00:00")
                _add_without_conditions(connection, "warpsmith_trials", row)
        opened.reader.dispose()
        return location

    def test_is_read_and_counted_as_it_is(self, third: str) -> None:
        with Store.open(third, write=False) as store:
            assert store.trials(PROBLEM, H200) == self.trials()
            assert [row["conditions"] for row in contents_of(store).trials] == list(self.CONDITIONS)
            assert prune_store(store, Unwanted(everything=True), dry_run=True).trials == {
                (PROBLEM.key(), H200.key()): 4
            }
            assert check_store(store) == ()

    def test_comes_up_to_date_with_the_conditions_that_its_trials_tell_of(self, third: str) -> None:
        with Store.open(third, write=False) as store:
            before = contents_of(store)
        with Store.open(third, write=True) as store:
            assert contents_of(store) == before
            last, kept = store.trials_since(PROBLEM, H200, 1)  # the ids stay
            assert (last, kept) == (4, self.trials()[1:])
            graph = self.trials()[1].outcome
            added = dataclasses.replace(self.trials()[0], outcome=graph)
            store.add_trials(PROBLEM, H200, [added])
            assert store.trials(PROBLEM, H200) == (*self.trials(), added)
            assert check_store(store) == ()

    def test_a_damaged_trial_comes_along(self, tmp_path: Path, third: str, execute: Callable[..., None]) -> None:
        if Path(third).parent != tmp_path:
            pytest.skip("what damages it knows files alone")
        execute(Path(third), "UPDATE warpsmith_trials SET spec = '{' WHERE id = 1")
        with Store.open(third, write=True) as store:
            assert store.trials(PROBLEM, H200) == self.trials()[1:]
            assert [row["conditions"] for row in contents_of(store).trials] == ["unknown", *self.CONDITIONS[1:]]
            assert len(check_store(store)) == 1

    def test_more_trials_than_are_held_in_memory_at_once(self, location: str) -> None:
        many = tuple(dataclasses.replace(self.trials()[1], config=Config.of({"n": number})) for number in range(1100))
        with Store.open(self.made(location, many), write=True) as store:
            assert store.trials(PROBLEM, H200) == many  # each agrees with its JSON

    def test_a_downgrade_keeps_the_usual_trial(self, third: str) -> None:
        usual, graph, *others = self.trials()
        with Store.open(third, write=True) as store:
            store.add_trials(PROBLEM, H200, [dataclasses.replace(usual, outcome=graph.outcome)])
            store.add_trials(PROBLEM, H200, [dataclasses.replace(graph, outcome=usual.outcome)])
        opened = opening.open_location(third, write=True, immutable=False)
        with opened.writing() as connection:
            command.downgrade(migrations.config(connection), "0003")
        opened.reader.dispose()
        with Store.open(third, write=True) as store:
            kept = store.trials(PROBLEM, H200)
            assert kept == (usual, *others, dataclasses.replace(graph, outcome=usual.outcome))


def test_the_revisions_are_counted_without_a_gap() -> None:
    script = ScriptDirectory.from_config(migrations.config())
    revisions = [each.revision for each in script.walk_revisions()]
    assert revisions == [f"{number:04d}" for number in range(SCHEMA_VERSION, 0, -1)]


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"

    def fail(_: Connection) -> None:
        raise RuntimeError("after the tables")

    monkeypatch.setattr(opening, "_claim", fail)
    with pytest.raises(RuntimeError, match="after the tables"):
        Store.open(str(path), write=True)
    monkeypatch.undo()
    assert path.read_bytes() == b""
    Store.open(str(path), write=True).close()


def test_a_downgrade_takes_everything_away(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Store.open(str(path), write=True).close()
    with opening.file_engine(path, sqlite.Access.WRITE).begin() as connection:
        command.downgrade(migrations.config(connection), "base")
    with pytest.raises(StoreError, match="holds no store yet"):
        Store.open(str(path), write=False)
    with Store.open(str(path), write=True) as store:
        assert check_store(store) == ()


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("mysql://localhost/x", "a store is a file, or a URL of postgresql"),
        ("postgresql+nodriver://localhost/x", "no such driver"),
        ("postgresql+psycopg2://localhost/x", r"use postgresql\+psycopg://"),
        ("nonsense://", "a store is a file, or a URL of postgresql"),
        ("://", "is no database URL"),
        ("sqlite:///a.db?mode=ro", "takes no URL options"),
    ],
)
def test_a_location_that_is_no_store_is_refused(location: str, why: str) -> None:
    with pytest.raises(StoreError, match=why) as caught:
        Store.open(location, write=True)
    assert location in str(caught.value)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(StoreError) as caught:
        Store.open("postgresql+nodriver://me:secret@localhost/x", write=True)
    assert "secret" not in str(caught.value)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'warpsmith\[postgres\]'"):
        Store.open("postgresql+psycopg://localhost/x", write=True)


def test_memory_is_no_place_to_read_from() -> None:
    with pytest.raises(StoreError, match="starts empty"):
        Store.open(":memory:", write=False)


def test_records_need_no_database_library() -> None:
    script = "import sys, warpsmith.store.record; print({'sqlalchemy', 'alembic', 'sqlite3'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_store_of_todays_schema_is_made_and_opened_without_alembic(tmp_path: Path) -> None:
    opened = f"Store.open({str(tmp_path / 'a.db')!r}, write=True)"
    script = (
        "import sys; from warpsmith.store.store import Store\n"
        f"{opened}.close(); {opened}; print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
