"""Interfaces of what is loaded on a device and launched: modules, library calls, graphs, and a kernel's arguments."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from warpsmith.errors import LaunchError
from warpsmith.generator.program import (
    Argument,
    ByValue,
    Constant,
    Launch,
    Pointer,
    TensorMap,
    Texture,
    Transformed,
)
from warpsmith.generator.steps import LibraryCall

if TYPE_CHECKING:
    from warpsmith.devices.native_calls import KernelLauncher

Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """Memory on a device: its address there and its size in bytes."""

    address: int
    nbytes: int


BoundLaunch = Callable[[int | None], None]
"""Launches and library calls with their arguments fixed. It takes a stream handle (None: the default stream) and does
not wait.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class CallArguments:
    """Arguments of a program's call, and buffers whose addresses are the same for all calls."""

    buffers: tuple[str, ...]
    """Names of the operands whose addresses a call passes, in order."""
    values: tuple[str, ...]
    """Names of the operands whose bytes a call passes, in order."""
    kept: Mapping[str, int] | None = None
    """Addresses of the KEPT workspaces that all calls share, because none writes to them; None if each bound call has
    its own.
    """


class Launches(Protocol):
    """All launches of one program, in order, with the arguments of each call."""

    def launch(
        self,
        addresses: tuple[int, ...],
        values: tuple[bytes, ...],
        stream: int | None,
        workspace: Allocation | None = None,
    ) -> None:
        """Queues the launches and does not wait. Threads may call it at the same time.

        Args:
            addresses: addresses of the operands, in the order of `CallArguments.buffers`.
            values: bytes of the operands that are taken by value, in the order of `CallArguments.values`.
            stream: handle; None for the default stream.
            workspace: the caller's own workspace for this call; None for what programs share on its stream.

        Raises:
            BadArgument: the workspace is too small, or not aligned.
            LaunchError: as `Module.bind`, if the arguments or the geometry do not fit.
            DeviceError: the device failed.
        """

    def launcher(self, values: tuple[bytes, ...]) -> KernelLauncher | None:
        """The compiled code that queues these launches, given the values of any call; None if there is none. Raises as
        `launch`.
        """


class Module(abc.ABC):
    """A binary loaded on a device."""

    @abc.abstractmethod
    def bind(self, launch: Launch, addresses: Mapping[str, int], values: Mapping[str, bytes]) -> BoundLaunch:
        """Fixes a launch's arguments. It does not keep the memory alive that they point to.

        Args:
            launch: kernel and launch geometry.
            addresses: device address of every operand and workspace that the launch points to or reads through a
                texture.
            values: bytes of every operand that the launch takes by value or in a `__constant__` variable.

        Raises:
            LaunchError: there is no such kernel or variable, or the device refuses the geometry or a texture.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Unloads the binary. Launches bound from it may no longer be called."""


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


class Graph(abc.ABC):
    """Launches that were captured once and can be launched again as a whole."""

    @abc.abstractmethod
    def launch(self) -> None:
        """Launches the graph on the default stream and does not wait."""

    @abc.abstractmethod
    def close(self) -> None:
        """Destroys the graph."""


def required(launch: Launch, name: str, among: Mapping[str, Value]) -> Value:
    """The address or bytes under `name`. Raises LaunchError if there are none."""
    try:
        return among[name]
    except KeyError:
        raise LaunchError(f"kernel {launch.entry} needs {name!r}, which was not given") from None


def argument_bytes(
    launch: Launch,
    argument: Argument,
    addresses: Mapping[str, int],
    values: Mapping[str, bytes],
    textures: Mapping[Texture, int],
    map_bytes: Callable[[TensorMap, int], bytes],
) -> bytes:
    """Bytes of one kernel argument. Raises LaunchError as `required` does.

    Args:
        launch: kernel, for messages.
        argument: the argument.
        addresses: device addresses by name of operand or workspace.
        values: bytes by name of operand.
        textures: handle of each texture.
        map_bytes: makes the tensor map of the images at an address.
    """
    match argument:
        case ByValue(operand):
            return required(launch, operand, values)
        case Transformed(operand, matrix):
            return _transformed(required(launch, operand, values), matrix)
        case Texture():
            return textures[argument].to_bytes(8, "little")
        case TensorMap(buffer):
            return map_bytes(argument, required(launch, buffer, addresses))
        case Pointer(buffer):
            return (required(launch, buffer, addresses) + argument.offset).to_bytes(8, "little")


def _transformed(values: bytes, matrix: tuple[tuple[float, ...], ...]) -> bytes:
    import numpy as np  # else half of the imports of a compiler's process, which needs none of it

    factors = np.array(matrix)
    rows = np.frombuffer(values, np.float32).reshape(-1, factors.shape[1])
    return bytes((rows @ factors.T).astype(np.float32))


def check_constant(launch: Launch, constant: Constant, offered: int, declared: int) -> None:
    """Raises LaunchError unless the size of a `__constant__` variable equals that of its content."""
    if offered != declared:
        sizes = f"__constant__ {constant.symbol} takes {declared} bytes; {constant.operand} has {offered}"
        raise LaunchError(f"kernel {launch.entry}: {sizes}")


def addresses_of(call: LibraryCall, addresses: Mapping[str, int]) -> tuple[int, ...]:
    """Addresses of a call's arguments. Raises LaunchError if one of them is missing."""
    try:
        return tuple(addresses[each.buffer] + each.offset for each in call.arguments)
    except KeyError as missing:
        raise LaunchError(f"a call of {call.library} needs {missing}, which was not given") from None
