"""Selects how a loaded program is launched, and binds its steps for each call if no compiled code can launch it.

Several programs may share workspaces: one program writes kept workspaces and the others read them, per stream.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from warpsmith.devices.executable import Executable
from warpsmith.devices.module import Allocation, BoundLaunch, CallArguments, Launches
from warpsmith.devices.process import ForkLock
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.workspaces import Block, KeptWorkspaces, Workspaces
from warpsmith.errors import BadArgument
from warpsmith.generator.steps import Lifetime, Workspace

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

    Calls use the memory of their stream, which all programs share, unless a call passes its own. Steps are bound anew
    for memory that has moved. The arguments are those of `launches_of`.
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


SCRATCH = "scratch"
"""Name of the workspace for one call of any of the programs."""


class StreamWorkspaces(NamedTuple):
    """The workspaces of one stream."""

    kept: Mapping[str, int]
    """Address of each kept workspace, by name."""
    scratch: int
    """Address of the memory that belongs to one call."""
    made: set[str]
    """Names of the kept workspaces whose contents are valid."""


class SharedWorkspaces:
    """The workspaces of several programs: one KEPT workspace for each name, and one block for a call's own memory.

    Each stream and each capture of a graph has its own copy, so that none needs to wait. Other programs never get it.

    Args:
        runtime: the device.
        executables: the loaded programs.
    """

    def __init__(self, runtime: Runtime, executables: tuple[Executable, ...]) -> None:
        kept: dict[str, int] = {}
        for each in (workspace for executable in executables for workspace in executable.workspaces):
            if each.lifetime is Lifetime.KEPT and kept.setdefault(each.name, each.nbytes) != each.nbytes:
                raise ValueError(f"programs that share {each.name} disagree on its size")
        shared = tuple(Workspace(name, nbytes) for name, nbytes in kept.items())
        scratch = max(executable.workspace_bytes for executable in executables)
        self._memory = Workspaces(runtime, (*shared, Workspace(SCRATCH, scratch)), is_private=True)
        self.nbytes = Block.of(shared, Lifetime.CALL).nbytes + scratch
        """Bytes that one stream takes."""

    @contextlib.contextmanager
    def borrow(self, stream: int | None) -> Iterator[StreamWorkspaces]:
        """Lends the workspaces to steps that are queued on `stream` inside this context. Raises OutOfMemory."""
        with self._memory.borrow_made(stream) as (addresses, made):
            kept = dict(addresses)
            yield StreamWorkspaces(kept, kept.pop(SCRATCH), made)

    def close(self) -> None:
        """Frees everything, once the device has finished the queued work."""
        self._memory.close()


class SharedLaunches(BoundLaunches):
    """The steps of one of several programs that share workspaces.

    Args:
        executable: the program.
        runtime: the device.
        arguments: arguments of a call; the workspaces of `memory` are its kept ones.
        memory: workspaces of all the programs.
        needs: kept workspaces that other programs must have written, each with the error message if they have not.
        makes: kept workspaces that this program writes.
        outdates: kept workspaces that are no longer valid once it runs.
    """

    def __init__(
        self,
        executable: Executable,
        runtime: Runtime,
        arguments: CallArguments,
        memory: SharedWorkspaces,
        needs: Mapping[str, str],
        makes: frozenset[str],
        outdates: frozenset[str],
    ) -> None:
        super().__init__(executable, runtime, dataclasses.replace(arguments, kept={}))
        self._memory, self._needs = memory, needs
        self._makes, self._outdates = makes, outdates
        self._own = Block.of(executable.workspaces, Lifetime.CALL)

    def launch(
        self,
        addresses: tuple[int, ...],
        values: tuple[bytes, ...],
        stream: int | None,
        workspace: Allocation | None = None,
    ) -> None:
        """See `Launches.launch`. Raises BadArgument if a needed workspace was not written on this stream."""
        if workspace is not None:
            raise BadArgument("workspace: these programs share memory of their own")
        with self._memory.borrow(stream) as borrowed:
            for name, message in self._needs.items():
                if name not in borrowed.made:
                    raise BadArgument(message)
            # The contents are invalid while they are written, and stay so if a launch fails.
            borrowed.made.difference_update(self._makes, self._outdates)
            self._bound_to(addresses, values, {**borrowed.kept, **self._own.at(borrowed.scratch)})(stream)
            borrowed.made.update(self._makes)
