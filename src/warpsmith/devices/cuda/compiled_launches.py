"""Launches of a whole program by compiled code, which writes each call's arguments on the stack of its thread.

Programs with textures or `__constant__` variables are bound for each call instead (`BoundLaunches`), because each
address needs an object of the driver, or each content a copy.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from functools import cache, cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver as cu

from warpsmith.devices.cuda.descriptors import MAP_BYTES, tensor_map_bytes
from warpsmith.devices.cuda.driver import can_begin_early
from warpsmith.devices.cuda.status import NOT_CURRENT, STATUS, SUCCESS, failure
from warpsmith.devices.module import Allocation, CallArguments, argument_bytes, required
from warpsmith.devices.native import ArgumentKind, ArgumentSource, NativeKernel
from warpsmith.devices.workspaces import Block, Workspaces
from warpsmith.generator.program import Argument, Launch, Pointer, Program, TensorMap, Texture

if TYPE_CHECKING:
    from warpsmith.devices.cuda.primary_context import PrimaryContext
    from warpsmith.devices.native_calls import KernelLauncher

FunctionOf = Callable[[Launch, list[int]], Any]
"""Finds the driver's function for a launch, given the sizes of its arguments in bytes. Raises LaunchError if they do
not fit.
"""

LAUNCH = b"cuLaunchKernelEx", 11080
"""The driver's function that launches a kernel, and the first CUDA version that has it."""
REPLACE_ADDRESS = b"cuTensorMapReplaceAddress", 12000
ANY_ADDRESS = 1 << 20
"""Address from which a tensor map is encoded until a call passes one."""
ADDRESS_BYTES = 8
_SIZES = {ArgumentKind.ADDRESS: ADDRESS_BYTES, ArgumentKind.MAP: MAP_BYTES}


@cache
def driver_function(name: bytes, version: int) -> int:
    """Address of a function of the driver; 0 if there is none."""
    flags = cu.CUdriverProcAddress_flags
    # The user chooses what stream handle 0 means; cuda-bindings follow that choice in every other call.
    is_per_thread = os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("", "0")
    flag = (
        flags.CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
        if is_per_thread
        else flags.CU_GET_PROC_ADDRESS_LEGACY_STREAM
    )
    try:
        status, address, *_ = cu.cuGetProcAddress(name, version, int(flag))
    except RuntimeError:  # no driver
        return 0
    return int(address) if status == SUCCESS and address else 0


def can_launch(program: Program, arguments: CallArguments, compiled: ModuleType) -> bool:
    """True if compiled code can launch a program: its launches need only code of their modules and no more arguments
    than the code has room for.
    """
    if not driver_function(*LAUNCH) or len(arguments.buffers) + 1 > compiled.MOST_ARGUMENTS:  # and a workspace
        return False
    for launch in program.launches:
        maps = sum(isinstance(each, TensorMap) for each in launch.arguments)
        if launch.constants or any(isinstance(each, Texture) for each in launch.arguments):
            return False
        if len(launch.arguments) > compiled.MOST_ARGUMENTS or maps > compiled.MOST_MAPS:
            return False
        if maps and not driver_function(*REPLACE_ADDRESS):
            return False
    return True


