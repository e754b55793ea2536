"""Writes files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Writes a whole file or none: no reader sees a part, and an earlier file stays if the disk is full.

    Args:
        path: a file in an existing folder.
        content: all of its bytes.
        mode: its permissions.

    Raises OSError.
    """
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as target:
        try:
            target.write(content)
            target.flush()
            Path(target.name).chmod(mode)
            os.replace(target.name, path)  # noqa: PTH105 - it is atomic on one file system
        except BaseException:
            Path(target.name).unlink(missing_ok=True)
            raise
