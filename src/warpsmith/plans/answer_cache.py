"""Cache of look-up results on disk, beside the machine code, so that a process's first plan loads no generator.

Most of a first plan's time is preparation. On a busy EPYC core, over a driver that does nothing, loading the families
takes 60 ms, Jinja2 and its templates 100, reading the stored transforms 40 and loading NVRTC 40. With a cached result
the plan takes 11 ms and its imports 40. A cached result is valid while everything that it was made from is unchanged:
the problem, the device's facts, the stores' files, the code, and the compiler's library.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from warpsmith.devices.binary_cache import binary_in, cache_folder
from warpsmith.devices.compiler import Binaries
from warpsmith.devices.cuda.nvrtc_file import file_state, loaded_nvrtc
from warpsmith.devices.private_folder import PrivateFolder
from warpsmith.devices.process import ForkLock
from warpsmith.errors import WarpsmithError
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.selection import EVERYTHING, Selection
from warpsmith.plans.match import Match, MatchKind
from warpsmith.store.changes import State
from warpsmith.store.record import Record

_FORMAT = 3
"""Format version, raised whenever the meaning of the files changes."""
_MOST_FILES = 512
"""Largest number of cached results, of 20 to 60 KB each; beyond it, the older half is deleted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Circumstances:
    """Everything except the compiler that a look-up result for a GPU depends on.

    Args:
        problem: requested problem.
        device: requested device.
        store: store as the user named it.
        state: state of the stores' files; None for a store on a server, whose answers are not cached.
        selection: requested kernels.
    """

    problem: Problem
    device: Device
    store: str | None
    state: State | None
    selection: Selection = EVERYTHING

    @property
    def can_be_cached(self) -> bool:
        """Whether the result may be kept: one for a GPU, of stores whose state is known."""
        return self.device.kind is DeviceKind.CUDA and self.state is not None

    @property
    def name(self) -> str:
        """Name of the result's file: one per request, whatever the stores' state."""
        question = [_FORMAT, self.problem.operation, self.problem.spec(), dataclasses.asdict(self.device), self.store]
        kernels = [self.selection.method, self.selection.pins.key()]
        return f"{_digest([*question, *kernels, sys.prefix])}.json"

    def digest(self) -> str | None:
        """Hash of the state that must be unchanged; None if it cannot be determined."""
        code = code_state()
        return None if code is None else _digest([repr(self.state), code])


def answers_folder() -> Path:
    """Folder of the cached results, beside that of the machine code."""
    return cache_folder().with_name("answers")


def is_named_in_cache(circumstances: Circumstances) -> bool:
    """True if the cache has a result for the same request, perhaps an invalid one."""
    return (answers_folder() / circumstances.name).exists()


def cached_answer(circumstances: Circumstances) -> tuple[Match, Binaries] | None:
    """Result of an earlier process with its machine code; None if there is no valid one."""
    try:
        content = PrivateFolder(answers_folder()).read(circumstances.name)
        if content is None:
            return None
        checksum, _, text = content.partition(b"\n")
        answer = json.loads(text)
        if checksum.decode() != _checksum(circumstances.name, text) or answer["for"] != circumstances.digest():
            return None
        if file_state(answer["nvrtc"][0]) != tuple(answer["nvrtc"]):
            return None
        found = {name: binary_in(cache_folder(), file) for name, file in answer["binaries"].items()}
        binaries = {name: binary for name, binary in found.items() if binary is not None}
        return (_match_of(answer), binaries) if binaries.keys() == found.keys() else None
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, WarpsmithError):
        return None


def cache_answer(circumstances: Circumstances, match: Match, files: Mapping[str, str]) -> None:
    """Caches a result whose machine code, compiled by this process's NVRTC, is in these files of the binary cache, by
    unit.

    Caches nothing if NVRTC's file or the circumstances cannot be determined, or if the folder cannot be written.
    """
    nvrtc, digest = loaded_nvrtc(), circumstances.digest()
    if nvrtc is None or digest is None:
        return
    text = json.dumps(_spec(match) | {"for": digest, "nvrtc": nvrtc, "binaries": dict(files)}).encode()
    name = circumstances.name
    with contextlib.suppress(OSError):
        PrivateFolder(answers_folder()).write(name, _checksum(name, text).encode() + b"\n" + text)
        _prune(answers_folder())


def _spec(match: Match) -> dict[str, Any]:
    return {
        "kind": str(match.kind),
        "reasons": list(match.reasons),
        "program": match.program.spec(),
        "sources": {unit.name: unit.source for unit in match.program.units},
        "record": match.record.spec() if match.record is not None else None,
    }


def _match_of(answer: dict[str, Any]) -> Match:
    return Match(
        MatchKind(answer["kind"]),
        Program.from_spec(answer["program"], answer["sources"]),
        Record.from_spec(answer["record"]) if answer["record"] is not None else None,
        tuple(answer["reasons"]),
    )


def _prune(folder: Path) -> None:
    files = [*folder.glob("*.json")]
    if len(files) > _MOST_FILES:
        files.sort(key=lambda file: file.stat().st_mtime_ns)
        for file in files[: len(files) // 2]:
            file.unlink(missing_ok=True)


def _checksum(name: str, text: bytes) -> str:
    return hashlib.sha256(name.encode() + b"\n" + text).hexdigest()


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


_PACKAGES = ("warpsmith", "warpsmith.generator", "warpsmith.templates")
"""Packages whose files a look-up result depends on."""
_KINDS = (".py", ".jinja")


def code_state_now() -> str | None:
    """Hash of the sizes and times of the code's files; it takes 1 ms for 300 files.

    It includes the time of each file's last status change, which no program can set back. None if the code does not lie
    in files.
    """
    state = hashlib.sha256()
    try:
        for package in _PACKAGES:
            spec = importlib.util.find_spec(package)
            for folder in (spec and spec.submodule_search_locations) or ():
                for line in _files_in(folder):
                    state.update(line.encode())
    except (OSError, ImportError):
        return None
    return state.hexdigest()


_READING_CODE, _first_code_state = ForkLock(), functools.cache(code_state_now)


def code_state() -> str | None:
    """`code_state_now` when this process first asked: it runs the code that it loaded.

    One thread reads the files, because 16 at once took 6 s of a network's `patch`, each waiting for the interpreter
    after each file.
    """
    with _READING_CODE:
        return _first_code_state()


def _files_in(folder: str) -> Iterator[str]:
    """Yields a line for each file, ordered by name."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.endswith(_KINDS):
            status = entry.stat()
            yield f"{entry.path}|{status.st_size}|{status.st_mtime_ns}|{status.st_ctime_ns}\n"
        elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
            yield from _files_in(entry.path)
