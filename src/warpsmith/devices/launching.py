"""Runs a loaded program's steps with the arguments of one call after another."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from warpsmith.devices.base import Allocation, BoundLaunch, Runtime
from warpsmith.devices.executable import Executable
from warpsmith.devices.launches import Brought, Launches
from warpsmith.devices.process import ForkLock
from warpsmith.devices.workspaces import Kept, Workspaces

if TYPE_CHECKING:
    from warpsmith.devices.native_calls import KernelLauncher

MOST_BOUND = 16
"""Calls whose bound steps are cached."""


def launches_of(
    executable: Executable,
    runtime: Runtime,
    buffers: tuple[str, ...],
    operands: tuple[str, ...],
    kept: Kept | None = None,
) -> Launches:
    """The program's steps in the fastest way that the device offers.

    Args:
        executable: the loaded program.
        runtime: the device.
        buffers: names of the operands whose addresses a call brings, in order.
        operands: names of the operands whose bytes it brings, in order.
        kept: KEPT workspaces that all calls share, because none writes to them.
    """
    brought = Brought(buffers, operands, {} if kept is None else kept.addresses)
    prepared = executable.prepared(runtime, brought)
    return BoundLaunches(executable, runtime, buffers, operands, kept) if prepared is None else prepared


@dataclasses.dataclass(frozen=True, slots=True)
class _Bound:
    call: BoundLaunch
    kept: Kept


class BoundLaunches:
    """Steps that are bound for each call, and cached for the latest ones. It keeps no array alive.

    There is one set of workspaces for each stream, unless a call brings its own. The arguments are those of
    `launches_of`.
    """

    def __init__(
        self,
        executable: Executable,
        runtime: Runtime,
        buffers: tuple[str, ...],
        operands: tuple[str, ...],
        kept: Kept | None = None,
    ) -> None:
        self._executable = executable
        self._kept = kept
        self._workspaces = Workspaces(runtime, executable.workspaces)
        self._buffers = buffers
        self._operands = operands
        self._bound: dict[tuple[tuple[int, ...], tuple[bytes, ...]], _Bound] = {}  # the most recently used is last
        self._binding = ForkLock()

    def launch(
        self,
        addresses: tuple[int, ...],
        values: tuple[bytes, ...],
        stream: int | None,
        workspace: Allocation | None = None,
    ) -> None:
        """See `Launches.launch`."""
        with self._workspaces.lent(stream, workspace) as scratch:
            self._on(addresses, values, scratch)(stream)

    def native(self, values: tuple[bytes, ...], compiled: ModuleType) -> KernelLauncher | None:  # noqa: ARG002
        """None, because bound steps may need more than kernels."""
        return None

    def _on(self, addresses: tuple[int, ...], values: tuple[bytes, ...], scratch: Mapping[str, int]) -> BoundLaunch:
        """The steps bound to these arguments, from the cache if an earlier call had the same ones."""
        key = ((*addresses, *scratch.values()), values)
        with self._binding:
            bound = self._bound.pop(key, None)
            if bound is None:
                bound = self._new(addresses, values, scratch)
            self._bound[key] = bound
            if len(self._bound) > MOST_BOUND:
                oldest = self._bound.pop(next(iter(self._bound)))
                if self._kept is None:
                    self._workspaces.let_go(oldest.kept)
            return bound.call

    def _new(self, addresses: tuple[int, ...], values: tuple[bytes, ...], scratch: Mapping[str, int]) -> _Bound:
        at = dict(zip(self._buffers, addresses, strict=True))
        taken = dict(zip(self._operands, values, strict=True))
        kept = self._workspaces.kept() if self._kept is None else self._kept
        return _Bound(self._executable.bind(at, taken, {**scratch, **kept.addresses}), kept)
