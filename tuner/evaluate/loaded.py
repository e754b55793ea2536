"""A candidate on the device, with workspaces in which it can find nothing of any other."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from warpsmith.devices.base import Runtime
from warpsmith.devices.binary import Binaries
from warpsmith.devices.executable import Executable
from warpsmith.errors import DeviceError, OutOfMemory
from warpsmith.generator.problem import DType, Operand, Role
from warpsmith.generator.program import Program
from warpsmith.generator.steps import Lifetime, Workspace
from warpsmith.store.record import Failure, FailureKind
from warpsmith.tuner.evaluate.buffers import POISON, GuardedBuffer
from warpsmith.tuner.evaluate.dataset import Dataset
from warpsmith.tuner.evaluate.timing import Work

_ALTERNATING = (POISON, 0x00)


class LoadedCandidate:
    """A loaded program, and workspaces between guards that are poison before each run that is verified.

    As results are, so that what a step reads before one has written it shows in the result: as a float it is NaN. Among
    integers every value is one, so where a result of integers is verified in two runs the second finds zeros.

    KEPT workspaces are poison before the first run alone; each set of buffers has its own.

    Args:
        runtime: the device.
        program: the candidate.
        binaries: of its units, by name.
        guard_bytes: on each side of a workspace.
        most_bytes: that its workspaces may have together, those of libraries among them; None for any number.

    Raises:
        LaunchError: it does not load.
        OutOfMemory: its workspaces do not fit, or are larger than they may be.
    """

    def __init__(
        self, runtime: Runtime, program: Program, binaries: Binaries, guard_bytes: int, most_bytes: int | None = None
    ) -> None:
        self._runtime, self._guard_bytes = runtime, guard_bytes
        self._damage: Failure | None = None
        with contextlib.ExitStack() as opened:
            self._executable = Executable.load(runtime, program, binaries)
            opened.callback(self._executable.close)
            _check_size(self._executable, most_bytes)
            self._opened = opened
            self._shared = self._guarded(Lifetime.CALL)
            self._kept: list[tuple[Workspace, GuardedBuffer]] = []
            self._opened = opened.pop_all()

    def _guarded(self, lifetime: Lifetime) -> list[tuple[Workspace, GuardedBuffer]]:
        found = []
        for each in self._executable.workspaces:
            if each.lifetime is lifetime:
                operand = Operand(each.name, Role.OUTPUT, (max(1, each.nbytes),), DType.UINT8)
                found.append((each, GuardedBuffer(self._runtime, operand, self._guard_bytes)))
                self._opened.callback(found[-1][1].free)
        return found

    def on(self, data: Dataset) -> Work:
        """What runs it on buffer set i of `data`. Raises LaunchError; OutOfMemory where KEPT workspaces do not fit."""
        return data.bound(self._executable, self._addresses)

    def _addresses(self) -> dict[str, int]:
        """Of the workspaces, for one set of buffers."""
        kept = self._guarded(Lifetime.KEPT)
        self._kept += kept
        return {each.name: buffer.address for each, buffer in (*self._shared, *kept)}

    def verified(self, run: Work) -> Work:
        """The same for runs that are verified one by one: before each its CALL workspaces are poisoned."""
        if not self._shared:
            return run

        fills = itertools.cycle(_ALTERNATING)

        def on_poison(index: int, /, stream: int | None = None) -> None:
            self.poison(next(fills))
            run(index, stream)

        return on_poison

    def poison(self, byte: int = POISON) -> None:
        """Fills the CALL workspaces and their guards; what was written into those before is not forgotten."""
        self._damage = self._damage or _damage_of(self._shared)
        for _, buffer in self._shared:
            buffer.poison(byte)

    def damage(self) -> Failure | None:
        """What was written around any workspace since it was loaded; None where nothing was. Waits for the device."""
        self._damage = self._damage or _damage_of((*self._shared, *self._kept))
        return self._damage

    def damage_or(self, checked: float | Failure) -> float | Failure:
        """`damage` where there is any, since it may be the cause of everything else; else what was found without."""
        return self.damage() or checked

    def close(self) -> None:
        """Gives back what it takes; after a fault nothing can be, and the fault is on its way up already."""
        with contextlib.suppress(DeviceError):
            self._opened.close()


@contextlib.contextmanager
def loaded(
    runtime: Runtime, program: Program, binaries: Binaries, guard_bytes: int, most_bytes: int | None = None
) -> Iterator[LoadedCandidate]:
    """A loaded candidate, given back at the end. Raises what its constructor does."""
    with contextlib.closing(LoadedCandidate(runtime, program, binaries, guard_bytes, most_bytes)) as candidate:
        yield candidate


def _check_size(executable: Executable, most_bytes: int | None) -> None:
    taken = sum(each.nbytes for each in executable.workspaces)
    if most_bytes is not None and taken > most_bytes:
        raise OutOfMemory(f"it takes {taken} bytes of workspace, and its problem allows {most_bytes}")


def _damage_of(workspaces: Sequence[tuple[Workspace, GuardedBuffer]]) -> Failure | None:
    for workspace, buffer in workspaces:
        if damage := buffer.damage():
            return Failure(FailureKind.OUT_OF_BOUNDS, f"workspace {workspace.name}: {damage}")
    return None
