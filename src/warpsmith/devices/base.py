"""What every device offers: a compiler, memory, launches, a clock."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from warpsmith.devices.binary import Binaries
from warpsmith.devices.binary import Binary as Binary
from warpsmith.devices.binary import BinaryKind as BinaryKind
from warpsmith.errors import DeviceError, LaunchError
from warpsmith.generator.device import Device
from warpsmith.generator.library import Library
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
from warpsmith.generator.steps import Compilation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from warpsmith.devices.launches import Brought, Launches
    from warpsmith.devices.library import DeviceLibrary
    from warpsmith.devices.work import Work
    from warpsmith.devices.workspaces import Workspaces

Given = TypeVar("Given")


class Compiler(abc.ABC):
    """Turns units into binaries. Subclasses are frozen dataclasses, cheap to pickle: they cross process borders."""

    @property
    @abc.abstractmethod
    def identity(self) -> str:
        """Everything beside the unit that decides the binary: name, version, architecture, options.

        Raises CompileError where the compiler is missing, naming what to install.
        """

    @abc.abstractmethod
    def compile(self, unit: Compilation) -> Binary:
        """Compiles one unit. Raises CompileError with the compiler's first error line."""

    def text_of(self, unit: Compilation) -> str:
        """What of a unit decides its binary, beside `identity`: equal texts have equal binaries."""
        return unit.source

    def cached(self, unit: Compilation) -> Binary | None:  # noqa: ARG002 - for those that remember
        """What `compile` would give, where it is known without compiling."""
        return None

    def compile_program(self, program: Program) -> dict[str, Binary]:
        """The binary of each unit of a program, by its name. Raises CompileError as `compile` does."""
        return {name: self.compile(unit) for name, unit in program.compilations().items()}

    def cached_program(self, program: Program) -> dict[str, Binary] | None:
        """What `compile_program` would give, where all of it is known without compiling."""
        found = {name: self.cached(unit) for name, unit in program.compilations().items()}
        known = {name: binary for name, binary in found.items() if binary is not None}
        return known if len(known) == len(found) else None


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """Memory on a device: its address there and its size in bytes."""

    address: int
    nbytes: int


BoundLaunch = Callable[[int | None], None]
"""Launches and calls of libraries with their arguments fixed. Takes a stream handle (None: the default stream) and does
not wait."""


class Module(abc.ABC):
    """A binary loaded on a device."""

    @abc.abstractmethod
    def bind(self, launch: Launch, addresses: Mapping[str, int], values: Mapping[str, bytes]) -> BoundLaunch:
        """Fixes a launch's arguments. The memory that they point to is not kept alive by it.

        Args:
            launch: which kernel, and its geometry.
            addresses: device address of every operand and workspace that the launch points to or reads through a
                texture.
            values: bytes of every operand that the launch takes by value or in a `__constant__` variable.

        Raises:
            LaunchError: no such kernel or variable, or a geometry or a texture that the device refuses.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Unloads the binary. Launches bound from it may no longer be called."""


class Graph(abc.ABC):
    """Launches captured once, to be launched again as a whole."""

    @abc.abstractmethod
    def launch(self) -> None:
        """Launches it on the default stream and does not wait."""

    @abc.abstractmethod
    def close(self) -> None:
        """Gives it back."""


def given(launch: Launch, name: str, among: Mapping[str, Given]) -> Given:
    """What a launch is bound to under `name`. Raises LaunchError where it is bound to nothing of that name."""
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
    """What a kernel takes for `argument`; `textures` has the handle of each, and `map_bytes` makes what the device
    takes for a map of the images at an address. Raises LaunchError as `given` does.
    """
    match argument:
        case ByValue(operand):
            return given(launch, operand, values)
        case Transformed(operand, matrix):
            return _transformed(given(launch, operand, values), matrix)
        case Texture():
            return textures[argument].to_bytes(8, "little")
        case TensorMap(buffer):
            return map_bytes(argument, given(launch, buffer, addresses))
        case Pointer(buffer):
            return (given(launch, buffer, addresses) + argument.offset).to_bytes(8, "little")


def _transformed(values: bytes, matrix: tuple[tuple[float, ...], ...]) -> bytes:
    import numpy as np  # half of what a compiler's process, which needs none of it, would import

    factors = np.array(matrix)
    rows = np.frombuffer(values, np.float32).reshape(-1, factors.shape[1])
    return bytes((rows @ factors.T).astype(np.float32))


def check_constant(launch: Launch, constant: Constant, offered: int, declared: int) -> None:
    """Raises LaunchError unless a `__constant__` variable takes just as many bytes as it is given."""
    if offered != declared:
        told = f"__constant__ {constant.symbol} takes {declared} bytes; {constant.operand} has {offered}"
        raise LaunchError(f"kernel {launch.entry}: {told}")


