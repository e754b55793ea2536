"""Unusable stores on the command line: one line names the remedy, and the file stays as it was."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import SMALL, winner
from warpsmith.cli.app import run
from warpsmith.devices.select import DeviceRef
from warpsmith.store import location, store_chain
from warpsmith.store.layout import SCHEMA_VERSION
from warpsmith.store.store import Store

PROBLEM = SMALL
ASKED = ("filter2d", "--image", "64x64", "--filter", "3x3", "--device", "host")
READING = {
    "query": ("query", *ASKED),
    "verify": ("verify", *ASKED),
    "explain": ("explain", *ASKED),
    "bench": ("bench", *ASKED),
    "export": ("export", "--all", "--out", "bundle"),
    "report": ("report",),
    "db ls": ("db", "ls"),
    "db show": ("db", "show"),
    "db check": ("db", "check"),
    "db export": ("db", "export", "lines.jsonl"),
}
WRITING = {"tune": ("tune", *ASKED, "--trials", "1"), "db merge": ("db", "merge", "good.db")}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, made_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `good.db`, a store of one winner. No store is shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    shutil.copy(made_file, "good.db")
    with Store.open("good.db", write=True) as store:
        store.put_winner(winner(PROBLEM, 900.0, DeviceRef.parse("host").device()))
    return tmp_path


Refused = Callable[..., str]


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], folder: Path) -> Refused:
    """Runs a command without and with --json, which must be refused alike and leave no file; returns the line."""

    def call(code: int, *arguments: object) -> str:
        before = set(folder.iterdir())
        words = [str(argument) for argument in arguments]
        assert run(words) == code
        plain = capsys.readouterr()
        assert plain.out == ""
        assert run([*words, "--json"]) == code
        beside_json = capsys.readouterr()
        (line,) = plain.err.splitlines()
        assert beside_json.err == plain.err
        told = line.removeprefix("warpsmith: error: ")
        assert json.loads(beside_json.out) == {"error": told, "exit_code": code}
        assert set(folder.iterdir()) == before
        return told

    return call


def execute(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5000])


def paint(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(5000))


def replace_with_other_program(path: Path) -> None:
    path.unlink()
    execute(path, "CREATE TABLE trials (trial_id INTEGER)", "PRAGMA user_version = 1")


def renew_schema(path: Path) -> None:
    execute(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}")


URLS = ["mysql://localhost/a", "sqlite:///a.db?mode=ro", "://"]
DAMAGE = [
    (truncate, "cut short"),
    (paint, "not a warpsmith store"),
    (replace_with_other_program, "another program"),
    (renew_schema, "upgrade warpsmith"),
]


def each_with_one_of(commands: Iterable[str], values: Sequence[Any]) -> list[tuple[str, Any]]:
    """Pairs each command with one of the values in turn. One function opens stores for all reading commands and one for
    all writing commands, so not every pair is needed.
    """
    return [(command, values[turn % len(values)]) for turn, command in enumerate(commands)]


class TestUnusable:
    @pytest.mark.parametrize(
        ("command", "damage", "why"),
        [
            (command, *damage)
            for command, damage in [*each_with_one_of(READING, DAMAGE), *itertools.product(WRITING, DAMAGE)]
        ],
    )
    def test_file(self, refused: Refused, folder: Path, command: str, damage: Callable[[Path], None], why: str) -> None:
        path = folder / "bad.db"
        path.write_bytes((folder / "good.db").read_bytes())
        damage(path)
        before = path.read_bytes(), path.stat().st_mtime_ns
        line = refused(1, *(READING | WRITING)[command], "--store", path)
        assert str(path) in line
        assert why in line
        assert (path.read_bytes(), path.stat().st_mtime_ns) == before

    @pytest.mark.parametrize("command", READING)
    def test_empty_file_for_reading(self, refused: Refused, folder: Path, command: str) -> None:
        (folder / "empty.db").touch()
        assert "empty.db is empty, not a store" in refused(1, *READING[command], "--store", "empty.db")
        assert (folder / "empty.db").read_bytes() == b""

    @pytest.mark.parametrize("command", READING)
    def test_missing_for_reading(self, refused: Refused, command: str) -> None:
        told = refused(1, *READING[command], "--store", "typo.db")
        assert "there is no store at typo.db: tune with --store typo.db" in told

    @pytest.mark.parametrize("state", ["missing", "empty"])
    @pytest.mark.parametrize("command", [name for name in READING if name != "db export"])
    def test_not_made_yet_is_done_without_where_the_environment_names_it(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        folder: Path,
        command: str,
        state: str,
    ) -> None:
        """The next store answers: here the user's own, with the winner of `good.db`."""
        own = location.own_store()
        assert own is not None
        own.parent.mkdir(parents=True)
        shutil.copy("good.db", own)
        if state == "empty":
            (folder / "later.db").touch()
        monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, "later.db")
        told = "there is no store at later.db yet, which WARPSMITH_STORE names: `warpsmith tune` makes it"
        with pytest.warns(store_chain.StorePassedOver, match=f"^{re.escape(told)}; going on without it$"):
            code = run(list(READING[command]))
        assert (code, capsys.readouterr().err[:60]) == (0, "")

    def test_not_made_yet_is_made_by_tune(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, str(folder / "new" / "later.db"))
        with Store.open(location.write_location(None), write=True) as store:
            assert store.records() == ()

    @pytest.mark.parametrize("command", [*READING, *WRITING])
    def test_link_that_leads_nowhere(self, refused: Refused, folder: Path, command: str) -> None:
        link = folder / "link.db"
        link.symlink_to("gone/away.db")
        told = refused(1, *(READING | WRITING)[command], "--store", link)
        assert told == (
            f"{link} is a link to gone/away.db, which is not there: mend it, or name another store with --store or "
            "WARPSMITH_STORE"
        )
        assert not (folder / "gone").exists()

    def test_link_into_a_folder_that_is_there_is_where_a_store_is_made(self, folder: Path) -> None:
        (folder / "disk").mkdir()
        (folder / "link.db").symlink_to("disk/a.db")
        with Store.open(str(folder / "link.db"), write=True):
            assert (folder / "disk" / "a.db").is_file()
        with Store.open(str(folder / "link.db"), write=False) as store:
            assert store.records() == ()

    @pytest.mark.parametrize("command", [*READING, *WRITING])
    def test_folder(self, refused: Refused, folder: Path, command: str) -> None:
        line = refused(1, *(READING | WRITING)[command], "--store", folder)
        assert line == f"{folder} is a folder: name a file in it, such as {folder / 'store.db'}"

    @pytest.mark.parametrize("command", WRITING)
    @pytest.mark.parametrize("place", ["good.db/sub/new.db", "/proc/none/new.db"])
    def test_place_where_none_can_be_made(self, refused: Refused, folder: Path, command: str, place: str) -> None:
        before = (folder / "good.db").read_bytes()
        line = refused(1, *WRITING[command], "--store", place)
        assert f"{place} cannot be made" in line
        assert "--store or WARPSMITH_STORE" in line
        assert (folder / "good.db").read_bytes() == before

    @pytest.mark.parametrize(
        ("command", "url"),
        [*each_with_one_of(READING, URLS), *itertools.product(WRITING, URLS)],
    )
    def test_url(self, refused: Refused, command: str, url: str) -> None:
        refused(2, *(READING | WRITING)[command], "--store", url)

    @pytest.mark.parametrize(
        ("port", "command"),
        each_with_one_of(["abc", "99999", "", "-1", "0", "5432x"], ["query", "tune", "db ls", "db merge"]),
    )
    def test_port(self, refused: Refused, command: str, port: str) -> None:
        line = refused(
            2, *(READING | WRITING)[command], "--store", f"postgresql+psycopg://user:secret@localhost:{port}/db"
        )
        assert f"@localhost:{port}/db: the port after the host's colon must be a number from 1 to 65535" in line
        assert "secret" not in line

    @pytest.mark.parametrize("command", ["query", "tune"])
    def test_host_that_nobody_knows(self, refused: Refused, command: str) -> None:
        line = refused(1, *(READING | WRITING)[command], "--store", "postgresql+psycopg://me:secret@no-host.invalid/x")
        assert "no-host.invalid" in line.partition(": ")[2]
        assert "secret" not in line

    def test_merged_from(self, refused: Refused, folder: Path) -> None:
        paint(folder / "bad.db")
        assert "not a warpsmith store" in refused(1, "db", "merge", "bad.db", "--store", "new.db")
        assert "there is no store at typo.db" in refused(1, "db", "merge", "typo.db", "--store", "new.db")

    def test_own_store_that_is_damaged(self, refused: Refused) -> None:
        path = location.own_store()
        path.parent.mkdir(parents=True)
        paint(path)
        before = path.read_bytes()
        for command in ("tune", "report", "db ls"):
            assert str(path) in refused(1, *(READING | WRITING)[command])
        assert path.read_bytes() == before

    def test_doctor_reports_it_among_its_findings(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        paint(folder / "bad.db")
        assert run(["doctor", "--store", "bad.db", "--json"]) == 1
        shown = capsys.readouterr()
        document = json.loads(shown.out)
        findings = {finding["name"]: finding for finding in document["findings"]}
        assert not document["usable"]
        assert not findings["stores"]["good"]
        assert "not a warpsmith store" in findings["stores"]["told"]
        assert findings["host compiler"]["good"]
        assert len(shown.err.splitlines()) == 1


class TestReadOnly:
    """Opens read-only stores as an ordinary user, because file permissions do not bind root."""

    @pytest.fixture
    def shared(self, folder: Path) -> Iterator[Path]:
        """The good store in a folder that other users can read but not write; they cannot reach pytest's folder."""
        with tempfile.TemporaryDirectory() as name:
            copy = Path(name) / "a.db"
            copy.write_bytes((folder / "good.db").read_bytes())
            copy.chmod(0o444)
            Path(name).chmod(0o555)
            yield copy
            Path(name).chmod(0o755)

    @pytest.fixture
    def as_ordinary_user(self) -> Callable[..., tuple[int, str]]:
        """Runs a command in a child without root's rights; gives the exit code and the output of both streams."""

        def call(*arguments: object) -> tuple[int, str]:
            run(["query", *ASKED, "--store", "good.db"])  # loads what the child may not find among root's files
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                code = 99
                try:
                    if os.geteuid() == 0:
                        os.setuid(65534)
                    os.environ["XDG_DATA_HOME"] = "/none"  # the present one lies below root's folders
                    os.chdir("/")
                    with os.fdopen(writer, "w") as both:
                        sys.stdout = sys.stderr = both
                        code = run([str(argument) for argument in arguments])
                finally:
                    os._exit(code)
            os.close(writer)
            with os.fdopen(reader) as pipe:
                told = pipe.read()
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), told

        return call

    def test_is_good_enough_for_query(self, shared: Path, as_ordinary_user: Callable[..., tuple[int, str]]) -> None:
        before = shared.read_bytes()
        code, told = as_ordinary_user("query", *ASKED, "--store", shared)
        assert code == 0
        assert told.startswith("match     exact\n")
        assert shared.read_bytes() == before
        assert list(shared.parent.iterdir()) == [shared]

    @pytest.mark.parametrize("name", ["a.db", "new.db"])
    def test_is_refused_by_tune(
        self, shared: Path, as_ordinary_user: Callable[..., tuple[int, str]], name: str
    ) -> None:
        before = shared.read_bytes()
        run(["tune", *ASKED, "--store", "/proc/none/a.db"])  # loads what tuning needs
        code, told = as_ordinary_user("tune", *ASKED, "--store", shared.parent / name)
        assert code == 1
        (line,) = told.splitlines()
        assert line.startswith(f"warpsmith: error: {shared.parent / name} is read-only")
        assert shared.read_bytes() == before
        assert list(shared.parent.iterdir()) == [shared]


