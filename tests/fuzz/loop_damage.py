"""Damaged stores, bundles and files of results give one clear line, or the answer of the next store.

A case is a kind of damage and a seed. The damaged file takes the place of the user's own store, of a named store, of a
bundle, or of lines to be imported. No case may end in an uncaught Python error. No answer may be a program that this
version would not generate for the config that the answer names.
"""

from __future__ import annotations

import contextlib
import enum
import io
import json
import os
import random
import shutil
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import warpsmith as ws
from builders import failure, generated, winner
from command_lines import own_folder, ran
from seeded_case import SeededCase
from warpsmith.cli.app import run
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BundleError
from warpsmith.generator.presets import H200
from warpsmith.generator.registry import families_for, family_named
from warpsmith.plans.match import Match
from warpsmith.store import location
from warpsmith.store.contents import check_store
from warpsmith.store.poison import Started
from warpsmith.store.record import FailureKind
from warpsmith.store.store import Store

PROBLEMS = (
    ws.Filter2d(image=(64, 64), filter=(3, 3)),
    ws.Filter2d(image=(48, 64), filter=(3, 5), dtype="uint8"),
    ws.Fft(size=(16, 16), batch=4),
    ws.Conv2d(input=(1, 2, 9, 9), weight=(2, 2, 3, 3), padding=1),
)
QUERY = ("query", "filter2d", "--image", "64x64", "--filter", "3x3", "--device", "host")
COMMANDS: tuple[tuple[str, ...], ...] = (
    QUERY,
    ("explain", *QUERY[1:]),
    ("db", "ls"),
    ("db", "show", "filter=3x3"),
    ("db", "check"),
    ("db", "prune", "--stale"),
    ("db", "prune", "--keep-trials", "1", "--yes"),
    ("db", "export", "out.jsonl"),
    ("db", "export", "--format", "t4", "--out", "t4.json", "filter=3x3", "dtype=float32", "--device-key", H200.key()),
    ("db", "merge", "sound.db"),
    ("report",),
    ("export", "--all", "--out", "bundle-out"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63, 10**400, -0.5, 1e308, float("inf"), float("nan")),
    *("", "x", "auto", "filter2d_plain", "\ud800", "\0", "a" * 70_000, "../../etc/passwd", "/etc/passwd"),
    *([], {}, [[]], [1, 2], {"a": 1}, [None], [[[[[[]]]]]]),
)
"""Replacements of a value of JSON or of a row."""


REVISIONS = ("", "x", "0000", "0009", "9" * 5000, "\N{ARABIC-INDIC DIGIT THREE}")


class Damage(enum.StrEnum):
    """Kind of damage."""

    OWN_BYTES = "own-bytes"
    """Bytes of the user's own store, which a look-up may do without."""
    OWN_ROWS = "own-rows"
    NAMED_BYTES = "named-bytes"
    """Bytes of the store that a command names."""
    NAMED_ROWS = "named-rows"
    BUNDLE_BYTES = "bundle-bytes"
    BUNDLE_VALUES = "bundle-values"
    """Values of a bundle's manifest."""
    LINES = "lines"
    """Lines that are imported."""


Case = SeededCase[Damage]


def cases(seed: int, count: int) -> Iterator[Case]:
    """Each kind of damage in turn."""
    kinds = tuple(Damage)
    for number in range(count):
        yield Case(kinds[number % len(kinds)], seed * 10_000_000 + number)


def parse(text: str) -> Case:
    """The case that `str` wrote."""
    return Case.parse(text, Damage)


