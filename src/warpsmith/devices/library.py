"""What a vendor's library is to a device: calls that are carried out in stream order."""

from __future__ import annotations

import abc
from collections.abc import Mapping

from warpsmith.devices.base import BoundLaunch
from warpsmith.errors import LaunchError
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
