"""Compiled units, kept on disk by what they were compiled from."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import tempfile
from pathlib import Path

from warpsmith.devices.base import Binary, BinaryKind, Compiler
from warpsmith.devices.binary import Usage
from warpsmith.devices.private_folder import PrivateFolder
from warpsmith.generator.steps import Compilation

_FORMAT = 3
"""Raised whenever the files change their meaning: older ones are then never found."""


def cache_folder() -> Path:
    """`$WARPSMITH_CACHE_DIR/binaries`, else `binaries` in the user's cache folder."""
    return _user_folder() / "binaries"


def locks_folder() -> Path:
    """Beside it, the files by which processes take turns on a device."""
    return _user_folder() / "turns"


def _user_folder() -> Path:
    """The user's cache folder; for a user without a home folder one of the user's number beside temporary files."""
    import platformdirs

    if named := os.environ.get("WARPSMITH_CACHE_DIR"):
        return Path(named)
    try:
        folder = Path(platformdirs.user_cache_dir("warpsmith"))
    except RuntimeError:
        folder = Path()
    # Older platformdirs return `~` as it is. Whoever makes the folder first owns it: `PrivateFolder` looks.
    return folder if folder.is_absolute() else Path(tempfile.gettempdir()) / f"warpsmith-{os.geteuid()}"


@dataclasses.dataclass(frozen=True, slots=True)
class CachedCompiler(Compiler):
    """A compiler that remembers, across processes and runs.

    A file is named after what of the unit decides its binary and the compiler's identity, so it never goes stale; it
    carries a checksum, so a damaged one is compiled anew. A folder that cannot be written to costs only the memory, and
    so does one that another user owns or may write (`PrivateFolder`), with a warning: its programs would run with this
    user's rights.

    Args:
        compiler: the one that does the work.
        folder: where binaries are kept; it is made when first needed.
    """

    compiler: Compiler
    folder: Path = dataclasses.field(default_factory=cache_folder)

    @property
    def identity(self) -> str:
        return self.compiler.identity

    def text_of(self, unit: Compilation) -> str:
        return self.compiler.text_of(unit)

    def cached(self, unit: Compilation) -> Binary | None:
        return binary_in(self.folder, self.file_name(unit))

    def compile(self, unit: Compilation) -> Binary:
        name = self.file_name(unit)
        binary = binary_in(self.folder, name)
        if binary is None:
            binary = self.compiler.compile(unit)
            with contextlib.suppress(OSError):
                PrivateFolder(self.folder).write(name, _content(name, binary))
        return binary

    def file_name(self, unit: Compilation) -> str:
        """The file of a unit's binary in the folder. Raises CompileError as `identity` does."""
        text = json.dumps([_FORMAT, self.identity, self.compiler.text_of(unit)])
        return f"{hashlib.sha256(text.encode()).hexdigest()}.bin"


def binary_in(folder: Path, name: str) -> Binary | None:
    """The binary in a file of a cache; None where there is none, or where it is damaged or not to be trusted."""
    try:
        content = PrivateFolder(folder).read(name)
        return None if content is None else _binary_of(name, content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _binary_of(name: str, content: bytes) -> Binary | None:
    """The binary that `_content` wrote; None where its checksum is another. Raises as a damaged header makes it."""
    header, _, image = content.partition(b"\n")
    fields = json.loads(header)
    if fields.pop("sha256") != _checksum(name, fields, image):
        return None
    kernels = {entry: Usage(**usage) for entry, usage in fields.pop("kernels").items()}
    return Binary(**{**fields, "kind": BinaryKind(fields["kind"])}, image=image, kernels=kernels)


def _content(name: str, binary: Binary) -> bytes:
    fields = dataclasses.asdict(binary)
    del fields["image"]
    header = json.dumps({**fields, "sha256": _checksum(name, fields, binary.image)})
    return header.encode() + b"\n" + binary.image


def _checksum(name: str, fields: dict[str, object], image: bytes) -> str:
    """Over the header too: a wrong register count would mislead as much as a wrong image. And over the file's name:
    the binary of one unit is no binary of another's.
    """
    return hashlib.sha256(json.dumps([name, fields], sort_keys=True).encode() + b"\n" + image).hexdigest()
