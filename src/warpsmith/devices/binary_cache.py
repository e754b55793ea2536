"""Compiled programs, kept on disk by what they were compiled from."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from pathlib import Path

from warpsmith.devices.base import Binary, BinaryKind, Compiler
from warpsmith.files import write_whole
from warpsmith.generator.program import Program

_FORMAT = 1
"""Raised whenever the files change their meaning: older ones are then never found."""


def cache_folder() -> Path:
    """`$WARPSMITH_CACHE_DIR/binaries`, else `binaries` in the user's cache folder."""
    import platformdirs

    chosen = os.environ.get("WARPSMITH_CACHE_DIR")
    return Path(chosen or platformdirs.user_cache_dir("warpsmith")) / "binaries"


@dataclasses.dataclass(frozen=True, slots=True)
class CachedCompiler(Compiler):
    """A compiler that remembers, across processes and runs.

    A file is named after the source and the compiler's identity, so it never goes stale; it carries a checksum, so a
    damaged one is compiled anew. A folder that cannot be written to costs only the memory.

    Args:
        compiler: the one that does the work.
        folder: where binaries are kept; it is made when first needed.
    """

    compiler: Compiler
    folder: Path = dataclasses.field(default_factory=cache_folder)

    @property
    def identity(self) -> str:
        return self.compiler.identity

    def cached(self, program: Program) -> Binary | None:
        return _read(self._path(program))

    def compile(self, program: Program) -> Binary:
        path = self._path(program)
        binary = _read(path)
        if binary is None:
            binary = self.compiler.compile(program)
            with contextlib.suppress(OSError):
                _write(path, binary)
        return binary

    def _path(self, program: Program) -> Path:
        text = json.dumps([_FORMAT, self.identity, program.source])
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.bin"


def _read(path: Path) -> Binary | None:
    """The binary in a file; None where there is none, or where it is damaged."""
    try:
        header, _, image = path.read_bytes().partition(b"\n")
        fields = json.loads(header)
        if fields.pop("sha256") != _checksum(fields, image):
            return None
        return Binary(**{**fields, "kind": BinaryKind(fields["kind"])}, image=image)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(path: Path, binary: Binary) -> None:
    """Writes a binary so that no reader ever sees a part of it. Raises OSError."""
    fields = dataclasses.asdict(binary)
    image = fields.pop("image")
    header = json.dumps({**fields, "sha256": _checksum(fields, image)})
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, header.encode() + b"\n" + image, mode=0o600)


def _checksum(fields: dict[str, object], image: bytes) -> str:
    """Over the header too: a wrong register count would mislead as much as a wrong image."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode() + b"\n" + image).hexdigest()