class TestDamagedRows:
    @pytest.fixture
    def damaged(self, folder: Path) -> Path:
        """A store whose one winner was spoiled directly in the file."""
        path = folder / "rows.db"
        path.write_bytes((folder / "good.db").read_bytes())
        execute(path, "UPDATE warpsmith_winners SET spec = '{'")
        return path

    def test_are_found_by_check(self, damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["db", "check", "--store", str(damaged)]) == 1
        shown = capsys.readouterr()
        assert shown.out.splitlines()[0] == f"damaged   {damaged}"
        assert "JSON is damaged" in shown.out
        assert shown.err == f"warpsmith: error: {damaged}: damaged; the findings are on standard output\n"

    def test_are_found_by_check_as_json(self, damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["db", "check", "--store", str(damaged), "--json"]) == 1
        (lines,) = json.loads(capsys.readouterr().out)["stores"].values()
        (line,) = lines
        assert "JSON is damaged" in line

    def test_count_as_nothing_stored(self, damaged: Path, refused: Refused) -> None:
        before = damaged.read_bytes()
        assert "nothing is stored for filter2d image=64x64" in refused(3, "query", *ASKED, "--store", damaged)
        assert "nothing is stored yet" in refused(3, "report", "--store", damaged)
        assert damaged.read_bytes() == before

    def test_are_named_by_export(self, damaged: Path, refused: Refused) -> None:
        line = refused(1, "db", "export", "lines.jsonl", "--store", damaged)
        assert f"`warpsmith db check --store {damaged}` lists all such rows" in line