class Workplace:
    """A folder with sound files; cases damage copies of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = DeviceRef.parse("host").device()
        self.sound = folder / "sound.db"
        self.shipped = folder / "shipped.db"
        self.bundle = folder / "bundle"
        self.lines = folder / "lines.jsonl"
        _fill(self.sound, 900.0)
        _fill(self.shipped, 1200.0)
        assert run(["db", "export", str(self.lines), "--store", str(self.sound), "--json"]) == 0
        ws.export(PROBLEMS, self.bundle, store=str(self.sound))
        self.texts = frozenset(each.program.fingerprint for each in ws.load_bundle(self.bundle)._kernels)


_PLACES: list[Workplace] = []


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """Makes the sound files once, in a separate folder with separate stores."""
    with own_folder() as folder, pytest.MonkeyPatch.context() as patch:
        with contextlib.redirect_stdout(io.StringIO()):
            place = Workplace(folder)
        patch.setattr(location, "shipped_store", lambda: place.shipped)
        _PLACES.append(place)
        try:
            yield
        finally:
            _PLACES.clear()


def _fill(path: Path, time_ns: float) -> None:
    host = DeviceRef.parse("host").device()
    with Store.open(str(path), write=True) as store:
        for problem in PROBLEMS:
            for device in (host, H200):
                record = winner(problem, time_ns, device)
                store.add_trials(
                    problem, device, (record.trial, generated(problem, failure(FailureKind.CRASH), device))
                )
                store.put_winner(record)
                others = [each for each in families_for(problem, device) if each.name != record.trial.family]
                store.put_runners_up(
                    winner(problem, time_ns * (2 + number), device, family=each)
                    for number, each in enumerate(others[:3])
                )
                store.runs.add(problem, device, {"seed": 1, "trials": 2, "elapsed_s": 3.0})
        store.poison.mark_started(H200, [Started("filter2d_plain", generated(PROBLEMS[0]).config, "started")])


def check(case: Case) -> str | None:
    """The fault, in one line; None if there is none."""
    (place,) = _PLACES
    rng = random.Random(str(case))
    for name in ("case.db", "out.jsonl", "t4.json", "t4-metadata.json"):
        (place.folder / name).unlink(missing_ok=True)
    for name in ("data", "bundle-out", "case"):
        shutil.rmtree(place.folder / name, ignore_errors=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        match case.kind:
            case Damage.OWN_BYTES | Damage.OWN_ROWS:
                wrong = _own(place, case.kind, rng)
            case Damage.NAMED_BYTES | Damage.NAMED_ROWS:
                wrong = _named(place, case.kind, rng)
            case Damage.LINES:
                wrong = _imported(place, rng)
            case _:
                wrong = _bundle(place, case.kind, rng)
    lines = [str(each.message) for each in told if "\n" in str(each.message)]
    return wrong or (f"a warning of several lines: {lines[0]!r}" if lines else None)


def _own(place: Workplace, damage: Damage, rng: random.Random) -> str | None:
    path = place.folder / "data" / "warpsmith" / "store.db"
    path.parent.mkdir(parents=True)
    _damage_store(place, path, damage is Damage.OWN_BYTES, rng)
    problem = rng.choice(PROBLEMS)
    return _wrong_program(ws.query(problem, "host"), problem, place)


def _wrong_program(match: Match, problem: ws.Problem, place: Workplace) -> str | None:
    """The fault of a match: its program is right if its family generates it for a legal config, and its record must be
    of the same program.
    """
    family = family_named(match.program.family)
    if family is None or not family.space(problem, place.host).contains(match.program.config):
        return f"an illegal config is answered: {match.program.family} {match.program.config}"
    if family.program(problem, match.program.config).fingerprint != match.program.fingerprint:
        return "another program than the config's is answered"
    if str(match.kind) == "exact" and match.record is not None and match.record.problem != problem:
        return "the record of another problem is answered"
    return None


def _named(place: Workplace, damage: Damage, rng: random.Random) -> str | None:
    path = place.folder / "case.db"
    _damage_store(place, path, damage is Damage.NAMED_BYTES, rng)
    if rng.random() < 0.1:
        target = place.folder / "target.db"
        shutil.copy(place.shipped, target)
        wrong = _one_line(["db", "merge", str(path), "--store", str(target)])
        return wrong or _lost(target)  # rows that cannot be read are passed on: a newer version may read them
    command = [*rng.choice(COMMANDS), *(["--json"] if rng.random() < 0.3 else [])]
    return _one_line([*command, "--store", str(path)])


def _unsound(path: Path) -> str | None:
    """The fault of a store after results were added."""
    with Store.open(str(path), write=False) as store:
        problems = check_store(store)
    return f"the store is damaged by what was added: {problems[0]}" if problems else _lost(path)


def _lost(path: Path) -> str | None:
    """The loss of a store that has fewer winners than before results were added."""
    with Store.open(str(path), write=False) as store:
        return "winners are lost" if len(store.records()) < len(PROBLEMS) * 2 else None


def _one_line(command: list[str]) -> str | None:
    """Runs a command and returns the fault of how it ended."""
    done = ran(command)
    code = done.code
    lines = [line for line in done.errors.splitlines() if not line.startswith(("warning: ", "generated "))]
    if code not in (0, 1, 2, 3):
        return f"{command[:2]} ended with {code}"
    if len(lines) != (code != 0) and command[:2] not in (["db", "check"], ["explain"]):
        return f"{command[:2]} ended with {code} and {len(lines)} lines: {lines[:3]}"
    if "--json" in command and "prune" not in command:
        json.loads(done.output)
    return None


def _imported(place: Workplace, rng: random.Random) -> str | None:
    path, lines = place.folder / "case.db", place.folder / "case.jsonl"
    content = place.lines.read_bytes()
    if rng.random() < 0.5:
        content = _flipped(content, rng)
    else:
        listed = content.decode().splitlines()
        number = rng.randrange(len(listed))
        listed[number] = json.dumps(_edited(json.loads(listed[number]), rng))
        content = "\n".join(listed).encode()
    lines.write_bytes(content)
    shutil.copy(place.shipped, path)
    wrong = _one_line(["db", "import", str(lines), "--store", str(path)])
    return wrong or _unsound(path)


def _bundle(place: Workplace, damage: Damage, rng: random.Random) -> str | None:
    folder = place.folder / "case"
    shutil.copytree(place.bundle, folder)
    manifest = folder / "manifest.json"
    if damage is Damage.BUNDLE_VALUES:
        manifest.write_text(json.dumps(_edited(json.loads(manifest.read_text()), rng)))
    else:
        file = rng.choice(sorted(each for each in folder.rglob("*") if each.is_file()))
        _damage_file(file, rng)
    try:
        bundle = ws.load_bundle(folder)
    except BundleError as error:
        return f"an error of several lines: {error}" if "\n" in str(error) else None
    for kernel in bundle._kernels:
        if kernel.program.fingerprint not in place.texts:
            return f"a program is loaded that was not exported: {kernel.program.family}"
        if kernel.record.problem not in PROBLEMS:
            return f"a problem is loaded that was not exported: {kernel.record.problem.key()}"
    return None


def _damage_file(file: Path, rng: random.Random) -> None:
    """Damages bytes in most cases; sometimes it removes the file or puts something else in its place."""
    ways: tuple[Callable[[], None], ...] = (
        file.unlink,
        lambda: (file.unlink(), file.mkdir())[1],
        lambda: (file.unlink(), file.symlink_to("/etc/passwd"))[1],
        lambda: (file.unlink(), file.symlink_to(file.name))[1],
        lambda: (file.unlink(), os.mkfifo(file))[1],
        lambda: file.chmod(0),
    )
    if rng.random() < 0.2:
        rng.choice(ways)()
    else:
        file.write_bytes(_flipped(file.read_bytes(), rng))


def _damage_store(place: Workplace, path: Path, is_by_bytes: bool, rng: random.Random) -> None:
    content = place.sound.read_bytes()
    if is_by_bytes:
        path.write_bytes(_flipped(content, rng))
        if rng.random() < 0.05:
            path.with_name(f"{path.name}-journal").write_bytes(rng.randbytes(rng.choice((0, 28, 512, 4096))))
        else:
            path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
        return
    path.write_bytes(content)
    path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            _edit_row(connection, rng)


def _flipped(content: bytes, rng: random.Random) -> bytes:
    """The content with some bytes changed, cut off, overwritten or added."""
    data = bytearray(content)
    match rng.randrange(6):
        case 0:  # the header
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(min(100, len(data)))] = rng.randrange(256)
        case 1 | 2:
            for _ in range(rng.choice((1, 2, 5, 20, 200))):
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 3:
            del data[rng.randrange(len(data)) :]
        case 4:
            at, size = rng.randrange(len(data)), rng.choice((1, 16, 512, 4096))
            data[at : at + size] = rng.choice((bytes(size), rng.randbytes(size), b"\xff" * size))
        case _:
            pages = len(data) // 4096
            one, two = (4096 * rng.randrange(max(pages, 1)) for _ in range(2))
            data[one : one + 4096] = data[two : two + 4096]
    return bytes(data)


def _edit_row(connection: sqlite3.Connection, rng: random.Random) -> None:
    """Changes one value of one row, or a table itself. A change that the schema refuses is left out."""
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    table = rng.choice([name for name in tables if not name.startswith("sqlite_")] or ["sqlite_master"])
    with contextlib.suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
        if rng.random() < 0.1:
            connection.execute(
                rng.choice(
                    (
                        f"DROP TABLE {table}",
                        f"DELETE FROM {table}",
                        f"ALTER TABLE {table} RENAME TO other",
                        f"PRAGMA user_version = {rng.choice((-1, 0, 1, 4, 6, 2**31 - 1))}",
                        f"PRAGMA application_id = {rng.choice((0, 1))}",
                        "UPDATE warpsmith_version SET version_num = NULL",
                        f"UPDATE warpsmith_version SET version_num = '{rng.choice(REVISIONS)}'",
                        "INSERT INTO warpsmith_version VALUES ('0001')",
                    )
                )
            )
            return
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column = rng.choice(columns)
        rows = [row[0] for row in connection.execute(f"SELECT rowid FROM {table}")]
        if not rows:
            return
        row = rng.choice(rows)
        (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()
        new = rng.choice(VALUES)
        if isinstance(value, str) and value.startswith(("{", "[")) and rng.random() < 0.8:
            new = json.dumps(_edited(json.loads(value), rng))
        elif isinstance(new, list | dict):
            new = b"\xff\x00blob"
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, row))


def _edited(document: Any, rng: random.Random) -> Any:
    """A JSON document with one value replaced, removed, or added."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, each in inner:
            places.append((value, key))
            walk(each)

    walk(document)
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    match rng.randrange(5):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(("", "x", "sources", "filters"))] = rng.choice(VALUES)
        case 2 if isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] += rng.choice((-1, 1, 0.5, 2**31))
        case _:
            holder[key] = rng.choice(VALUES)
    return document
