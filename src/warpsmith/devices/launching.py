"""From a loaded program to its launches on the arguments of one call after another."""

from __future__ import annotations

from collections.abc import Mapping

from warpsmith.devices.base import BoundLaunch, Launches, Module
from warpsmith.devices.process import ForkLock
from warpsmith.generator.program import Program

MOST_BOUND = 16
"""Calls whose bound launches are remembered."""


def launches_of(
    module: Module,
    program: Program,
    buffers: tuple[str, ...],
    operands: tuple[str, ...],
    workspaces: Mapping[str, int],
) -> Launches:
    """The program's launches by the quickest way that the device has. The arguments are those of `Module.prepared`."""
    prepared = module.prepared(program, buffers, operands, workspaces)
    return BoundLaunches(module, program, buffers, operands, workspaces) if prepared is None else prepared


class BoundLaunches:
    """Launches that are bound for each call, and remembered for the latest ones; the arguments are those of `prepared`.

    It keeps no array alive.
    """

    def __init__(
        self,
        module: Module,
        program: Program,
        buffers: tuple[str, ...],
        operands: tuple[str, ...],
        workspaces: Mapping[str, int],
    ) -> None:
        self._module = module
        self._program = program
        self._buffers = buffers
        self._operands = operands
        self._workspaces = workspaces
        self._bound: dict[tuple[tuple[int, ...], tuple[bytes, ...]], list[BoundLaunch]] = {}  # the latest used last
        self._binding = ForkLock()

    def launch(self, addresses: tuple[int, ...], values: tuple[bytes, ...], stream: int | None) -> None:
        """As `Launches.launch`."""
        for launch in self._on(addresses, values):
            launch(stream)

    def _on(self, addresses: tuple[int, ...], values: tuple[bytes, ...]) -> list[BoundLaunch]:
        """The launches on these arguments, from an earlier call where there was one."""
        key = (addresses, values)
        with self._binding:
            bound = self._bound.pop(key, None)
            if bound is None:
                bound = self._new(addresses, values)
            self._bound[key] = bound
            if len(self._bound) > MOST_BOUND:
                del self._bound[next(iter(self._bound))]
            return bound

    def _new(self, addresses: tuple[int, ...], values: tuple[bytes, ...]) -> list[BoundLaunch]:
        at = dict(zip(self._buffers, addresses, strict=True)) | dict(self._workspaces)
        taken = dict(zip(self._operands, values, strict=True))
        return [self._module.bind(launch, at, taken) for launch in self._program.launches]
