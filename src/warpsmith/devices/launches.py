"""Selects how a loaded program is launched, and binds its steps for each call if no compiled code can launch it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from warpsmith.devices.base import Allocation, BoundLaunch, CallArguments, Launches, Runtime
from warpsmith.devices.executable import Executable
from warpsmith.devices.process import ForkLock
from warpsmith.devices.workspaces import KeptWorkspaces, Workspaces

if TYPE_CHECKING:
    from warpsmith.devices.native_calls import KernelLauncher

MOST_BOUND = 16
"""Calls whose bound steps are cached."""


def launches_of(executable: Executable, runtime: Runtime, arguments: CallArguments) -> Launches:
    """The launches of a loaded program: by compiled code if the device has it, else bound for each call."""
    compiled = executable.compiled_launches(runtime, arguments)
    return BoundLaunches(executable, runtime, arguments) if compiled is None else compiled


@dataclasses.dataclass(frozen=True, slots=True)
class _BoundCall:
    call: BoundLaunch
    kept: KeptWorkspaces


class BoundLaunches:
    """Steps that are bound for each call, and cached for the latest calls. It keeps no array alive.

    There is one set of workspaces for each stream, unless a call passes its own. The arguments are those of
    `launches_of`.
    """

    def __init__(self, executable: Executable, runtime: Runtime, arguments: CallArguments) -> None:
        self._executable = executable
        self._arguments = arguments
        self._workspaces = Workspaces(runtime, executable.workspaces)
        self._bound: dict[tuple[tuple[int, ...], tuple[bytes, ...]], _BoundCall] = {}  # the most recently used is last
        self._binding = ForkLock()

    def launch(
        self,
        addresses: tuple[int, ...],
        values: tuple[bytes, ...],
        stream: int | None,
        workspace: Allocation | None = None,
    ) -> None:
        """See `Launches.launch`."""
        with self._workspaces.borrow(stream, workspace) as scratch:
            self._bound_to(addresses, values, scratch)(stream)

    def launcher(self, values: tuple[bytes, ...]) -> KernelLauncher | None:  # noqa: ARG002
        """None, because bound steps may need more than kernels."""
        return None

    def _bound_to(
        self, addresses: tuple[int, ...], values: tuple[bytes, ...], scratch: Mapping[str, int]
    ) -> BoundLaunch:
        """The steps bound to these arguments, from the cache if an earlier call had the same ones."""
        key = ((*addresses, *scratch.values()), values)
        with self._binding:
            bound = self._bound.pop(key, None)
            if bound is None:
                bound = self._bind(addresses, values, scratch)
            self._bound[key] = bound
            if len(self._bound) > MOST_BOUND:
                self._workspaces.release(self._bound.pop(next(iter(self._bound))).kept)
            return bound.call

    def _bind(self, addresses: tuple[int, ...], values: tuple[bytes, ...], scratch: Mapping[str, int]) -> _BoundCall:
        names = self._arguments
        operands = dict(zip(names.buffers, addresses, strict=True))
        contents = dict(zip(names.values, values, strict=True))
        kept = self._workspaces.allocate_kept() if names.kept is None else KeptWorkspaces(names.kept, None)
        return _BoundCall(self._executable.bind(operands, contents, {**scratch, **kept.addresses}), kept)
