"""What checks of programs on devices came to: remembered by this process, and on disk for the next."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from pathlib import Path

from warpsmith.devices.binary import Binaries
from warpsmith.devices.binary_cache import cache_folder
from warpsmith.devices.private_folder import PrivateFolder
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.plans.first_use.finding import Finding

_FORMAT = 1
"""Raised whenever the files, or what is checked, change their meaning."""
_MOST_FILES = 4096
"""Files of 100 bytes that are kept; when there are more, the older half goes."""
_PRUNE_EVERY = 64


def verdict_name(problem: Problem, device: Device, fingerprint: str, binaries: Binaries) -> str:
    """A name for all that a verdict depends on: the problem, the device, the program and its machine code."""
    images = [hashlib.sha256(binaries[name].image).hexdigest() for name in sorted(binaries)]
    subject = [_FORMAT, problem.key(), device.key(), fingerprint, images]
    return f"{hashlib.sha256(json.dumps(subject).encode()).hexdigest()}.json"


class Verdicts:
    """The verdicts of this process, above those on disk. Threads may use them at the same time."""

    def __init__(self) -> None:
        self._known: dict[str, Finding] = {}

    def get(self, name: str) -> Finding | None:
        """What an earlier check found; None where there was none."""
        found = self._known.get(name)
        if found is None and (found := _read(name)) is not None:
            self._known[name] = found
        return found

    def put(self, name: str, finding: Finding) -> None:
        """Keeps a finding; a folder that cannot be written to costs the next process a check."""
        self._known[name] = finding
        folder = PrivateFolder(_path())
        with contextlib.suppress(OSError):
            folder.write(name, json.dumps(dataclasses.asdict(finding)).encode())
            if len(self._known) % _PRUNE_EVERY == 0:
                _prune()

    def forget(self) -> None:
        """Lets go of what this process knows; what is on disk stays."""
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
