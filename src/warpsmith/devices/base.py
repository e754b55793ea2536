"""Abstract classes that every device implements: compiler, memory, launches, clock."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from warpsmith.devices.binary import Binaries
from warpsmith.devices.binary import Binary as Binary
from warpsmith.devices.binary import BinaryKind as BinaryKind
from warpsmith.errors import DeviceError, LaunchError
from warpsmith.generator.device import Device
from warpsmith.generator.library_calls import Library
from warpsmith.generator.program import (
    Argument,
    ByValue,
    Constant,
    Launch,
    Pointer,
    Program,
    TensorMap,
    Texture,
    Transformed,
)
from warpsmith.generator.steps import Compilation, Workspace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from warpsmith.devices.library import DeviceLibrary
    from warpsmith.devices.native_calls import KernelLauncher
    from warpsmith.devices.work import Work

Value = TypeVar("Value")


class Compiler(abc.ABC):
    """Compiles units to binaries. Subclasses are frozen dataclasses, cheap to pickle, because they are sent to other
    processes.
    """

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """Everything beside the unit that determines the binary: name, version, architecture, options.

        Raises CompileError if the compiler is missing, naming what to install.
        """

    @abc.abstractmethod
    def compile(self, unit: Compilation) -> Binary:
        """Compiles one unit. Raises CompileError with the compiler's first error line."""

    def text_of(self, unit: Compilation) -> str:
        """The part of a unit that determines its binary, beside `identity`: equal texts give equal binaries."""
        return unit.source

    def cached(self, unit: Compilation) -> Binary | None:  # noqa: ARG002 - for compilers with a cache
        """The result of `compile` if it is known without compiling, else None."""
        return None

    def compile_program(self, program: Program) -> dict[str, Binary]:
        """The binary of each unit of a program, by its name. Raises CompileError as `compile` does."""
        return {name: self.compile(unit) for name, unit in program.compilations().items()}

    def cached_program(self, program: Program) -> dict[str, Binary] | None:
        """The result of `compile_program` if all of it is known without compiling, else None."""
        found = {name: self.cached(unit) for name, unit in program.compilations().items()}
        known = {name: binary for name, binary in found.items() if binary is not None}
        return known if len(known) == len(found) else None


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
            workspace: the caller's own workspace for this call; None for the one that is cached for its stream.

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
        told = f"__constant__ {constant.symbol} takes {declared} bytes; {constant.operand} has {offered}"
        raise LaunchError(f"kernel {launch.entry}: {told}")


class StreamIdentity(NamedTuple):
    """Identifies an ordered queue of work: work with equal identities runs in the order in which it was queued."""

    stream: int = -1
    """Unique number of a stream in this process; 0 for captured work. -1: the default stream.

    The driver reuses handles of destroyed streams, but not this number.
    """
    capture: int | None = None
    """Unique number of the capture whose graph takes the work; None if the work runs now."""


