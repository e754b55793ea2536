"""Fake `pycuda.driver`: its GPU uses the machine's own memory and does everything synchronously."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

HANDLE = 0xC0
STACK: list[int] = []
"""Current contexts, the last one on top."""
ALLOCATED: dict[int, Any] = {}
RETAINED: list[int] = []
MEMORY_BYTES = 1 << 30


class Error(Exception):
    """`pycuda.driver.Error`."""


class MemoryError(Error):  # noqa: A001 - PyCUDA's name
    """`pycuda.driver.MemoryError`."""


class CompileError(Error):
    """`pycuda.driver.CompileError`."""

    def __init__(self, msg: str, command_line: list[str], stdout: str | None = None, stderr: str | None = None) -> None:
        self.msg = msg
        self.command_line = command_line
        self.stdout = stdout
        self.stderr = stderr


def init() -> None:
    """Starts the driver."""


def _check_current() -> None:
    if not STACK or STACK[-1] != HANDLE:
        raise Error("no currently active context?")


class Context:
    """A primary context."""

    handle = HANDLE

    def push(self) -> None:
        STACK.append(HANDLE)

    @staticmethod
    def pop() -> None:
        STACK.pop()

    @staticmethod
    def synchronize() -> None:
        _check_current()

    def detach(self) -> None:
        RETAINED.remove(HANDLE)


class Device:
    """A GPU."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal

    def retain_primary_context(self) -> Context:
        RETAINED.append(HANDLE)
        return Context()


class DeviceAllocation:
    """Device memory, freed with the last reference to it."""

    def __init__(self, nbytes: int) -> None:
        self._memory = ctypes.create_string_buffer(nbytes)
        self._address = ctypes.addressof(self._memory)
        ALLOCATED[self._address] = nbytes

    def __int__(self) -> int:
        return self._address

    def free(self) -> None:
        _check_current()
        del ALLOCATED[self._address]

    def __del__(self) -> None:
        ALLOCATED.pop(self._address, None)


def mem_alloc(nbytes: int) -> DeviceAllocation:
    """Allocates `nbytes` bytes of device memory."""
    _check_current()
    if nbytes > MEMORY_BYTES:
        raise MemoryError("cuMemAlloc failed: out of memory")
    return DeviceAllocation(nbytes)


def memcpy_htod(address: int, source: NDArray[np.generic]) -> None:
    """Copies to the device."""
    _check_current()
    ctypes.memmove(address, source.ctypes.data, source.nbytes)


def memcpy_dtoh(target: NDArray[np.generic], address: int) -> None:
    """Copies from the device."""
    _check_current()
    ctypes.memmove(target.ctypes.data, address, target.nbytes)


def memcpy_dtod_async(target: int, source: int, nbytes: int) -> None:
    """Copies on the device."""
    _check_current()
    ctypes.memmove(target, source, nbytes)


def memset_d8_async(address: int, byte: int, nbytes: int) -> None:
    """Fills `nbytes` bytes with `byte`."""
    _check_current()
    ctypes.memset(address, byte, nbytes)


class Event:
    """An event of a stream."""

    def __init__(self) -> None:
        _check_current()
        self._at = 0.0

    def record(self) -> None:
        _check_current()
        self._at = time.perf_counter()

    def synchronize(self) -> None:
        _check_current()

    def time_since(self, other: Event) -> float:
        return (self._at - other._at) * 1e3
