"""Fingerprints of schema 5 become those of schema 6, which comments and names in the generated text do not change.

A fingerprint of schema 5 is a hash of the text as it stood, so that text is generated once more, by the generator of
that time. Where it has the stored fingerprint, the stored time is of this text, and gets the fingerprint that the text
has today. Every other fingerprint stays: it belongs to no program of this version, as before.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, Table, Text, bindparam, func, select, update

from warpsmith.generator.fingerprint import VERBATIM_DIGITS
from warpsmith.generator.program import Program
from warpsmith.store import optuna_tables
from warpsmith.store.layout import RUNNER_UP_IDENTITY, WINNER_IDENTITY
from warpsmith.store.rows import Contents, Row, Unreadable, from_json, to_json
from warpsmith.store.tables import (
    POISON_IDENTITY,
    delete_all,
    found,
    poisoned,
    problems,
    replace_all,
    runners_up,
    trials,
    winners,
)

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


MOST_PROCESSES = 8
"""Earlier generators that work side by side; each takes 60 MB."""
PROGRAMS_PER_PROCESS = 100
"""Programs for which another process is worth its start: 0.5 s, against 20 ms for each program."""

_RECORDED: Mapping[Table, tuple[str, ...]] = {
    winners: WINNER_IDENTITY,
    runners_up: RUNNER_UP_IDENTITY,
    trials: ("id",),
}
"""The tables whose rows name a program, in columns and in their JSON; what tells two of their rows apart."""

Renewed = Mapping[str, str]
"""Fingerprints of schema 6 by those of schema 5."""


class Rekeyed(NamedTuple):
    """Winners that had a fingerprint of schema 5, and how many of them have one of schema 6 now."""

    winners: int
    moved: int


class _Named(NamedTuple):
    """A stored program, and the fingerprint under which it is stored."""

    fingerprint: str
    program: StoredProgram


def rekey(connection: Connection) -> Rekeyed:
    """Gives the rows of a store, and Optuna's trials beside them, fingerprints of schema 6.

    Raises OSError where the earlier generator cannot be started; nothing is changed then.
    """
    listed = found(connection, select(problems))
    tables = {each: _of_schema_5(connection, each) for each in _RECORDED}
    poisoned_rows = _of_schema_5(connection, poisoned)
    programs = itertools.chain.from_iterable(tables.values())
    renewed = _renewed(_named(listed, programs), _suspects(listed, poisoned_rows))
    for each, rows in tables.items():
        _replace(connection, each, rows, renewed)
    _replace_poisoned(connection, poisoned_rows, renewed)
    optuna_tables.replace_fingerprints(connection, renewed)
    won = [row["fingerprint"] for row in tables[winners]]
    return Rekeyed(len(won), sum(each in renewed for each in won))


def rekeyed(contents: Contents, poisoned_rows: tuple[Row, ...]) -> tuple[Contents, tuple[Row, ...]]:
    """Another store's rows, and its poison list, with fingerprints of schema 6. Raises OSError as `rekey` does."""
    recorded = (*contents.winners, *contents.runners_up, *contents.trials)
    programs, suspects = (
        [row for row in rows if _is_of_schema_5(row["fingerprint"])] for rows in (recorded, poisoned_rows)
    )
    if not programs and not suspects:
        return contents, poisoned_rows
    renewed = _renewed(_named(contents.problems, programs), _suspects(contents.problems, suspects))

    def changed(rows: tuple[Row, ...]) -> tuple[Row, ...]:
        return tuple(_with_fingerprint(row, renewed) for row in rows)

    contents = dataclasses.replace(
        contents,
        trials=changed(contents.trials),
        winners=changed(contents.winners),
        runners_up=changed(contents.runners_up),
    )
    return contents, tuple(_merged(changed(poisoned_rows)))


def _is_of_schema_5(fingerprint: object) -> bool:
    return isinstance(fingerprint, str) and len(fingerprint) == VERBATIM_DIGITS


def _of_schema_5(connection: Connection, of: Table) -> tuple[Row, ...]:
    return found(connection, select(of).where(func.length(of.c.fingerprint) == VERBATIM_DIGITS))