class Runtime(abc.ABC):
    """One open device. A process normally has one.

    Several threads may bind and launch loaded binaries at the same time. Everything else is for one thread.
    """

    device: Device
    ordinal: int = 0
    """GPU number, as in `DeviceRef`; 0 for the host."""

    def check_process(self) -> None:
        """Raises DeviceError in a forked child of the process that opened the device, if the device does not work
        there.
        """
        return

    def current(self) -> AbstractContextManager[None]:
        """Makes the device this thread's current one inside the context. It does nothing if the device has no such
        notion.
        """
        return contextlib.nullcontext()

    @abc.abstractmethod
    def environment(self) -> dict[str, str]:
        """Facts about this machine that a record stores and that may differ: driver, toolkit, operating system."""

    def soft_facts(self, binaries: Binaries) -> dict[str, str]:  # noqa: ARG002 - some read the compiler
        """The facts of `environment` that may change times, for a program compiled here. It is fast."""
        return self.environment()

    @abc.abstractmethod
    def load(self, binary: Binary) -> Module:
        """Loads a binary. Raises LaunchError if it does not fit this device."""

    def compiled_launches(
        self,
        program: Program,  # noqa: ARG002 - for devices with such launches
        modules: Mapping[str, Module],  # noqa: ARG002
        arguments: CallArguments,  # noqa: ARG002
        workspaces: tuple[Workspace, ...],  # noqa: ARG002
    ) -> Launches | None:
        """Launches of a program by compiled code, which writes each call's own addresses and values.

        Args:
            program: a program without library calls.
            modules: its units by name, loaded on this device.
            arguments: arguments of a call.
            workspaces: the program's workspaces.

        Returns: None if the device, the program or the installation does not allow it; `BoundLaunches` then fix the
        arguments of each call with `Module.bind`.
        """
        return None

    def library(self, library: Library) -> DeviceLibrary:
        """The implementation of a library on this device.

        Raises LaunchError if it is missing, naming what to install. Devices with libraries override this.
        """
        raise LaunchError(f"{self.device.name} has no {library}")

    def identify(self, stream: int | None) -> StreamIdentity:  # noqa: ARG002 - for devices with streams
        """Identity of the stream of a handle, and whether it is being captured. None is the default stream.

        Raises DeviceError if the handle is no stream of this device.
        """
        return StreamIdentity()

    def is_being_captured(self) -> bool:
        """True if the caller's current stream is being captured into a graph. Only devices with graphs override
        this.
        """
        return False

    @abc.abstractmethod
    def free_bytes(self) -> int | None:
        """Bytes of memory that can be allocated now; None if the device does not tell."""

    @abc.abstractmethod
    def independent_work(self) -> AbstractContextManager[Work]:
        """Work on a stream of its own, independent of all the caller's streams. Its memory is freed at the end of the
        context.
        """

    @abc.abstractmethod
    def ordered_work(self, stream: int | None) -> AbstractContextManager[Work]:
        """Work that runs after everything queued on a stream. The stream must not be captured."""

    @abc.abstractmethod
    def allocate(self, nbytes: int) -> Allocation:
        """Allocates memory, aligned to 256 bytes. Raises OutOfMemory."""

    @abc.abstractmethod
    def free(self, allocation: Allocation) -> None:
        """Gives memory back."""

    @abc.abstractmethod
    def upload(self, address: int, source: NDArray[np.generic]) -> None:
        """Copies a C-contiguous array to the device and waits."""

    @abc.abstractmethod
    def download(self, target: NDArray[np.generic], address: int) -> None:
        """Copies from the device into a C-contiguous array and waits."""

    @abc.abstractmethod
    def fill(self, address: int, byte: int, nbytes: int) -> None:
        """Sets `nbytes` bytes to `byte`, in stream order on the default stream."""

    @abc.abstractmethod
    def copy(self, target: int, source: int, nbytes: int, stream: int | None = None) -> None:
        """Copies between two device addresses, in the order of `stream`, a handle; None is the default one."""

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Waits for all work. Raises DeviceError if some of it failed."""

    @abc.abstractmethod
    def elapsed_ns(self, work: Callable[[], None]) -> float:
        """Nanoseconds that the device takes for `work`, which launches on the default stream."""

    @property
    def queues_work(self) -> bool:
        """True if `elapsed_ns` starts the work only when all of it is queued, so that launch overhead is not
        measured.
        """
        return False

    def captured(self, work: Callable[[int], None], *, rehearse: bool = False) -> Graph:  # noqa: ARG002 - see below
        """Captures the launches of `work` on the stream that it receives into a graph.

        If `rehearse` is set, the work first runs once on that stream: libraries create handles and allocate memory at
        the first use of a stream, which is not allowed during a capture. Devices with graphs override this.

        Raises DeviceError if the device has no graphs, or cannot capture this work.
        """
        raise DeviceError(f"{self.device.name} has no graphs")

    def throttled(self) -> bool:
        """True if a power or temperature limit is reducing the clocks now; False if that cannot be read."""
        return False

    @abc.abstractmethod
    def clock_mhz(self) -> int | None:
        """MHz of the SM clock now; None if it cannot be read."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the device."""