class CompiledLaunches:
    """A program's launches by `native_calls.KernelLauncher`. Threads may launch at the same time.

    Args:
        context: the context in which the program is loaded.
        program: a program that `can_launch` accepts.
        arguments: arguments of a call.
        memory: the program's workspaces.
        function_of: finds and checks a kernel.
        compiled: the module `native_calls`.
        launch_kernel: address of the driver's launch function.
    """

    def __init__(
        self,
        context: PrimaryContext,
        program: Program,
        arguments: CallArguments,
        memory: Workspaces,
        function_of: FunctionOf,
        compiled: ModuleType,
        launch_kernel: int,
    ) -> None:
        self._context = context
        self._program = program
        self._arguments = arguments
        self._memory = memory
        self._function_of = function_of
        self._compiled = compiled
        self._launch_kernel = launch_kernel
        self._launcher: KernelLauncher | None = None
        """The compiled code, made by the first call. A program that does not fit is refused then."""

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
        with self._memory.borrow_block(stream, workspace) as scratch:
            self._queue((*addresses, scratch), values, stream)

    def launcher(self, values: tuple[bytes, ...]) -> KernelLauncher:
        """See `Launches.launcher`."""
        if self._launcher is None:
            self._launcher = self._new_launcher(values)
        return self._launcher

    def _queue(self, addresses: tuple[int, ...], values: tuple[bytes, ...], stream: int | None) -> None:
        """Launches with the operands' addresses, followed by that of the workspace if there is one."""
        launcher = self._launcher or self.launcher(values)
        refused = launcher.queue(addresses, values, stream or 0, 0)
        if refused is None:
            return
        status, number = refused
        doing = f"launch kernel {self._program.launches[number].entry}"
        if STATUS(status) in NOT_CURRENT:  # the thread's current context is another one, or none
            with self._context.active(doing):
                refused = launcher.queue(addresses, values, stream or 0, number)
        if refused is not None:
            status, number = refused
            raise failure(STATUS(status), f"launch kernel {self._program.launches[number].entry}")

    @cached_property
    def _sources(self) -> _Sources:
        return _Sources.of(self._program, self._arguments, self._memory.block)

    def _new_launcher(self, values: tuple[bytes, ...]) -> KernelLauncher:
        sources = self._sources
        contents = sources.contents(values)
        kernels = [
            NativeKernel(
                int(self._function_of(launch, _sizes(arguments, contents))),
                launch.grid,
                launch.block,
                launch.shared_bytes,
                arguments,
                launch.begins_early and can_begin_early(),
            )
            for launch, arguments in zip(self._program.launches, sources.arguments, strict=True)
        ]
        scratch, replace = self._memory.block.nbytes, driver_function(*REPLACE_ADDRESS)
        made: KernelLauncher = self._compiled.KernelLauncher(
            self._launch_kernel, kernels, sources.contents, scratch, replace
        )
        return made


@dataclasses.dataclass(frozen=True, slots=True)
class _Sources:
    """Source of each argument of a program: an address that a call passes plus an offset, or bytes."""

    arguments: tuple[tuple[ArgumentSource, ...], ...]
    """The arguments of each launch, in order."""
    in_bytes: tuple[tuple[Launch, Argument], ...]
    """The arguments that launches take as bytes."""
    of_call: CallArguments

    @classmethod
    def of(cls, program: Program, of_call: CallArguments, scratch: Block) -> _Sources:
        """Finds the sources.

        Args:
            program: a program whose launches take no textures.
            of_call: arguments of a call.
            scratch: the CALL workspaces, whose address comes after those of `of_call`.

        Raises LaunchError if a launch takes a buffer that is none of these.
        """
        places = {name: (place, 0) for place, name in enumerate(of_call.buffers)}
        places |= {name: (len(of_call.buffers), offset) for name, offset in scratch.offsets.items()}
        in_bytes: list[tuple[Launch, Argument]] = []

        def source(launch: Launch, argument: Argument) -> ArgumentSource:
            if isinstance(argument, Pointer | TensorMap) and argument.buffer not in (of_call.kept or {}):
                place, start = required(launch, argument.buffer, places)
                if isinstance(argument, TensorMap):
                    return ArgumentSource(ArgumentKind.MAP, place, start, tensor_map_bytes(argument, ANY_ADDRESS))
                return ArgumentSource(ArgumentKind.ADDRESS, place, start + argument.offset)
            in_bytes.append((launch, argument))
            return ArgumentSource(ArgumentKind.BYTES, len(in_bytes) - 1)

        arguments = tuple(tuple(source(launch, each) for each in launch.arguments) for launch in program.launches)
        return cls(arguments, tuple(in_bytes), of_call)

    def contents(self, values: tuple[bytes, ...]) -> tuple[bytes, ...]:
        """Bytes of each argument of `in_bytes`, from the values that a call passes."""
        operands = dict(zip(self.of_call.values, values, strict=True))
        kept = self.of_call.kept or {}
        return tuple(
            argument_bytes(launch, argument, kept, operands, {}, tensor_map_bytes) for launch, argument in self.in_bytes
        )


def _sizes(arguments: tuple[ArgumentSource, ...], contents: tuple[bytes, ...]) -> list[int]:
    """Bytes of each argument of a launch."""
    return [_SIZES.get(each.kind) or len(contents[each.place]) for each in arguments]
