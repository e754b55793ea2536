"""Launches of a whole program whose arguments are written where the driver reads them, at each call.

Measured on an EPYC core over a driver that does nothing: binding a launch takes 11 us, finding a bound one and calling
cuda-bindings 13.5 takes 1.3, and launching here 0.4, of which the call through ctypes is 0.25: it has four
arguments, which are ready ctypes objects.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
from collections.abc import Callable
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cu

from warpsmith.devices.base import Allocation, argument_bytes, given
from warpsmith.devices.cuda.status import NOT_CURRENT, STATUS, SUCCESS, failure
from warpsmith.devices.native import NativeKernel, PlacedArgument
from warpsmith.generator.program import Argument, Launch, Pointer, Program, Texture

if TYPE_CHECKING:
    from warpsmith.devices.cuda.primary_context import PrimaryContext
    from warpsmith.devices.native_calls import KernelLauncher

LaunchKernel = Callable[..., int]
"""`cuLaunchKernelEx` of the driver: configuration, function, arguments, null; its status. Python's lock is given up
meanwhile: the driver waits where its queue is full, perhaps for a host function that is Python's.
"""

PerKernel = Callable[[Launch, list[int]], Any]
"""The driver's function for a launch, given the sizes of its arguments; raises LaunchError where they do not fit."""

_FIRST_VERSION = 11080
"""The CUDA that brought cuLaunchKernelEx."""
_ADDRESS_BYTES = 8
_MOST_STREAMS = 64
"""Streams whose configurations are remembered; a handle that is given to a new stream is as good."""


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
    """The driver's own launch; None where it does not tell its address."""
    flags = cu.CUdriverProcAddress_flags
    legacy, per_thread = (
        flags.CU_GET_PROC_ADDRESS_LEGACY_STREAM,
        flags.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
    )
    # What handle 0 means is the user's choice, which cuda-bindings follow in every other call.
    chosen = (
        per_thread if os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("", "0") else legacy
    )
    try:
        status, address, *_ = cu.cuGetProcAddress(b"cuLaunchKernelEx", _FIRST_VERSION, int(chosen))
    except RuntimeError:  # no driver
        return None
    return launch_at(int(address)) if status == SUCCESS and address else None


def launch_at(address: int) -> LaunchKernel:
    """The function at an address, which has the arguments of `cuLaunchKernelEx`."""
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)  # no types: every argument is a ready ctypes object


def can_be_prepared(program: Program) -> bool:
    """Whether a call of the program needs nothing of its module but code, on addresses just as a call brings them: no
    texture objects, no variables, no offsets.
    """
    arguments = [each for launch in program.launches for each in launch.arguments]
    needs_more = any(isinstance(each, Texture) or (isinstance(each, Pointer) and each.offset) for each in arguments)
    return not needs_more and not any(launch.constants for launch in program.launches)


class PreparedLaunches:
    """A program's launches on whatever each call brings. Threads launch at the same time, each by a block of its own.

    Args:
        context: in which the program is loaded.
        program: one that `can_be_prepared`.
        buffers: names of the operands whose addresses a call brings, in order.
        operands: names of the operands whose bytes it brings, in order.
        function_of: finds and checks a kernel, once for each block.
        launch_kernel: the driver's function.
    """

    def __init__(
        self,
        context: PrimaryContext,
        program: Program,
        buffers: tuple[str, ...],
        operands: tuple[str, ...],
        function_of: PerKernel,
        launch_kernel: LaunchKernel,
    ) -> None:
        self._context = context
        self._program = program
        self._buffers = buffers
        self._operands = operands
        self._function_of = function_of
        self._launch_kernel = launch_kernel
        self._free: list[_Block] = []
        """Blocks that no thread is using; as many as threads have ever launched at the same time."""

    @cached_property
    def _layout(self) -> _Layout:
        """Made at the first call, which is where what does not fit is refused."""
        return _Layout.of(self._program, self._buffers, self._operands)

    def launch(
        self,
        addresses: tuple[int, ...],
        values: tuple[bytes, ...],
        stream: int | None,
        workspace: Allocation | None = None,  # noqa: ARG002 - there is none
    ) -> None:
        """As `Launches.launch`."""
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
        # The driver has copied the arguments by now. After an error the block is simply not used again.
        self._free.append(block)

    def native(self, values: tuple[bytes, ...], compiled: ModuleType) -> KernelLauncher | None:
        """As `Launches.native`."""
        layout, contents = self._layout, self._layout.contents(values)
        if any(len(each) > compiled.MOST_ARGUMENTS for each in layout.arguments):
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
        launcher: KernelLauncher = compiled.KernelLauncher(address, kernels, layout.contents)
        return launcher

    def _again(self, status: int, entry: str, ready: _Ready) -> None:
        """Launches in the program's own context, where only that was wrong. Raises what the driver's answer means."""
        doing = f"launch kernel {entry}"
        if STATUS(status) in NOT_CURRENT:
            with self._context.active(doing):
                status = self._launch_kernel(*ready)
        if status:
            raise failure(STATUS(status), doing)

    def _new_block(self, values: tuple[bytes, ...]) -> _Block:
        return _Block(self._program, self._layout, values, self._function_of)


