"""Writes files of commands at paths that the user names: whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from warpsmith.errors import WarpsmithError
from warpsmith.files import write_whole


def check_writable(file: Path) -> None:
    """Raises WarpsmithError if `file` cannot be written. It is called before work that would be lost."""
    try:
        if file.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not file.exists() and not stat.S_ISDIR(file.parent.stat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(file if file.exists() else file.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _refusal(file, error) from None


def same(file: Path, other: str) -> bool:
    """True if both name the same existing file."""
    try:
        return file.samefile(other)
    except OSError:
        return False


def save(file: Path, content: str | bytes) -> None:
    """Writes `content` to `file`; an earlier file stays if the disk is full. Raises WarpsmithError."""
    data = content.encode() if isinstance(content, str) else content
    try:
        if file.exists() and not file.is_file() and not file.is_dir():  # such as /dev/stdout
            file.write_bytes(data)
        else:
            write_whole(file.resolve(), data)
    except OSError as error:
        raise _refusal(file, error) from None


def _refusal(file: Path, error: OSError) -> WarpsmithError:
    return WarpsmithError(f"cannot write {file}: {error.strerror}; name another file")
