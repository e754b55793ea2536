"""State of the code that answers look-ups, determined from its files without loading it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator

_PACKAGES = ("warpsmith", "warpsmith.generator", "warpsmith.templates")
"""Packages whose files a look-up result depends on."""
_KINDS = (".py", ".jinja")


def code_state() -> str | None:
    """Hash of the sizes and times of the code's files; it takes 1 ms for 300 files.

    It includes the time of each file's last status change, which no program can set back. None if the code does not lie
    in files.
    """
    told = hashlib.sha256()
    try:
        for package in _PACKAGES:
            spec = importlib.util.find_spec(package)
            for folder in (spec and spec.submodule_search_locations) or ():
                for line in _files_in(folder):
                    told.update(line.encode())
    except (OSError, ImportError):
        return None
    return told.hexdigest()


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
