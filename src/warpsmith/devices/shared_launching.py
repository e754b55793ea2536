"""Several programs on one memory: what one of them leaves in kept workspaces the others read, stream by stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from warpsmith.devices.base import Allocation, Runtime
from warpsmith.devices.executable import Executable
from warpsmith.devices.launching import BoundLaunches
from warpsmith.devices.workspaces import Block, Kept, Workspaces
from warpsmith.errors import BadArgument
from warpsmith.generator.steps import Lifetime, Workspace

SCRATCH = "scratch"
"""The memory of a call, whichever of the programs it is of."""


class Lent(NamedTuple):
    """The memory of a stream."""

    kept: Mapping[str, int]
    """The address of each kept workspace, by name."""
    scratch: int
    """The address of what belongs to the call alone."""
    made: set[str]
    """Names of the kept workspaces whose contents are good."""


class SharedWorkspaces:
    """The workspaces of several programs: of those that are KEPT one of each name, and room for one call beside them.

    Each stream has its own, and so has each capture of a graph, as `Workspaces` has them: none needs to wait.

    Args:
        runtime: the device.
        executables: the programs, loaded.
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
        """What a stream takes."""

    @contextlib.contextmanager
    def lent(self, stream: int | None) -> Iterator[Lent]:
        """The memory for steps that are queued on `stream` within this context. Raises OutOfMemory."""
        with self._memory.shared(stream) as (addresses, made):
            kept = dict(addresses)
            yield Lent(kept, kept.pop(SCRATCH), made)

    def close(self) -> None:
        """Gives everything back, once the device has done what was queued."""
        self._memory.close()


class SharedLaunches(BoundLaunches):
    """The steps of one of several programs that share workspaces.

    Args:
        executable: the program.
        runtime: the device.
        buffers: names of the operands whose addresses a call brings, in order.
        operands: names of the operands whose bytes it brings, in order.
        memory: of all the programs.
        needs: kept workspaces that others must have made, each with the line that says so.
        makes: those that this program makes.
        outdates: those that are no longer good once it runs.
    """

    def __init__(
        self,
        executable: Executable,
        runtime: Runtime,
        buffers: tuple[str, ...],
        operands: tuple[str, ...],
        memory: SharedWorkspaces,
        needs: Mapping[str, str],
        makes: frozenset[str],
        outdates: frozenset[str],
    ) -> None:
        super().__init__(executable, runtime, buffers, operands, Kept({}, None))
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
        """As `Launches.launch`. Raises BadArgument where something that is needed was not made on this stream."""
        if workspace is not None:
            raise BadArgument("workspace: these programs share memory of their own")
        with self._memory.lent(stream) as lent:
            for name, told in self._needs.items():
                if name not in lent.made:
                    raise BadArgument(told)
            # While they are written, and where a launch fails, their contents are no good.
            lent.made.difference_update(self._makes, self._outdates)
            self._on(addresses, values, {**lent.kept, **self._own.at(lent.scratch)})(stream)
            lent.made.update(self._makes)
