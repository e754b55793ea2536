"""Several programs that share workspaces: one program writes kept workspaces and the others read them, per stream."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from warpsmith.devices.base import Allocation, CallArguments, Runtime
from warpsmith.devices.executable import Executable
from warpsmith.devices.launches import BoundLaunches
from warpsmith.devices.workspaces import Block, Workspaces
from warpsmith.errors import BadArgument
from warpsmith.generator.steps import Lifetime, Workspace

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

    Each stream and each capture of a graph has its own copy, as in `Workspaces`, so that none needs to wait.

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
        self._memory = Workspaces(runtime, (*shared, Workspace(SCRATCH, scratch)))
        self.nbytes = Block.of(shared, Lifetime.CALL).nbytes + scratch
        """Bytes that one stream takes."""

    @contextlib.contextmanager
    def borrow(self, stream: int | None) -> Iterator[StreamWorkspaces]:
        """Lends the workspaces to steps that are queued on `stream` inside this context. Raises OutOfMemory."""
        with self._memory.borrow_shared(stream) as (addresses, made):
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
            for name, told in self._needs.items():
                if name not in borrowed.made:
                    raise BadArgument(told)
            # The contents are invalid while they are written, and stay so if a launch fails.
            borrowed.made.difference_update(self._makes, self._outdates)
            self._bound_to(addresses, values, {**borrowed.kept, **self._own.at(borrowed.scratch)})(stream)
            borrowed.made.update(self._makes)
