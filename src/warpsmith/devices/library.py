"""What a vendor's library is to a device: its version, and calls that are carried out in stream order."""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterable, Mapping

from warpsmith.devices.base import BoundLaunch
from warpsmith.errors import LaunchError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.library_calls import Library
from warpsmith.generator.steps import LibraryCall


class LoadedCall(abc.ABC):
    """A call of a library whose preparations are done: calls of it create and allocate nothing."""

    @property
    @abc.abstractmethod
    def workspace_bytes(self) -> int:
        """Scratch memory of one call, aligned to 256 bytes; calls that overlap may not share it."""

    @abc.abstractmethod
    def bind(self, addresses: Mapping[str, int], workspace: int) -> BoundLaunch:
        """Fixes the memory that it works on. Nothing is kept alive by it.

        Args:
            addresses: device address of every buffer that the call points to.
            workspace: address of `workspace_bytes` bytes.

        Raises:
            LaunchError: a buffer that was not given.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Gives back what was prepared. Calls bound from it may no longer be made."""


class DeviceLibrary(abc.ABC):
    """A library that is there, on an open device."""

    @abc.abstractmethod
    def load(self, call: LibraryCall) -> LoadedCall:
        """Prepares a call.

        Raises:
            LaunchError: the library refuses it, such as a size that it cannot transform.
            OutOfMemory: what it keeps on the device does not fit.
        """


def addresses_of(call: LibraryCall, addresses: Mapping[str, int]) -> tuple[int, ...]:
    """Where the arguments of a call lie. Raises LaunchError where one of them was not given."""
    try:
        return tuple(addresses[each.buffer] + each.offset for each in call.arguments)
    except KeyError as missing:
        raise LaunchError(f"a call of {call.library} needs {missing}, which was not given") from None


@functools.cache
def library_version(kind: DeviceKind, library: Library) -> str:
    """A library's name and version on devices of a kind, such as `cufft 12.0.0`; `cufft missing` where it is not there.

    It enters the identity of what was measured. No device is opened for it.
    """
    match kind, library:
        case DeviceKind.CUDA, Library.CUFFT:
            from warpsmith.devices.cuda import cufft

            return cufft.version()
        case DeviceKind.HOST, Library.CUFFT:
            from warpsmith.devices.host import cufft as stand_in

            return stand_in.version()
    raise AssertionError(f"{library} on {kind}")


_BETWEEN = "; "


def identity_with_libraries(compiler: str, libraries: Iterable[Library], kind: DeviceKind) -> str:
    """What decides a program's machine code: the compiler's identity, and the version of each library that it calls.

    Such as `nvrtc 13.0 -std=c++17; cufft 12.0.0`. Of a program that calls none it is the compiler's own.
    """
    return _BETWEEN.join([compiler, *(library_version(kind, library) for library in libraries)])


def versions_in(identity: str) -> tuple[str, ...]:
    """The versions of libraries in what `identity_with_libraries` wrote."""
    return tuple(identity.split(_BETWEEN)[1:])


def is_of_today(identity: str, compiler: str, kind: DeviceKind) -> bool:
    """Whether what `identity_with_libraries` wrote for some program is of this compiler and of today's libraries."""
    known = {library_version(kind, library) for library in Library} if _BETWEEN in identity else set()
    return identity.split(_BETWEEN)[0] == compiler and set(versions_in(identity)) <= known
