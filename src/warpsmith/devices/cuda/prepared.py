"""Launches of a whole program. Each call writes its arguments directly into the memory that the driver reads.

Measured on an EPYC core over a driver that does nothing: binding a launch takes 11 us. Finding a bound launch and
calling cuda-bindings 13.5 takes 1.3 us. A launch here takes 0.4 us, of which the ctypes call is 0.25 us: it has four
arguments, which are existing ctypes objects.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cu

from warpsmith.devices.base import Allocation
from warpsmith.devices.cuda.layout import ADDRESS_BYTES, Layout
from warpsmith.devices.cuda.status import NOT_CURRENT, STATUS, SUCCESS, failure
from warpsmith.devices.launches import Brought
from warpsmith.devices.native import ArgumentKind, NativeKernel, PlacedArgument
from warpsmith.devices.workspaces import Workspaces
from warpsmith.generator.program import Launch, Program, TensorMap, Texture

if TYPE_CHECKING:
    from warpsmith.devices.cuda.primary_context import PrimaryContext
    from warpsmith.devices.native_calls import KernelLauncher

LaunchKernel = Callable[..., int]
"""The driver's `cuLaunchKernelEx`: configuration, function, arguments, null; it returns the status. The GIL is released
during the call, because the driver waits if its queue is full, perhaps for a host function that runs Python.
"""

PerKernel = Callable[[Launch, list[int]], Any]
"""Finds the driver's function for a launch, given the sizes of its arguments in bytes. Raises LaunchError if they do
not fit.
"""

_LAUNCHES = 11080
"""First CUDA version that has cuLaunchKernelEx."""
_REPLACES = 12000
"""First CUDA version that has cuTensorMapReplaceAddress."""
_MAP_ALIGNMENT = 64
_MOST_STREAMS = 64
"""Streams whose configurations are cached. A handle that the driver gives to a new stream can reuse its entry."""


class _Configuration(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


@cache
def driver_launch() -> LaunchKernel | None:
    """The driver's launch function; None if the driver does not give its address."""
    return _driver_function(b"cuLaunchKernelEx", _LAUNCHES)


@cache
def driver_replace() -> LaunchKernel | None:
    """The driver's `cuTensorMapReplaceAddress`: it takes a map and an address and returns the status. None for an older
    driver.
    """
    return _driver_function(b"cuTensorMapReplaceAddress", _REPLACES)


def _driver_function(name: bytes, version: int) -> LaunchKernel | None:
    flags = cu.CUdriverProcAddress_flags
    legacy, per_thread = (
        flags.CU_GET_PROC_ADDRESS_LEGACY_STREAM,
        flags.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
    )
    # The user chooses what stream handle 0 means; cuda-bindings follow that choice in every other call.
    chosen = (
        per_thread if os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("", "0") else legacy
    )
    try:
        status, address, *_ = cu.cuGetProcAddress(name, version, int(chosen))
    except RuntimeError:  # no driver
        return None
    return launch_at(int(address)) if status == SUCCESS and address else None


def launch_at(address: int) -> LaunchKernel:
    """A C function at an address, to be called with existing ctypes objects."""
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)  # no argument types: every argument is a ctypes object


def can_be_prepared(program: Program) -> bool:
    """True if the program's calls need only code of their modules: no textures, no `__constant__` variables, and tensor
    maps only if the driver can replace their addresses.
    """
    arguments = [each for launch in program.launches for each in launch.arguments]
    if any(isinstance(each, TensorMap) for each in arguments) and driver_replace() is None:
        return False
    textures = any(isinstance(each, Texture) for each in arguments)
    return not textures and not any(launch.constants for launch in program.launches)


class PreparedLaunches:
    """A program's launches with the arguments of each call. Threads may launch at the same time, each with its own
    block.

    Args:
        context: the context in which the program is loaded.
        program: a program that `can_be_prepared`.
        brought: operands that a call brings, and buffers with fixed addresses.
        memory: the program's workspaces.
        function_of: finds and checks a kernel, once for each block.
        launch_kernel: the driver's launch function.
    """

    def __init__(
        self,
        context: PrimaryContext,
        program: Program,
        brought: Brought,
        memory: Workspaces,
        function_of: PerKernel,
        launch_kernel: LaunchKernel,
    ) -> None:
        self._context = context
        self._program = program
        self._brought = brought
        self._memory = memory
        self._function_of = function_of
        self._launch_kernel = launch_kernel
        self._free: list[_Block] = []
        """Argument blocks that no thread is using. There are as many as threads have ever launched at the same time."""

    @cached_property
    def _layout(self) -> Layout:
        """Layout of the arguments, made at the first call. A program that does not fit is refused then."""
        return Layout.of(self._program, self._brought, self._memory.block)

    def launch(
        self,
        addresses: tuple[int, ...],
        values: tuple[bytes, ...],
        stream: int | None,
        workspace: Allocation | None = None,
    ) -> None:
        """See `Launches.launch`."""
        if not self._memory.block.nbytes:
            self._queue(addresses, values, stream)
            return
        with self._memory.lent_block(stream, workspace) as scratch:
            self._queue((*addresses, scratch), values, stream)

    def _queue(self, addresses: tuple[int, ...], values: tuple[bytes, ...], stream: int | None) -> None:
        """Launches with the operands' addresses, followed by that of the workspace if there is one."""
        try:
            block = self._free.pop()
        except IndexError:
            block = self._new_block(values)
        if block.addresses != addresses:
            block.write_addresses(addresses)
        if block.values != values:
            block.write_values(values)
        launch_kernel = self._launch_kernel
        for ready in block.on_stream.get(stream) or block.configure(self._program, stream):
            if status := launch_kernel(*ready):
                place = block.on_stream[stream].index(ready)
                self._again(status, self._program.launches[place].entry, ready)
        # The driver has copied the arguments by now. After an error the block is not used again.
        self._free.append(block)

    def native(self, values: tuple[bytes, ...], compiled: ModuleType) -> KernelLauncher | None:
        """See `Launches.native`."""
        layout, contents = self._layout, self._layout.contents(values)
        maps = (sum(each.kind is ArgumentKind.MAP for each in arguments) for arguments in layout.arguments)
        if any(len(each) > compiled.MOST_ARGUMENTS for each in layout.arguments) or max(maps) > compiled.MOST_MAPS:
            return None
        kernels = [
            NativeKernel(
                int(self._function_of(launch, layout.sizes(arguments, contents))),
                launch.grid,
                launch.block,
                launch.shared_bytes,
                arguments,
            )
            for launch, arguments in zip(self._program.launches, layout.arguments, strict=True)
        ]
        address = ctypes.cast(self._launch_kernel, ctypes.c_void_p).value  # type: ignore[arg-type]
        replace = ctypes.cast(driver_replace(), ctypes.c_void_p).value  # type: ignore[arg-type]
        scratch = self._memory.block.nbytes
        launcher: KernelLauncher = compiled.KernelLauncher(address, kernels, layout.contents, scratch, replace or 0)
        return launcher

    def _again(self, status: int, entry: str, ready: _Ready) -> None:
        """Retries the launch in the program's own context if only the current context was wrong. Raises an error for
        any other status.
        """
        doing = f"launch kernel {entry}"
        if STATUS(status) in NOT_CURRENT:
            with self._context.active(doing):
                status = self._launch_kernel(*ready)
        if status:
            raise failure(STATUS(status), doing)

    def _new_block(self, values: tuple[bytes, ...]) -> _Block:
        return _Block(self._program, self._layout, values, self._function_of)


