"""The migrations lead to the tables that the code uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from warpsmith.errors import StoreError
from warpsmith.store import migrations, sqlite
from warpsmith.store.opening import schema_number
from warpsmith.store.schema import SCHEMA_VERSION, VERSION_TABLE, metadata
from warpsmith.store.store import Store


def migration_context(connection: Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})


def test_a_new_store_is_at_the_head_and_agrees_with_the_tables(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Store.open(str(path), write=True).close()
    with sqlite.file_engine(path, sqlite.Access.READ).connect() as connection:
        context = migration_context(connection)
        head = ScriptDirectory.from_config(migrations.config()).get_current_head()
        assert context.get_current_revision() == head
        assert head == f"{SCHEMA_VERSION:04d}"
        assert schema_number(connection, "a.db") == SCHEMA_VERSION
        assert compare_metadata(context, metadata) == []


def test_the_revisions_are_counted_without_a_gap() -> None:
    script = ScriptDirectory.from_config(migrations.config())
    revisions = [each.revision for each in script.walk_revisions()]
    assert revisions == [f"{number:04d}" for number in range(SCHEMA_VERSION, 0, -1)]


def test_a_migration_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"

    def fail(_: Connection) -> None:
        raise RuntimeError("after the tables")

    monkeypatch.setattr(sqlite, "claim", fail)
    with pytest.raises(RuntimeError, match="after the tables"):
        Store.open(str(path), write=True)
    monkeypatch.undo()
    assert path.read_bytes() == b""
    Store.open(str(path), write=True).close()


def test_a_downgrade_takes_everything_away(tmp_path: Path) -> None:
    from alembic import command

    path = tmp_path / "a.db"
    Store.open(str(path), write=True).close()
    with sqlite.file_engine(path, sqlite.Access.WRITE).begin() as connection:
        command.downgrade(migrations.config(connection), "base")
    with pytest.raises(StoreError, match="holds no store yet"):
        Store.open(str(path), write=False)
    with Store.open(str(path), write=True) as store:
        assert store.check() == ()


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("mysql://localhost/x", "a store is a file, or a URL of postgresql"),
        ("postgresql+nodriver://localhost/x", "no such driver"),
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
    with pytest.raises(StoreError, match="pip install psycopg"):
        Store.open("postgresql+psycopg://localhost/x", write=True)


def test_memory_is_no_place_to_read_from() -> None:
    with pytest.raises(StoreError, match="starts empty"):
        Store.open(":memory:", write=False)


def test_records_need_no_database_library() -> None:
    script = "import sys, warpsmith.store.record; print({'sqlalchemy', 'alembic', 'sqlite3'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_store_of_todays_schema_opens_without_alembic(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    Store.open(str(path), write=True).close()
    script = (
        "import sys; from warpsmith.store.store import Store\n"
        f"Store.open({str(path)!r}, write=True); print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
