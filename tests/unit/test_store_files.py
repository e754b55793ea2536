"""SQLite file errors: reported in one line, with nothing changed and nothing lost."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from builders import SMALL as PROBLEM
from builders import record, timing, trial
from warpsmith.errors import StoreError
from warpsmith.generator.presets import H200
from warpsmith.store import layout, opening, sqlite
from warpsmith.store.contents import check_store
from warpsmith.store.store import Store

WINNER = record(PROBLEM, timing(5.0, 4.0, 6.0))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store of ten trials and a winner, some pages long."""
    path = tmp_path / "a.db"
    with Store.open(str(path), write=True) as store:
        for number in range(10):
            store.add_trials(PROBLEM, H200, [trial(number)])
        store.put_winner(WINNER)
    return path


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def execute(path: Path, *statements: str) -> None:
    """Changes a file behind the store's back."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def refusal(path: Path, *, write: bool) -> str:
    """The line that opening `path` fails with; asserts that it is one, names the file, and left it as it was."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError) as caught:
        Store.open(str(path), write=write)
    assert (path.read_bytes() if path.is_file() else None) == before
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


both = pytest.mark.parametrize("write", [False, True], ids=["read", "write"])


class TestUnusableFiles:
    @both
    @pytest.mark.parametrize("keep", [0.5, 0.999, 4096, 100, 50, 1])
    def test_truncated(self, file: Path, keep: float, write: bool) -> None:
        content = file.read_bytes()
        file.write_bytes(content[: keep if isinstance(keep, int) else int(keep * len(content))])
        assert "cut short" in refusal(file, write=write)

    @both
    @pytest.mark.parametrize(
        "content", [b"\x89PNG\r\n\x1a\n" + bytes(600), b"hello, this is text\n" * 99, b"x", b"SQLite"]
    )
    def test_of_no_database(self, tmp_path: Path, content: bytes, write: bool) -> None:
        path = tmp_path / "picture.png"
        path.write_bytes(content)
        assert "not a warpsmith store" in refusal(path, write=write)

    @both
    @pytest.mark.parametrize("mark", ["PRAGMA user_version = 1", "PRAGMA application_id = 1196444487"])
    def test_of_another_program(self, tmp_path: Path, mark: str, write: bool) -> None:
        path = tmp_path / "other.db"
        execute(path, "CREATE TABLE trials (trial_id INTEGER)", mark)
        assert "another program" in refusal(path, write=write)

    @both
    @pytest.mark.parametrize(
        "statement",
        [
            f"PRAGMA user_version = {layout.SCHEMA_VERSION + 1}",
            f"UPDATE warpsmith_version SET version_num = '{layout.SCHEMA_VERSION + 1:04d}'",
            "UPDATE warpsmith_version SET version_num = 'a1b2c3'",
        ],
    )
    def test_of_a_newer_schema(self, file: Path, statement: str, write: bool) -> None:
        execute(file, statement)
        message = refusal(file, write=write)
        assert "newer warpsmith" in message
        assert "upgrade" in message

    def test_missing_for_reading(self, tmp_path: Path) -> None:
        path = tmp_path / "folder" / "none.db"
        assert "there is no store at" in refusal(path, write=False)
        assert not path.parent.exists()

    @both
    def test_folder(self, tmp_path: Path, write: bool) -> None:
        assert "is a folder" in refusal(tmp_path, write=write)
        assert list(tmp_path.iterdir()) == []

    def test_below_a_file(self, file: Path) -> None:
        assert "cannot be made" in refusal(file / "sub" / "b.db", write=True)

    def test_overwritten_in_the_middle(self, file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[4096 : 2 * 4096] = b"\xff" * 4096
        file.write_bytes(content)
        # Whichever page is hit, opening or checking tells.
        try:
            with Store.open(str(file), write=False) as store:
                lines = check_store(store)
        except StoreError as error:
            lines = (str(error),)
        assert lines
        assert all(str(file) in line for line in lines)


class TestEmptyFiles:
    @pytest.fixture(params=["no bytes", "no tables"])
    def empty(self, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
        path = tmp_path / "empty.db"
        path.touch()
        if request.param == "no tables":
            execute(path, "CREATE TABLE t (a)", "DROP TABLE t")
        return path

    def test_are_refused_for_reading(self, empty: Path) -> None:
        assert "is empty" in refusal(empty, write=False)

    def test_are_filled_for_writing(self, empty: Path) -> None:
        Store.open(str(empty), write=True).close()
        with Store.open(str(empty), write=False) as store:
            assert check_store(store) == ()


class TestSettings:
    def test_of_a_file(self, file: Path) -> None:
        connection = sqlite3.connect(file)
        pragmas = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "journal_mode")
        }
        connection.close()
        assert pragmas == {
            "application_id": sqlite.APPLICATION_ID,
            "user_version": layout.SCHEMA_VERSION,
            "journal_mode": "delete",
        }

    def test_of_a_writer(self, file: Path) -> None:
        with opening.file_engine(file, sqlite.Access.WRITE).connect() as connection:
            values = [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
                for name in ("synchronous", "foreign_keys", "busy_timeout")
            ]
        assert values == [2, 1, 30_000]

    def test_write_ahead_log_is_turned_off_by_a_writer(self, file: Path) -> None:
        execute(file, "PRAGMA journal_mode=WAL")
        with Store.open(str(file), write=True) as store:
            store.add_trials(PROBLEM, H200, [trial(11)])
        assert names(file.parent) == [file.name]

    def test_times_are_columns_in_ns(self, file: Path) -> None:
        connection = sqlite3.connect(file)
        (times,) = connection.execute("SELECT median_ns, p20_ns, p80_ns FROM warpsmith_winners").fetchall()
        kinds = connection.execute("SELECT failure_kind, median_ns FROM warpsmith_trials").fetchall()
        connection.close()
        assert times == (5.0, 4.0, 6.0)
        assert kinds == [("compile", None)] * 10

    @pytest.mark.parametrize("name", ["a b.db", "100%?.db", "#1&mode=rw.db", "é.db"])
    def test_any_name_will_do(self, tmp_path: Path, name: str) -> None:
        path = tmp_path / "new" / "folders" / name
        with Store.open(f"sqlite:///{path}" if "?" not in name else str(path), write=True) as store:
            store.add_trials(PROBLEM, H200, [trial(1)])
        with Store.open(str(path), write=False) as store:
            assert store.trials(PROBLEM, H200) == (trial(1),)
        assert names(path.parent) == [name]


