"""The compiled part of calls, where it was built with the package, and what it is told of kernels."""

from __future__ import annotations

import dataclasses
import enum
from functools import cache
from types import ModuleType


@cache
def native() -> ModuleType | None:
    """The module `native_calls`; None where the package was installed without a C compiler."""
    try:
        from warpsmith.devices import native_calls
    except ImportError:
        return None
    return native_calls


class ArgumentKind(enum.IntEnum):
    """What a kernel's argument is made of at each call; `native_calls.pyx` has the same numbers."""

    BYTES = 0
    ADDRESS = 1
    MAP = 2
    """128 bytes that the driver made of a map of images, in which it replaces the address."""


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedArgument:
    """Where a kernel's argument is found at each call."""

    kind: ArgumentKind
    place: int
    """Its number among the addresses of a call, behind which is that of its scratch memory, or among what kernels take
    as bytes."""
    offset: int = 0
    """Bytes from that address on."""
    map: bytes = b""
    """Of a map: what the driver made of it for any address."""


@dataclasses.dataclass(frozen=True, slots=True)
class NativeKernel:
    """One launch, ready but for what a call brings."""

    function: int
    """The driver's handle."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[PlacedArgument, ...]