class _Map:
    """A tensor map in its own memory, aligned as the driver requires."""

    __slots__ = ("_memory", "address")

    def __init__(self, content: bytes) -> None:
        self._memory = ctypes.create_string_buffer(len(content) + _MAP_ALIGNMENT)
        self.address = ctypes.addressof(self._memory) + -ctypes.addressof(self._memory) % _MAP_ALIGNMENT
        ctypes.memmove(self.address, content, len(content))

    def move(self, images: int) -> None:
        """Points the map to the images at this address. Raises DeviceError if the driver refuses."""
        replace = driver_replace()
        assert replace is not None  # `can_be_prepared`
        if status := replace(ctypes.c_void_p(self.address), ctypes.c_void_p(images)):
            raise failure(STATUS(status), "move a map of images")


_Ready = tuple[Any, ctypes.c_void_p, Any, ctypes.c_void_p]
"""The four arguments of the driver's launch function."""


class _Block:
    """Arguments of one call: a word for each address, buffers for the bytes, and the tables that point to them."""

    __slots__ = ("_kernels", "_layout", "_maps", "_rooms", "_words", "addresses", "on_stream", "values")

    def __init__(self, program: Program, layout: Layout, values: tuple[bytes, ...], function_of: PerKernel) -> None:
        contents = layout.contents(values)
        self._layout = layout
        self._words = (ctypes.c_uint64 * len(layout.words))()
        self._rooms = [ctypes.create_string_buffer(content, len(content)) for content in contents]
        self._maps: list[tuple[_Map, int]] = []
        kernels = []
        for launch, arguments in zip(program.launches, layout.arguments, strict=True):
            places = [self._place(each) for each in arguments]
            table = (ctypes.c_void_p * max(1, len(places)))(*places)
            function = int(function_of(launch, layout.sizes(arguments, contents)))
            kernels.append((ctypes.c_void_p(function), ctypes.byref(table)))
        self._kernels = kernels
        self.on_stream: dict[int | None, list[_Ready]] = {}
        """Launches by stream handle."""
        self.values = values
        self.addresses: tuple[int, ...] = ()

    def _place(self, argument: PlacedArgument) -> int:
        """Address from which the driver reads an argument. A tensor map is created here."""
        if argument.kind is ArgumentKind.BYTES:
            return ctypes.addressof(self._rooms[argument.place])
        word = self._layout.words.index((argument.place, argument.offset))
        if argument.kind is ArgumentKind.ADDRESS:
            return ctypes.addressof(self._words) + ADDRESS_BYTES * word
        made = _Map(argument.map)
        self._maps.append((made, word))
        return made.address

    def write_addresses(self, addresses: tuple[int, ...]) -> None:
        """Writes the address words and updates the tensor maps. Raises DeviceError."""
        self._words[:] = [addresses[place] + offset for place, offset in self._layout.words]
        for each, word in self._maps:
            each.move(self._words[word])
        self.addresses = addresses

    def write_values(self, values: tuple[bytes, ...]) -> None:
        """Writes the byte arguments. Each has the same size as before."""
        for room, content in zip(self._rooms, self._layout.contents(values), strict=True):
            room.raw = content
        self.values = values

    def configure(self, program: Program, stream: int | None) -> list[_Ready]:
        """Makes and caches the launches for a stream that is not cached yet."""
        if len(self.on_stream) >= _MOST_STREAMS:
            self.on_stream.clear()
        made = [
            (_configuration(launch, stream), function, arguments, ctypes.c_void_p(None))
            for launch, (function, arguments) in zip(program.launches, self._kernels, strict=True)
        ]
        self.on_stream[stream] = made
        return made


def _configuration(launch: Launch, stream: int | None) -> Any:
    """Pointer to the CUlaunchConfig of a launch on a stream."""
    return ctypes.byref(_Configuration(launch.grid, launch.block, launch.shared_bytes, stream or None, None, 0))
