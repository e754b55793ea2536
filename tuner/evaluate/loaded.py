"""Candidate loaded on the device, with workspaces that hold no data of other candidates."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from warpsmith.devices.compiler import Binaries
from warpsmith.devices.executable import Executable
from warpsmith.devices.runtime import Runtime
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
    """Loaded program and its guarded workspaces, which are poisoned before each verified run.

    Reading a workspace element before it is written then shows in the result, because the poison is NaN as a float. An
    integer has no such value, so where an integer result is verified in two runs, the second one finds zeros.

    KEPT workspaces are poisoned only before the first run; each set of buffers has its own.

    Args:
        runtime: the device.
        program: the candidate.
        binaries: binaries of its units, by name.
        guard_bytes: bytes of guard on each side of a workspace.
        most_bytes: largest total of its workspaces, including those of libraries; None for no limit.

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
        """Function that runs the program on buffer set i of `data`. Raises LaunchError, or OutOfMemory if KEPT
        workspaces do not fit.
        """
        return data.bound(self._executable, self._addresses)

    def _addresses(self) -> dict[str, int]:
        """Workspace addresses for one set of buffers."""
        kept = self._guarded(Lifetime.KEPT)
        self._kept += kept
        return {each.name: buffer.address for each, buffer in (*self._shared, *kept)}

    def verified(self, run: Work) -> Work:
        """`run` with the CALL workspaces poisoned before each run, for runs that are verified one by one."""
        if not self._shared:
            return run

        fills = itertools.cycle(_ALTERNATING)

        def on_poison(index: int, /, stream: int | None = None) -> None:
            self.poison(next(fills))
            run(index, stream)

        return on_poison

    def poison(self, byte: int = POISON) -> None:
        """Fills the CALL workspaces and their guards. Damage done to them before is remembered."""
        self._damage = self._damage or _damage_of(self._shared)
        for _, buffer in self._shared:
            buffer.poison(byte)

    def damage(self) -> Failure | None:
        """First guard of a workspace that was overwritten since loading; None if there is none. Waits for the
        device.
        """
        self._damage = self._damage or _damage_of((*self._shared, *self._kept))
        return self._damage

    def damage_or(self, checked: float | Failure) -> float | Failure:
        """The damage, if there is any, since it may cause every other failure; else `checked`."""
        return self.damage() or checked

    def close(self) -> None:
        """Frees the candidate's memory. After a device fault that fails too; this error is suppressed because the fault
        has already been raised.
        """
        with contextlib.suppress(DeviceError):
            self._opened.close()


@contextlib.contextmanager
def loaded(
    runtime: Runtime, program: Program, binaries: Binaries, guard_bytes: int, most_bytes: int | None = None
) -> Iterator[LoadedCandidate]:
    """Loads a candidate and frees it at the end. Raises what its constructor raises."""
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
