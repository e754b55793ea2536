"""Files of a bundle, read with the care that foreign files need: nothing outside the bundle's folder is opened."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from pathlib import Path, PurePosixPath
from typing import Any

from warpsmith.errors import BadArgument, BundleError

MANIFEST = "manifest.json"

MANIFEST_BYTES = 64 << 20
"""Largest number of bytes in a manifest: 10,000 kernels take about 40 MB."""

FILE_BYTES = 64 << 20
"""Largest number of bytes in one kernel's source or machine code; the largest so far has 2 MB."""

MAX_DEPTH = 32
"""Largest nesting depth of lists and objects. A manifest of this version has 9; very deep ones exhaust Python's
stack.
"""


def folder_of(value: object) -> Path:
    """The folder that a caller names. Raises BadArgument if no folder can have that name."""
    if isinstance(value, str | os.PathLike) and "\0" not in (text := os.fsdecode(value)):
        return Path(text)
    raise BadArgument(f"a bundle's folder is named by its path; got {value!r}")


class BundleFiles:
    """Folder of a bundle. It reads regular files inside, and refuses everything that leads elsewhere with a
    BundleError.

    A path in a manifest is relative, with `/` between its parts and without `..`. No symbolic link on its way may lead
    out of the folder; the folder itself may be a link.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest_path = folder / MANIFEST

    def manifest(self) -> Any:
        """Reads the manifest's JSON. Raises BundleError if it is missing or damaged."""
        try:
            content = json.loads(self._content(MANIFEST, MANIFEST_BYTES))
        except FileNotFoundError:
            raise BundleError(f"{self.folder} is not a bundle: it has no {MANIFEST}") from None
        except OSError as error:
            raise BundleError(f"cannot read {self.manifest_path}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise self.damaged(str(error)) from None
        if _is_deep(content):
            raise self.damaged(f"more than {MAX_DEPTH} lists and objects lie within each other")
        return content

    def check(self, file: Any) -> None:
        """Checks that a manifest's `{"path": ..., "sha256": ...}` names a place in the folder, without opening it.

        Raises BundleError if it leads outside; LookupError, TypeError or ValueError if it is no such object.
        """
        path = file["path"]
        if not isinstance(path, str) or not isinstance(file["sha256"], str):
            raise TypeError("the path and the sha256 of a file must be text")
        if not path or not path.isprintable():
            raise ValueError(f"{path!r} is no path of a file")
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or "\\" in path:
            raise self._outside(path)
        self._resolved(path)

    def read(self, file: dict[str, Any]) -> bytes:
        """Content of a file that passed `check`. Raises BundleError if it differs from the exported content."""
        path = self.folder / file["path"]
        try:
            content = self._content(file["path"], FILE_BYTES)
        except OSError as error:
            raise BundleError(f"cannot read {path}: {error.strerror}; export the bundle again") from None
        if hashlib.sha256(content).hexdigest() != file["sha256"]:
            raise BundleError(f"{path} was altered since its export; export the bundle again")
        return content

    def damaged(self, why: str) -> BundleError:
        """Error for a manifest that no export can have written."""
        return BundleError(f"{self.manifest_path} is damaged ({why}); export the bundle again")

    def _outside(self, path: str) -> BundleError:
        outside = f"{self.folder / MANIFEST} names {path!r}, which leads out of the bundle's folder"
        return BundleError(f"{outside}: do not use this bundle; get it from whoever exported it")

    def _resolved(self, path: str) -> Path:
        """Path of a bundle file after following symbolic links. Raises BundleError if it is outside the folder."""
        try:
            real = (self.folder / path).resolve()
            if real.is_relative_to(self.folder.resolve()):
                return real
        except (
            OSError,
            RuntimeError,
        ):  # links that go round in a circle; the kind of error depends on Python's version
            pass
        raise self._outside(path)

    def _content(self, path: str, most: int) -> bytes:
        """Content of a file of at most `most` bytes. Raises OSError; BundleError if it is outside, too large, or not
        regular.
        """
        # O_NONBLOCK: opening a pipe would wait for its writer. O_NOFOLLOW: a link may have been put there after
        # `_resolved`.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self._resolved(path), flags)
        try:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not stat.S_ISREG(status.st_mode):
                raise BundleError(f"{self.folder / path} is no regular file; export the bundle again")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(most + 1)
        finally:
            os.close(descriptor)
        if len(content) > most:
            raise BundleError(f"{self.folder / path} is larger than {most >> 20} MiB; export the bundle again")
        return content


def _is_deep(content: Any) -> bool:
    level = [content]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, dict | list) for each in level)
