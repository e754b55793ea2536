"""Loads the compiled fast path of calls, if it was built with the package, and describes kernels for it."""

from __future__ import annotations

import dataclasses
import enum
from functools import cache
from types import ModuleType


@cache
def native() -> ModuleType | None:
    """The module `native_calls`; None if the package was installed without a C compiler."""
    try:
        from warpsmith.devices import native_calls
    except ImportError:
        return None
    return native_calls


class ArgumentKind(enum.IntEnum):
    """Source of a kernel argument at each call; `native_calls.pyx` has the same numbers."""

    BYTES = 0
    ADDRESS = 1
    MAP = 2
    """A 128-byte tensor map, in which the driver replaces the address at each call."""


@dataclasses.dataclass(frozen=True, slots=True)
class ArgumentSource:
    """Place of a kernel argument among the arguments of a call."""

    kind: ArgumentKind
    place: int
    """Index into the addresses of a call, whose last one is its workspace, or into its byte arguments."""
    offset: int = 0
    """Bytes from that address on."""
    map: bytes = b""
    """The tensor map of a MAP, as the driver encoded it for an arbitrary address."""


@dataclasses.dataclass(frozen=True, slots=True)
class NativeKernel:
    """One launch, complete except for the arguments of a call."""

    function: int
    """The driver's function handle."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[ArgumentSource, ...]
    begins_early: bool = False
    """Whether it is launched with programmatic stream serialization: see `Launch`."""
