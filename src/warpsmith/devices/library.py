"""Interface of a vendor's library on a device. Its calls run in stream order."""

from __future__ import annotations

import abc
from collections.abc import Mapping

from warpsmith.devices.base import BoundLaunch
from warpsmith.errors import LaunchError
from warpsmith.generator.steps import LibraryCall


class LoadedCall(abc.ABC):
    """A prepared library call. Running it creates and allocates nothing."""

    @property
    @abc.abstractmethod
    def workspace_bytes(self) -> int:
        """Bytes of workspace for one call, aligned to 256 bytes; calls that overlap must not share it."""

    @abc.abstractmethod
    def bind(self, addresses: Mapping[str, int], workspace: int) -> BoundLaunch:
        """Fixes the memory that the call works on. It keeps nothing alive.

        Args:
            addresses: device address of every buffer that the call points to.
            workspace: address of `workspace_bytes` bytes.

        Raises:
            LaunchError: a buffer is missing.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Releases the prepared resources. Calls bound from it must no longer be made."""


class DeviceLibrary(abc.ABC):
    """An installed library on an open device."""

    @abc.abstractmethod
    def load(self, call: LibraryCall) -> LoadedCall:
        """Prepares a call.

        Raises:
            LaunchError: the library refuses it, such as a size that it cannot transform.
            OutOfMemory: the library's device memory does not fit.
        """


def addresses_of(call: LibraryCall, addresses: Mapping[str, int]) -> tuple[int, ...]:
    """Addresses of a call's arguments. Raises LaunchError if one of them is missing."""
    try:
        return tuple(addresses[each.buffer] + each.offset for each in call.arguments)
    except KeyError as missing:
        raise LaunchError(f"a call of {call.library} needs {missing}, which was not given") from None
