"""Folders that only this process's user can write, because files loaded from them run with this user's rights."""

from __future__ import annotations

import functools
import os
import stat
import warnings
from pathlib import Path

from warpsmith.files import write_whole

REMEDY = "set WARPSMITH_CACHE_DIR to a folder of your own"


class UntrustedCache(UserWarning):
    """Warning about a cache of compiled programs that another user owns or may write. It is not used; programs are
    compiled.
    """


class PrivateFolder:
    """A folder of files that belong to this process's user alone. It is neither read nor written if they do not.

    The owner must be the effective user, so even root's files are refused. Nobody else may have write permission,
    because whoever may write a compiled program may run one. Read permission of others does not matter.

    Args:
        path: the folder; `write` creates it, and the folders above it, with mode 0700.
        without: consequence if the folder is not private, for the warning.
    """

    def __init__(self, path: Path, without: str = "programs are compiled anew each time") -> None:
        self.path, self._without = path, without

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is no file that can be trusted. Raises OSError.

        It warns once about a folder, and once about files in it, that are not this user's alone.
        """
        try:
            folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return None
        try:
            if not self._is_private(os.fstat(folder)):
                return None
            # Opened relative to the checked folder, so that no other can be put in its place; links are never followed.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or _others(status) is not None:
                    _warn_once(f"{self.path} has files that other users own or may write: they are compiled anew")
                    return None
                return file.read()
        finally:
            os.close(folder)

    def write(self, name: str, content: bytes) -> None:
        """Writes a file of mode 0600 whole or not at all; writes nothing if the folder is not private. Raises
        OSError.
        """
        if self._make():
            write_whole(self.path / name, content, mode=0o600)

    def touch(self, name: str) -> Path | None:
        """The path of a file of mode 0600, created if it does not exist; None if the folder is not private.

        Raises OSError, also if there is a link of that name.
        """
        if not self._make():
            return None
        path = self.path / name
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        return path

    def _make(self) -> bool:
        """Creates the folder. Returns True if it is private."""
        for missing in reversed([each for each in (self.path, *self.path.parents) if not each.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        return self._is_private(self.path.stat())

    def _is_private(self, status: os.stat_result) -> bool:
        others = _others(status)
        if others is not None:
            remedy = f"chmod go-w {self.path}, or {REMEDY}" if status.st_uid == os.geteuid() else REMEDY
            _warn_once(f"the cache {self.path} {others}: {self._without}; {remedy}")
        return others is None


def _others(status: os.stat_result) -> str | None:
    """Message that says who else may have written a file or a folder; None if nobody."""
    if status.st_uid != os.geteuid():
        return f"belongs to another user (number {status.st_uid}; this process is {os.geteuid()})"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"may be written by other users (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


@functools.cache
def _warn_once(text: str) -> None:
    """Warns once per text: a search reads the cache thousands of times, and warning filters may show every
    repetition.
    """
    warnings.warn(text, UntrustedCache, stacklevel=2)
