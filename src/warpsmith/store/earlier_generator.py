"""Programs as an earlier version of the generator makes them, for stored fingerprints of its time."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tarfile
import tempfile
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from warpsmith.generator.program import Program

_ARCHIVE = "generator_of_schema_5.tar.xz"
"""The packages warpsmith.generator and warpsmith.templates as they were when stores had schema 5."""
_SERVER = "program_server.py"


class StoredProgram(NamedTuple):
    """A program as rows of a store name it."""

    operation: str
    problem: Any
    """The problem's specification, as JSON values."""
    family: str
    config: Any
    """The config's values."""


class EarlierGenerator:
    """The generator that wrote schema 5, in a process of its own: the two versions have modules of the same names.

    Raises:
        OSError: the archive cannot be unpacked, or the process cannot be started.
    """

    def __init__(self) -> None:
        self._unpacked = contextlib.ExitStack()
        try:
            self._process = self._started(self._unpack())
        except BaseException:
            self._unpacked.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._unpacked.close()

    def program(self, stored: StoredProgram) -> tuple[str, Program] | None:
        """The program and the fingerprint that the version itself gives it; None where it makes none of the config.

        Raises OSError where the process has ended.
        """
        answer = self._answer(stored)
        if answer is None:
            return None
        return answer["fingerprint"], Program.from_spec(answer["spec"], answer["sources"])

    def _answer(self, stored: StoredProgram) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(stored._asdict()) + "\n")
        self._process.stdin.flush()
        if not (line := self._process.stdout.readline()):
            raise OSError("the earlier generator's process has ended")
        return json.loads(line)

    def _unpack(self) -> Path:
        folder = self._unpacked.enter_context(tempfile.TemporaryDirectory(prefix="warpsmith-"))
        packed = resources.files("warpsmith.store.migrations") / _ARCHIVE
        with packed.open("rb") as file, tarfile.open(fileobj=file, mode="r:xz") as archive:
            archive.extractall(folder, filter="data")
        return Path(folder)

    def _started(self, folder: Path) -> subprocess.Popen[str]:
        server = self._unpacked.enter_context(
            resources.as_file(resources.files("warpsmith.store.migrations") / _SERVER)
        )
        return subprocess.Popen(
            [sys.executable, str(server), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