class StreamIdentity(NamedTuple):
    """What tells the order of work: work of one identity is done in the order in which it was queued."""

    stream: int = -1
    """Of no other stream of the process, gone ones included: their handles are given away again. -1: the default."""
    capture: int | None = None
    """Of the capture whose graph takes the work; None where it runs now."""


class Runtime(abc.ABC):
    """One open device; one a process is the rule.

    What was loaded on it may be bound and launched by several threads at a time. All else is for one thread.
    """

    device: Device
    ordinal: int = 0
    """Which GPU, as `DeviceRef` has it; 0 for the host."""

    def check_process(self) -> None:
        """Raises DeviceError in a forked child of the process that opened the device, where it does not work there."""
        return

    def current(self) -> AbstractContextManager[None]:
        """Makes the device this thread's current one meanwhile, where there is such a thing."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def environment(self) -> dict[str, str]:
        """Soft facts about this machine that a record keeps: driver, toolkit, operating system."""

    def soft_facts(self, binaries: Binaries) -> dict[str, str]:  # noqa: ARG002 - whose compiler may tell one
        """Those of `environment` whose change may move times, for a program that was compiled here; quickly."""
        return self.environment()

    @abc.abstractmethod
    def load(self, binary: Binary) -> Module:
        """Loads a binary. Raises LaunchError where it does not fit this device."""

    def prepared(
        self,
        program: Program,  # noqa: ARG002 - for those that have such launches
        modules: Mapping[str, Module],  # noqa: ARG002
        brought: Brought,  # noqa: ARG002
        memory: Workspaces,  # noqa: ARG002
    ) -> Launches | None:
        """A program's launches with everything laid out but what a call brings, which is then written in place.

        Args:
            program: one without calls of libraries.
            modules: its units, loaded here, by name.
            brought: what a call brings, and what is there already.
            memory: the program's workspaces.

        Returns: None where the device or the program allows no such thing; `Module.bind` then fixes each call's
            arguments.
        """
        return None

    def library(self, library: Library) -> DeviceLibrary:
        """What carries out calls of a library here.

        Raises LaunchError where it is missing, naming what to install; it is for devices that have any.
        """
        raise LaunchError(f"{self.device.name} has no {library}")

    def identify(self, stream: int | None) -> StreamIdentity:  # noqa: ARG002 - for those that have streams
        """Which stream a handle is of, None being the default one, and whether it is being captured.

        Raises DeviceError where it is no stream of this device.
        """
        return StreamIdentity()

    def is_being_captured(self) -> bool:
        """Whether the caller's current stream is captured in a graph now; only for devices that have graphs."""
        return False

    @abc.abstractmethod
    def free_bytes(self) -> int | None:
        """Bytes of memory that can be allocated now; None where the device does not tell."""

    @abc.abstractmethod
    def work_beside(self) -> AbstractContextManager[Work]:
        """Work of our own, beside all streams of the caller; its memory is given back at the end of the context."""

    @abc.abstractmethod
    def work_behind(self, stream: int | None) -> AbstractContextManager[Work]:
        """Work of our own behind what is queued on a stream, which must not be captured."""

    @abc.abstractmethod
    def allocate(self, nbytes: int) -> Allocation:
        """Takes memory, aligned to 256 bytes. Raises OutOfMemory."""

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
        """Waits for all work. Raises DeviceError where some of it failed."""

    @abc.abstractmethod
    def elapsed_ns(self, work: Callable[[], None]) -> float:
        """Runs `work`, which launches on the default stream, and returns the device's time for it in ns."""

    @property
    def queues_work(self) -> bool:
        """Whether `elapsed_ns` starts only when all the work is queued, so that launching it costs no time."""
        return False

    def captured(self, work: Callable[[int], None], *, rehearse: bool = False) -> Graph:  # noqa: ARG002 - see below
        """What `work` launches on the stream that it is given, as a graph.

        With `rehearse` the work is done once on that stream first: libraries make handles and take memory by the
        stream that asks, which they may not while it is captured. It is for those that have graphs.

        Raises DeviceError where the device has no graphs, or cannot capture what `work` does.
        """
        raise DeviceError(f"{self.device.name} has no graphs")

    def throttled(self) -> bool:
        """Whether power or temperature holds the clocks down right now; False where that cannot be read."""
        return False

    @abc.abstractmethod
    def clock_mhz(self) -> int | None:
        """The multiprocessor clock right now; None where it cannot be read."""

    @abc.abstractmethod
    def close(self) -> None:
        """Gives the device back."""
