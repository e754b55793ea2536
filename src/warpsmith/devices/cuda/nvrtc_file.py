"""Identifies the file from which NVRTC was loaded, so that a later process can tell whether it would load the same
one.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

_LOADED = re.compile(r"(?P<path>/\S*/libnvrtc\.so[.\d]*)$", re.MULTILINE)

FileState = tuple[str, int, int]
"""Path, size in bytes, modification time in ns."""


def loaded_nvrtc() -> FileState | None:
    """State of this process's NVRTC file; None if it has loaded none, or if the system does not tell."""
    try:
        return file_state(_loaded_path())
    except (OSError, LookupError):
        return None


@functools.cache  # not the errors: NVRTC may be loaded later, and then stays where it is
def _loaded_path() -> str:
    """Path of this process's NVRTC. Raises LookupError if it has loaded none, OSError if the system does not tell."""
    found = _LOADED.search(Path("/proc/self/maps").read_text(errors="replace"))
    if found is None:
        raise LookupError("NVRTC is not loaded")
    return found["path"]


def file_state(path: str) -> FileState | None:
    """State of a file now; None if it does not exist."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return path, status.st_size, status.st_mtime_ns
