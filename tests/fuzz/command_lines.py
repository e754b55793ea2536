"""Command lines that run in this process, in a folder with a separate store and cache."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from warpsmith.cli.app import run


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """A new working folder, in which commands neither read nor change the user's files."""
    with (
        tempfile.TemporaryDirectory() as name,
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(name),
    ):
        folder = Path(name)
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        patch.setenv("WARPSMITH_CACHE_DIR", str(folder / "cache"))
        patch.delenv("WARPSMITH_STORE", raising=False)
        yield folder


@dataclasses.dataclass(frozen=True, slots=True)
class Ran:
    """Result of a command line."""

    code: int
    output: str
    errors: str


def ran(words: Sequence[str]) -> Ran:
    """Runs a command line."""
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(io.StringIO()) as errors:
        code = run(list(words))
    return Ran(code, output.getvalue(), errors.getvalue())
