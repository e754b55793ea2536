"""Stores on which the store tests run, and the output of a command."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from warpsmith.cli.app import run
from warpsmith.store.store import Store


@pytest.fixture(params=["file", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Location of a store that several processes can create at once: a file or a PostgreSQL database."""
    return str(tmp_path / "a.db") if request.param == "file" else request.getfixturevalue("database")


@pytest.fixture(params=["file", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path, made_file: Path) -> Iterator[Store]:
    """An empty store, open for writing. One in memory does what a file does: `test_store_contract.py` shows it."""
    if request.param == "file":
        where = str(shutil.copy(made_file, tmp_path / "a.db"))
    else:
        where = request.getfixturevalue("database_with_store")
    with Store.open(where, write=True) as opened:
        yield opened


@pytest.fixture
def execute() -> Callable[..., None]:
    """Changes an SQLite file directly, past the store: `execute(path, *statements)`."""

    def call(path: Path, *statements: str) -> None:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return call


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Output of a command that succeeds."""

    def call(*arguments: str) -> str:
        assert run(list(arguments)) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        return shown.out

    return call


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line of a refused command."""

    def call(code: int, *arguments: str) -> str:
        assert run(list(arguments)) == code
        shown = capsys.readouterr()
        assert shown.out == ""
        (line,) = shown.err.splitlines()
        return line.removeprefix("warpsmith: error: ")

    return call


@pytest.fixture
def fake_pycuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder of the fake PyCUDA of `tests/fakes`, which this process and its children import."""
    fakes = Path(__file__).parents[1] / "fakes"
    monkeypatch.syspath_prepend(str(fakes))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(fakes), *filter(None, [os.environ.get("PYTHONPATH")])]))
    _forget_pycuda()
    yield fakes
    _forget_pycuda()


def _forget_pycuda() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pycuda" or name.endswith("pycuda_context")]:
        del sys.modules[name]
