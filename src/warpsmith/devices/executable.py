"""Programs loaded on a device: their units and library calls, and all steps bound to memory as one call."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from warpsmith.devices.compiler import Binaries
from warpsmith.devices.module import BoundLaunch, CallArguments, Launches, LoadedCall, Module
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.workspaces import Block
from warpsmith.errors import LaunchError
from warpsmith.generator.program import Program
from warpsmith.generator.steps import Launch, LibraryCall, Lifetime, Step, Workspace

_SCRATCH = "library scratch"
"""Name of the libraries' workspace. No program's own workspace has it, because those names are identifiers."""


class Executable:
    """One program on one device, ready to be bound to memory. `load` makes it.

    Threads may bind and call at the same time; calls that overlap need CALL workspaces of their own.
    """

    def __init__(
        self, program: Program, modules: dict[str, Module], calls: dict[int, LoadedCall], opened: contextlib.ExitStack
    ) -> None:
        self.program = program
        self._modules, self._calls, self._opened = modules, calls, opened
        most = max((each.workspace_bytes for each in calls.values()), default=0)
        scratch = (Workspace(_SCRATCH, most),) if most else ()
        self.workspaces: tuple[Workspace, ...] = (*program.workspaces, *scratch)
        """The program's workspaces, and one that its libraries use one after the other. Only the device's library knows
        its size.
        """

    @classmethod
    def load(cls, runtime: Runtime, program: Program, binaries: Binaries) -> Executable:
        """Loads each unit separately, and prepares each library call.

        Args:
            runtime: the device.
            program: the program to load.
            binaries: binary of each unit, by unit name.

        Raises:
            LaunchError: a unit without a binary, one that does not fit the device, or a library that is missing or
                refuses its call.
            OutOfMemory: the device memory of a library does not fit.
        """
        if missing := [unit.name for unit in program.units if unit.name not in binaries]:
            raise LaunchError(f"a program of {program.family} has no binary of its unit {missing[0]!r}")
        with contextlib.ExitStack() as opened:
            modules, calls = {}, {}
            for unit in program.units:
                modules[unit.name] = runtime.load(binaries[unit.name])
                opened.callback(modules[unit.name].close)
            for place, step in enumerate(program.steps):
                if isinstance(step, LibraryCall):
                    calls[place] = runtime.library(step.library).load(step)
                    opened.callback(calls[place].close)
            return cls(program, modules, calls, opened.pop_all())

    def part(self, program: Program) -> Executable:
        """A program of some of this one's steps, on the modules and library calls loaded here. They stay open as long
        as this executable does.
        """
        calls = {
            place: self._calls[self.program.steps.index(step)]
            for place, step in enumerate(program.steps)
            if isinstance(step, LibraryCall)
        }
        modules = {unit.name: self._modules[unit.name] for unit in program.units}
        return Executable(program, modules, calls, contextlib.ExitStack())

    @property
    def workspace_bytes(self) -> int:
        """Bytes that one call needs for its CALL workspaces, in one block (`workspaces.Block`)."""
        return Block.of(self.workspaces, Lifetime.CALL).nbytes

    def bind(
        self, addresses: Mapping[str, int], values: Mapping[str, bytes], workspaces: Mapping[str, int]
    ) -> BoundLaunch:
        """Fixes the arguments of all steps, to be called on a stream. It does not keep the memory alive.

        Args:
            addresses: device address of every operand that some step points to.
            values: bytes of every operand that some launch takes by value or in a `__constant__` variable.
            workspaces: device address of each of `workspaces`. KEPT ones must not be shared with other calls.

        Returns:
            A function that queues the steps, in order, on the stream that it receives (None: the default one), and does
            not wait.

        Raises:
            LaunchError: a missing buffer, kernel or variable, or a geometry that the device refuses.
        """
        memory = {**addresses, **workspaces}
        bound = [self._bound(place, step, memory, values) for place, step in enumerate(self.program.steps)]
        return bound[0] if len(bound) == 1 else _InOrder(tuple(bound))

    def compiled_launches(self, runtime: Runtime, arguments: CallArguments) -> Launches | None:
        """The launches by compiled code; see `Runtime.compiled_launches`.

        None for programs with library calls, or with KEPT workspaces of their own, which `bind` fixes for each call.
        """
        shared = arguments.kept or {}
        own = [each for each in self.workspaces if each.lifetime is Lifetime.KEPT and each.name not in shared]
        if own or self._calls:
            return None
        return runtime.compiled_launches(self.program, self._modules, arguments, self.workspaces)

    def _bound(self, place: int, step: Step, addresses: Mapping[str, int], values: Mapping[str, bytes]) -> BoundLaunch:
        if isinstance(step, Launch):
            return self._modules[step.unit].bind(step, addresses, values)
        return self._calls[place].bind(addresses, addresses.get(_SCRATCH, 0))

    def close(self) -> None:
        """Unloads it. Bound launches must no longer be called."""
        self._opened.close()


class _InOrder:
    """Several steps as one call."""

    __slots__ = ("_steps",)

    def __init__(self, steps: tuple[BoundLaunch, ...]) -> None:
        self._steps = steps

    def __call__(self, stream: int | None) -> None:
        for step in self._steps:
            step(stream)
