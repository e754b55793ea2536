"""Findings of checks, cached in this process and on disk."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from pathlib import Path

from warpsmith.devices.binary_cache import cache_folder
from warpsmith.devices.compiler import Binaries
from warpsmith.devices.private_folder import PrivateFolder
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem

_FORMAT = 1
"""Format version, raised whenever the meaning of the files, or of the check, changes."""
_MOST_FILES = 4096
"""Largest number of cached files, of 100 bytes each; beyond it, the older half is deleted."""
_PRUNE_EVERY = 64


def verdict_name(problem: Problem, device: Device, fingerprint: str, binaries: Binaries) -> str:
    """File name that covers all that a verdict depends on: the problem, the device, the program and its machine
    code.
    """
    images = [hashlib.sha256(binaries[name].image).hexdigest() for name in sorted(binaries)]
    subject = [_FORMAT, problem.key(), device.key(), fingerprint, images]
    return f"{hashlib.sha256(json.dumps(subject).encode()).hexdigest()}.json"


class Verdicts:
    """Cache of this process's verdicts, above those on disk. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, Finding] = {}

    def get(self, name: str) -> Finding | None:
        """Finding of an earlier check; None if there was none."""
        found = self._known.get(name)
        if found is None and (found := _read(name)) is not None:
            self._known[name] = found
        return found

    def put(self, name: str, finding: Finding) -> None:
        """Caches a finding. If the folder cannot be written, the next process checks again."""
        self._known[name] = finding
        folder = PrivateFolder(_path())
        with contextlib.suppress(OSError):
            folder.write(name, json.dumps(dataclasses.asdict(finding)).encode())
            if len(self._known) % _PRUNE_EVERY == 0:
                _prune()

    def forget(self) -> None:
        """Clears the verdicts of this process; those on disk stay."""
        self._known.clear()


def _path() -> Path:
    return cache_folder().with_name("verified")


def _read(name: str) -> Finding | None:
    try:
        content = PrivateFolder(_path()).read(name)
        return None if content is None else Finding(**json.loads(content))
    except (OSError, ValueError, TypeError):
        return None


def _prune() -> None:
    files = [*_path().glob("*.json")]
    if len(files) > _MOST_FILES:
        files.sort(key=lambda file: file.stat().st_mtime_ns)
        for file in files[: len(files) // 2]:
            file.unlink(missing_ok=True)


VERDICTS = Verdicts()


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Comparison of some results with their expected values."""

    samples: int
    wrong: int
    largest_error: float
    message: str
    """Message about the worst wrong result; empty if none is wrong."""

    @property
    def is_right(self) -> bool:
        return self.wrong == 0
