"""Compiled units, and what their kernels take of a device."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping


class BinaryKind(enum.StrEnum):
    """What a compiled unit is."""

    CUBIN = "cubin"
    """Machine code of one GPU architecture."""
    LIBRARY = "library"
    """A shared library of the host."""


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """What a kernel takes, in registers and bytes; None where the compiler does not tell."""

    registers: int | None = None
    """A thread."""
    spill_bytes: int | None = None
    """Stack frame a thread: spilled registers and local arrays, both of which live in local memory."""
    shared_bytes: int | None = None
    """Static shared memory a block."""


NOT_TOLD = Usage()
"""Of a kernel that the compiler says nothing of."""


@dataclasses.dataclass(frozen=True, slots=True)
class Binary:
    """A compiled unit."""

    kind: BinaryKind
    image: bytes
    arch: str
    compiler: str
    """The compiler's name and version, such as `nvrtc 13.0` or `g++ 12.2.0`."""
    kernels: Mapping[str, Usage] = dataclasses.field(default_factory=dict, hash=False)
    """What each kernel takes, by its entry; those of which the compiler tells."""

    def usage(self, entry: str) -> Usage:
        """What a kernel takes."""
        return self.kernels.get(entry, NOT_TOLD)

    @property
    def most(self) -> Usage:
        """The most that any of its kernels takes of each."""
        return most_of(self.kernels.values())


Binaries = Mapping[str, Binary]
"""A compiled program: the binary of each of its units, by the unit's name."""


def most_of(usages: Iterable[Usage]) -> Usage:
    """The most of each of several usages; None where none of them tells."""
    listed = list(usages)
    return Usage(
        _most(each.registers for each in listed),
        _most(each.spill_bytes for each in listed),
        _most(each.shared_bytes for each in listed),
    )


def most_used(binaries: Binaries) -> Usage:
    """The most that any kernel of a program takes of each: what a record keeps."""
    return most_of(binary.most for binary in binaries.values())


def _most(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)
