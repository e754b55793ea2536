"""The file that NVRTC was loaded from, which tells later processes whether theirs would be the same."""

from __future__ import annotations

import re
from pathlib import Path

_LOADED = re.compile(r"(?P<path>/\S*/libnvrtc\.so[.\d]*)$", re.MULTILINE)

FileState = tuple[str, int, int]
"""Path, size in bytes, time in ns."""


def loaded_nvrtc() -> FileState | None:
    """That of this process; None where it has loaded none, or where the system does not tell."""
    try:
        found = _LOADED.search(Path("/proc/self/maps").read_text(errors="replace"))
    except OSError:
        return None
    return file_state(found["path"]) if found else None


def file_state(path: str) -> FileState | None:
    """What a file is like now; None where there is none."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return path, status.st_size, status.st_mtime_ns