def _named(listed: Iterable[Row], programs: Iterable[Row]) -> list[_Named]:
    """The programs of rows, each fingerprint once. Rows that cannot be read are left out."""
    specs = {row["key"]: row for row in listed}
    named: dict[str, _Named] = {}
    for row in programs:
        problem = specs.get(row["problem_key"])
        if row["fingerprint"] in named or problem is None:
            continue
        if (program := _stored_program(problem, row)) is not None:
            named[row["fingerprint"]] = _Named(row["fingerprint"], program)
    return list(named.values())


def _suspects(listed: Collection[Row], poisoned_rows: Iterable[Row]) -> list[_Named]:
    """What poisoned programs may be: their rows name no problem, so that each problem of the store is tried."""
    pairs = itertools.product(poisoned_rows, listed)
    programs = ((row["fingerprint"], _stored_program(problem, row)) for row, problem in pairs)
    return [_Named(fingerprint, program) for fingerprint, program in programs if program is not None]


def _stored_program(problem: Row, row: Row) -> StoredProgram | None:
    try:
        return StoredProgram(problem["operation"], from_json(problem["spec"]), row["family"], from_json(row["config"]))
    except Unreadable:
        return None


def _renewed(named: Sequence[_Named], suspects: Sequence[_Named]) -> Renewed:
    """The fingerprints of the programs whose text the earlier generator still makes. Raises OSError as `rekey` does."""
    renewed = _generated(named)
    return renewed | _generated([each for each in suspects if each.fingerprint not in renewed])


def _generated(named: Sequence[_Named]) -> dict[str, str]:
    if not named:
        return {}
    processes = min(MOST_PROCESSES, os.cpu_count() or 1, -(-len(named) // PROGRAMS_PER_PROCESS))
    parts = [named[first::processes] for first in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        return dict(itertools.chain.from_iterable(pool.map(_generated_by_one, parts)))


def _generated_by_one(named: Sequence[_Named]) -> list[tuple[str, str]]:
    renewed = []
    with EarlierGenerator() as generator:
        for fingerprint, stored in named:
            made = generator.program(stored)
            if made is not None and made[0] == fingerprint:
                renewed.append((fingerprint, made[1].fingerprint))
    return renewed


def _with_fingerprint(row: Row, renewed: Renewed) -> Row:
    """The row with its new fingerprint, in its JSON too; as it is where it has none, or cannot be read."""
    fingerprint = renewed.get(row["fingerprint"])
    if fingerprint is None:
        return row
    changed: dict[str, Any] = {**row, "fingerprint": fingerprint}
    if "spec" in row:
        try:
            spec = from_json(row["spec"])
            spec.get("trial", spec)["fingerprint"] = fingerprint
        except (Unreadable, AttributeError, TypeError):
            return row
        changed["spec"] = to_json(spec)
    return changed


def _replace(connection: Connection, of: Table, rows: Sequence[Row], renewed: Renewed) -> None:
    identity = _RECORDED[of]
    changed = [
        {
            "new_fingerprint": new["fingerprint"],
            "new_spec": new["spec"],
            **{f"its_{name}": row[name] for name in identity},
        }
        for row in rows
        if (new := _with_fingerprint(row, renewed)) is not row
    ]
    if changed:
        same = (of.c[name] == bindparam(f"its_{name}") for name in identity)
        new = {name: bindparam(f"new_{name}", type_=Text) for name in ("fingerprint", "spec")}
        connection.execute(update(of).where(*same).values(new), changed)


def _replace_poisoned(connection: Connection, poisoned_rows: Sequence[Row], renewed: Renewed) -> None:
    moved = [row for row in poisoned_rows if row["fingerprint"] in renewed]
    delete_all(connection, poisoned, moved, POISON_IDENTITY)
    replace_all(connection, poisoned, _merged(_with_fingerprint(row, renewed) for row in moved), POISON_IDENTITY)


def _merged(poisoned_rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One row for each device and fingerprint: texts that differed in prose alone are one program now."""
    merged: dict[tuple[str, str], Row] = {}
    for row in sorted(poisoned_rows, key=lambda row: (row["failure_kind"] is None, -row["starts"])):
        merged.setdefault((row["device_key"], row["fingerprint"]), row)
    return [dict(row) for row in merged.values()]
