"""Standard streams that are closed, full or of a narrow encoding: one line, the right exit code, and nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import exhaustive
from builders import SMALL, winner
from warpsmith.devices.select import DeviceRef
from warpsmith.store.contents import check_store
from warpsmith.store.store import Store

QUERY = ("query", "filter2d", "--image", "64x64", "--filter", "3x3", "--device", "host")
MISS = (*QUERY, "--border", "constant", "--cval", "7")
LOST = "warpsmith: error: cannot write to standard output: No space left on device\n"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("streams") / "a.db"
    with Store.open(str(path), write=True) as opened:
        opened.put_winner(winner(SMALL, 900.0, DeviceRef.parse("host").device()))
    return path


def shell(store: Path, redirection: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with streams that a shell has closed or redirected."""
    words = [sys.executable, "-m", "warpsmith", *arguments]
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *words]
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # few users set it
    places = {**usual, "WARPSMITH_STORE": str(store), **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=places)


@exhaustive.one_in(2)
@pytest.mark.parametrize(
    ("redirection", "code", "errors", "json_option"),
    [
        (">/dev/full", 1, LOST, ()),
        (">/dev/full", 1, LOST, ("--json",)),
        (">&-", 0, "", ()),
        (">&-", 0, "", ("--json",)),
        ("2>/dev/full", 0, "", ()),
        ("2>&-", 0, "", ("--json",)),
        ("<&- >&- 2>&-", 0, "", ()),
        (">/dev/full 2>/dev/full", 1, "", ("--json",)),
    ],
)
def test_an_answer(store: Path, redirection: str, code: int, errors: str, json_option: tuple[str, ...]) -> None:
    before = store.read_bytes()
    ran = shell(store, redirection, *QUERY, *json_option)
    assert (ran.returncode, ran.stderr) == (code, errors)
    assert bool(ran.stdout) is (">&-" not in redirection.replace("2>&-", "") and not redirection.startswith(">/dev"))
    assert store.read_bytes() == before


@exhaustive.one_in(2)
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", "2>/dev/full", "2>&-", "<&- >&- 2>&-"])
def test_a_failure_keeps_its_exit_code_and_line(store: Path, redirection: str) -> None:
    ran = shell(store, redirection, *MISS, "--json")
    assert ran.returncode == 3
    assert len(ran.stderr.splitlines()) == ("2>" not in redirection)


@exhaustive.one_in(2)
@pytest.mark.parametrize("words", [("--version",), ("--help",), ("db", "ls")])
def test_what_is_longer_or_printed_by_typer(store: Path, words: tuple[str, ...]) -> None:
    full = shell(store, ">/dev/full", *words)
    assert (full.returncode, full.stderr) == (1, LOST)
    assert shell(store, ">&- 2>&-", *words).returncode == 0


@pytest.mark.usefixtures("compile_unoptimised")
def test_a_closed_stream_is_no_place_for_a_store(tmp_path: Path) -> None:
    """Standard error has the lowest free number: a store opened with that number would receive a compiler's output."""
    made = tmp_path / "made.db"
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"format": "no store"}) + "\n")
    ran = shell(made, "2>&-", "db", "import", str(lines))
    assert ran.returncode == 1
    assert shell(made, "<&- >&- 2>&-", "tune", *QUERY[1:], "--trials", "1").returncode == 0
    with Store.open(str(made), write=False) as store:
        assert check_store(store) == ()
        assert len(store.records()) == 1


def test_characters_that_the_encoding_lacks_are_escaped(store: Path, tmp_path: Path) -> None:
    named = tmp_path / "größer.db"
    named.write_bytes(store.read_bytes())
    ran = shell(named, "", "db", "ls", PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "gr\\xf6\\xdfer.db: 1 winners" in ran.stdout
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.db")
    Path(odd).write_bytes(store.read_bytes())
    ran = shell(Path(odd), "", "db", "ls")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\\udcff.db: 1 winners" in ran.stdout