class TestReading:
    @pytest.mark.parametrize("immutable", [False, True])
    def test_changes_nothing(self, file: Path, immutable: bool) -> None:
        before = file.read_bytes(), file.stat().st_mtime_ns
        with Store.open(str(file), write=False, immutable=immutable) as store:
            assert len(store.trials(PROBLEM, H200)) == 10
            assert store.records() == (WINNER,)
            with pytest.raises(StoreError, match="is read-only"):
                store.add_trials(PROBLEM, H200, [trial(99)])
        assert (file.read_bytes(), file.stat().st_mtime_ns) == before
        assert names(file.parent) == [file.name]

    def test_asks_sqlite_for_no_more(self, tmp_path: Path) -> None:
        path = tmp_path / "a.db"
        assert sqlite.uri(path, sqlite.Access.READ) == f"file://{path}?mode=ro"
        assert sqlite.uri(path, sqlite.Access.IMMUTABLE) == f"file://{path}?mode=ro&immutable=1"

    def test_goes_on_while_another_process_holds_the_write_lock(self, file: Path) -> None:
        writer = sqlite3.connect(file, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        with Store.open(str(file), write=False) as store:
            assert len(store.trials(PROBLEM, H200)) == 10
        writer.close()


def as_ordinary_user(attempt: Callable[[], object]) -> str:
    """The StoreError that `attempt` raises where file rights count, which they do not for root."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            attempt()
        except StoreError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        message = pipe.read().decode()
    os.waitpid(child, 0)
    return message


class TestReadOnly:
    @pytest.fixture
    def shared(self, file: Path) -> Iterator[Path]:
        """The store in a folder that other users reach, as they do not reach pytest's."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            copy = Path(folder) / "a.db"
            copy.write_bytes(file.read_bytes())
            copy.chmod(0o444)
            yield copy
            Path(folder).chmod(0o755)

    def test_file_is_refused_for_writing(self, shared: Path) -> None:
        message = as_ordinary_user(lambda: Store.open(str(shared), write=True))
        assert message.startswith(f"{shared} is read-only")

    def test_folder_is_refused_for_writing(self, shared: Path) -> None:
        shared.chmod(0o666)
        shared.parent.chmod(0o555)
        message = as_ordinary_user(lambda: Store.open(str(shared), write=True))
        assert message.startswith(f"{shared} lies in a read-only folder")

    def test_folder_is_refused_for_a_new_store(self, shared: Path) -> None:
        shared.parent.chmod(0o555)
        message = as_ordinary_user(lambda: Store.open(str(shared.parent / "new.db"), write=True))
        assert "new.db is read-only" in message
        message = as_ordinary_user(lambda: Store.open(str(shared.parent / "new" / "new.db"), write=True))
        assert "cannot be made (Permission denied)" in message

    @pytest.mark.parametrize("immutable", [False, True])
    def test_folder_will_do_for_reading(self, shared: Path, immutable: bool) -> None:
        shared.parent.chmod(0o555)

        def read() -> None:
            with Store.open(str(shared), write=False, immutable=immutable) as store:
                raise StoreError(f"{len(store.records())} winner")

        assert as_ordinary_user(read) == "1 winner"

    def test_database_is_told_from_sqlites_error(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Store.open(str(file), write=True) as store:
            monkeypatch.setattr(sqlite, "uri", lambda path, _: f"file:{path}?mode=ro")
            with pytest.raises(StoreError, match=r"a\.db is read-only"):
                store.add_trials(PROBLEM, H200, [trial(99)])
