"""Disk cache of compiled units, keyed by everything that determines a binary."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import tempfile
from pathlib import Path

from warpsmith.devices.compiler import Binary, BinaryKind, Compiler, Usage
from warpsmith.devices.private_folder import PrivateFolder
from warpsmith.generator.steps import Compilation

_FORMAT = 3
"""Version of the file format. Increment it when files change their meaning; older files are then never found."""


def cache_folder() -> Path:
    """`$WARPSMITH_CACHE_DIR/binaries`, else `binaries` in the user's cache folder."""
    return _user_folder() / "binaries"


def locks_folder() -> Path:
    """Folder of lock files, beside the binaries. Processes use them to take turns on a device."""
    return _user_folder() / "turns"


def _user_folder() -> Path:
    """The user's cache folder. A user without a home folder gets one in the temporary folder, named by user number."""
    import platformdirs

    if named := os.environ.get("WARPSMITH_CACHE_DIR"):
        return Path(named)
    try:
        folder = Path(platformdirs.user_cache_dir("warpsmith"))
    except RuntimeError:
        folder = Path()
    # Older platformdirs return `~` unexpanded. Another user may have made the folder first; `PrivateFolder` checks its
    # owner.
    return folder if folder.is_absolute() else Path(tempfile.gettempdir()) / f"warpsmith-{os.geteuid()}"


@dataclasses.dataclass(frozen=True, slots=True)
class CachedCompiler(Compiler):
    """A compiler with a disk cache that is shared by processes and runs.

    The file name is a hash of the unit's text and the compiler's identity, so a file never goes stale. Each file
    carries a checksum, and a damaged one is compiled again. If the folder cannot be written to, nothing is cached. The
    same holds, with a warning, for a folder that another user owns or may write (`PrivateFolder`), because its programs
    would run with this user's rights.

    Args:
        compiler: compiles units that are not in the cache.
        folder: folder of the binaries, created when first needed.
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
        """File name of a unit's binary. Raises CompileError as `identity` does."""
        text = json.dumps([_FORMAT, self.identity, self.compiler.text_of(unit)])
        return f"{hashlib.sha256(text.encode()).hexdigest()}.bin"


def binary_in(folder: Path, name: str) -> Binary | None:
    """The binary in a file of a cache; None if the file is missing, damaged or not to be trusted."""
    try:
        content = PrivateFolder(folder).read(name)
        return None if content is None else _binary_of(name, content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _binary_of(name: str, content: bytes) -> Binary | None:
    """Parses what `_content` wrote; None if the checksum does not match. Raises various errors for a damaged header."""
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
    """Checksum over image, header and file name.

    The header counts because a wrong register count misleads as much as a wrong image. The file name counts because the
    binary of one unit is wrong for another.
    """
    return hashlib.sha256(json.dumps([name, fields], sort_keys=True).encode() + b"\n" + image).hexdigest()
