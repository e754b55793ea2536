"""The compiled part of calls, where it was built with the package, and what it is told of kernels."""

from __future__ import annotations

import dataclasses
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


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedArgument:
    """Where a kernel's argument is found at each call."""

    is_address: bool
    """Whether it is an address; otherwise it is bytes."""
    place: int
    """Its number among the addresses of a call, behind which is that of its scratch memory, or among what kernels take
    as bytes."""
    offset: int = 0
    """Bytes from that address on."""


@dataclasses.dataclass(frozen=True, slots=True)
class NativeKernel:
    """One launch, ready but for what a call brings."""

    function: int
    """The driver's handle."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    arguments: tuple[PlacedArgument, ...]