@dataclasses.dataclass(frozen=True, slots=True)
class _Layout:
    """Where each launch of a program finds its arguments."""

    arguments: tuple[tuple[PlacedArgument, ...], ...]
    """Of each launch, in order."""
    taken: tuple[tuple[Launch, Argument], ...]
    """What some launch takes as bytes."""
    buffers: tuple[str, ...]
    operands: tuple[str, ...]

    @classmethod
    def of(cls, program: Program, buffers: tuple[str, ...], operands: tuple[str, ...]) -> _Layout:
        words = {name: place for place, name in enumerate(buffers)}
        taken: list[tuple[Launch, Argument]] = []

        def placed(launch: Launch, argument: Argument) -> PlacedArgument:
            if isinstance(argument, Pointer):
                return PlacedArgument(True, given(launch, argument.buffer, words))
            taken.append((launch, argument))
            return PlacedArgument(False, len(taken) - 1)

        arguments = tuple(tuple(placed(launch, each) for each in launch.arguments) for launch in program.launches)
        return cls(arguments, tuple(taken), buffers, operands)

    def contents(self, values: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """What launches take as bytes, of the values that a call brings."""
        of_call = dict(zip(self.operands, values, strict=True))
        return tuple(argument_bytes(launch, argument, {}, of_call, {}) for launch, argument in self.taken)

    @staticmethod
    def sizes(arguments: tuple[PlacedArgument, ...], contents: tuple[bytes, ...]) -> list[int]:
        """The bytes of a launch's arguments."""
        return [_ADDRESS_BYTES if each.is_address else len(contents[each.place]) for each in arguments]


_Ready = tuple[Any, ctypes.c_void_p, Any, ctypes.c_void_p]
"""What the driver's function is given."""


class _Block:
    """The arguments of one call: a word for each address, room for the bytes, and the tables that point to them."""

    __slots__ = ("_kernels", "_layout", "_rooms", "_words", "addresses", "on_stream", "values")

    def __init__(self, program: Program, layout: _Layout, values: tuple[bytes, ...], function_of: PerKernel) -> None:
        contents = layout.contents(values)
        self._layout = layout
        self._words = (ctypes.c_uint64 * len(layout.buffers))()
        self._rooms = [ctypes.create_string_buffer(content, len(content)) for content in contents]
        first = ctypes.addressof(self._words)
        kernels = []
        for launch, arguments in zip(program.launches, layout.arguments, strict=True):
            places = [
                first + _ADDRESS_BYTES * each.place if each.is_address else ctypes.addressof(self._rooms[each.place])
                for each in arguments
            ]
            table = (ctypes.c_void_p * max(1, len(places)))(*places)
            function = int(function_of(launch, layout.sizes(arguments, contents)))
            kernels.append((ctypes.c_void_p(function), ctypes.byref(table)))
        self._kernels = kernels
        self.on_stream: dict[int | None, list[_Ready]] = {}
        """The launches by their stream."""
        self.values = values
        self.addresses: tuple[int, ...] = ()

    def write_addresses(self, addresses: tuple[int, ...]) -> None:
        """Sets the words of the operands."""
        self._words[:] = list(addresses)
        self.addresses = addresses

    def write_values(self, values: tuple[bytes, ...]) -> None:
        """Sets the bytes, each operand's as long as before."""
        for room, content in zip(self._rooms, self._layout.contents(values), strict=True):
            room.raw = content
        self.values = values

    def configure(self, program: Program, stream: int | None) -> list[_Ready]:
        """The launches on a stream that the block does not know."""
        if len(self.on_stream) >= _MOST_STREAMS:
            self.on_stream.clear()
        made = [
            (_configuration(launch, stream), function, arguments, ctypes.c_void_p(None))
            for launch, (function, arguments) in zip(program.launches, self._kernels, strict=True)
        ]
        self.on_stream[stream] = made
        return made


def _configuration(launch: Launch, stream: int | None) -> Any:
    """What the driver takes by its address."""
    return ctypes.byref(_Configuration(launch.grid, launch.block, launch.shared_bytes, stream or None, None, 0))
