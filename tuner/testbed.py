"""One problem laid out on one device: inputs, guarded outputs, and the reference they are held against."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import numpy as np

from warpsmith.devices.base import Allocation, Binary, BoundLaunch, Module, Runtime
from warpsmith.errors import DeviceError, LaunchError, OutOfMemory
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import COPY, Baseline, Failure, FailureKind, Measurement, Timing
from warpsmith.tuner.oracle import Reference, random_operands, reference
from warpsmith.tuner.peers import PEER_ERRORS, peers
from warpsmith.tuner.timing import TimingPolicy, measure, measure_in_turns
from warpsmith.tuner.verify import ERROR_BOUND, verify

GUARD_BYTES = 64 * 1024
"""Canaries on each side of a buffer: seven rows of the paper's image, so that an index one row off is seen."""
POISON = 0xFF
"""Fills outputs and guards: four of them are a float32 NaN, so that reading a guard shows in the result."""


class GuardedBuffer:
    """Device memory between two guards."""

    def __init__(self, runtime: Runtime, nbytes: int, guard_bytes: int) -> None:
        self._runtime = runtime
        self._guard_bytes = guard_bytes
        self._allocation: Allocation = runtime.allocate(nbytes + 2 * guard_bytes)
        self.address = self._allocation.address + guard_bytes
        self.nbytes = nbytes
        self.poison()

    def poison(self) -> None:
        """Fills the buffer and its guards."""
        self._runtime.fill(self._allocation.address, POISON, self._allocation.nbytes)

    def damage(self) -> str:
        """Which guard was written to, in words; empty where none was."""
        guard = np.empty(self._guard_bytes, dtype=np.uint8)
        for side, address in (("before", self._allocation.address), ("after", self.address + self.nbytes)):
            if self._guard_bytes:
                self._runtime.download(guard, address)
                if written := int(np.count_nonzero(guard != POISON)):
                    return f"{written} bytes written within {self._guard_bytes} bytes {side} the buffer"
        return ""

    def free(self) -> None:
        self._runtime.free(self._allocation)


class Testbed:
    """Runs candidates of one problem on one device, one at a time. Raises OutOfMemory where the buffers do not fit."""

    __test__ = False  # not a test class, whatever pytest thinks of the name

    def __init__(self, runtime: Runtime, problem: Problem, seed: int, policy: TimingPolicy, *, guarded: bool) -> None:
        self._runtime = runtime
        self._problem = problem
        self._rotation = policy.rotation(problem.bytes, runtime.device.l2_bytes)
        guard_bytes = GUARD_BYTES if guarded else 0
        self._buffers: list[dict[str, GuardedBuffer]] = [
            {operand.name: GuardedBuffer(runtime, operand.nbytes, guard_bytes) for operand in problem.operands}
            for _ in range(self._rotation.sets)
        ]
        self.renew(seed)

    def renew(self, seed: int) -> None:
        """Draws fresh inputs and computes their reference."""
        self._operands = random_operands(self._problem, seed)
        self._reference: Reference = reference(self._problem, self._operands)
        self._upload()

    def _upload(self) -> None:
        for buffers in self._buffers:
            for name, array in self._operands.items():
                buffers[name].poison()
                self._runtime.upload(buffers[name].address, array)

    def evaluate(
        self, program: Program, binary: Binary, policy: TimingPolicy, best_ns: float | None = None
    ) -> Measurement | Failure:
        """Verifies one candidate, then times it.

        Raises DeviceError where the device faulted: this process cannot use it any more.
        """
        try:
            with self._loaded(program, binary) as run:
                checked = self._check(run)
                if isinstance(checked, Failure):
                    self._upload()  # a wrong kernel may have written anywhere
                    return checked
                return Measurement(
                    timing=measure(self._runtime, run, self._rotation, policy, best_ns),
                    max_error=checked,
                    registers=binary.registers,
                    spill_bytes=binary.spill_bytes,
                    shared_bytes=binary.shared_bytes,
                    clock_mhz=self._runtime.clock_mhz(),
                )
        except LaunchError as error:
            return Failure(FailureKind.LAUNCH, str(error))
        except OutOfMemory as error:
            return Failure(FailureKind.OUT_OF_MEMORY, str(error))

    def copy_timing(self, policy: TimingPolicy) -> Timing:
        """How long the device takes to move as many bytes as the problem must, half read and half written."""
        with self._copying(self._rotation.sets) as run:
            return measure(self._runtime, run, self._rotation, policy)

    def side_by_side(
        self, program: Program, binary: Binary, policy: TimingPolicy
    ) -> tuple[Timing, tuple[Baseline, ...]]:
        """Times a verified candidate, the device's copy and every peer installed here, taking turns.

        A peer whose result is over twenty times the error bound is left out: it computes something else, or in a
        lower precision. So is one that cannot run here.
        """
        output, kind = self._problem.output, self._runtime.device.kind
        contenders: dict[str, Callable[[int], None]] = {}
        for peer in peers(self._problem, self._operands, kind):
            with contextlib.suppress(*PEER_ERRORS):
                peer.run()
                if verify(peer.result(), self._reference, output.dtype).max_error <= 20 * ERROR_BOUND[output.dtype]:
                    contenders[peer.name] = _on_any_set(peer.run)
        with self._copying(1) as copy, self._loaded(program, binary) as ours:
            contenders |= {COPY: copy, program.family: ours}
            timings = measure_in_turns(self._runtime, contenders, policy)
        return timings.pop(program.family), tuple(Baseline(name, timing) for name, timing in timings.items())

    @contextlib.contextmanager
    def _loaded(self, program: Program, binary: Binary) -> Iterator[Callable[[int], None]]:
        """Loads and binds a program; gives what runs it on buffer set i."""
        module = self._runtime.load(binary)
        workspaces: dict[str, Allocation] = {}
        try:
            for workspace in program.workspaces:
                workspaces[workspace.name] = self._runtime.allocate(workspace.nbytes)
            yield self._bound(program, module, {name: each.address for name, each in workspaces.items()})
        finally:
            # After a fault nothing can be given back; the fault itself is already on its way up.
            with contextlib.suppress(DeviceError):
                for allocation in workspaces.values():
                    self._runtime.free(allocation)
                module.close()

    def _bound(self, program: Program, module: Module, workspaces: dict[str, int]) -> Callable[[int], None]:
        values = {name: array.tobytes() for name, array in self._operands.items() if name in program.by_value}
        bound: list[list[BoundLaunch]] = []
        for buffers in self._buffers:
            addresses = workspaces | {name: buffer.address for name, buffer in buffers.items()}
            bound.append([module.bind(launch, addresses, values) for launch in program.launches])

        def run(index: int) -> None:
            for launch in bound[index]:
                launch(None)

        return run

    @contextlib.contextmanager
    def _copying(self, sets: int) -> Iterator[Callable[[int], None]]:
        """Gives what copies as many bytes as the problem moves, between the buffers of pair i, of `sets`."""
        nbytes = self._problem.bytes // 2
        noise = np.random.default_rng(0).integers(0, 256, nbytes, dtype=np.uint8)
        pairs: list[tuple[Allocation, Allocation]] = []
        try:
            for _ in range(sets):
                pairs.append((self._runtime.allocate(nbytes), self._runtime.allocate(nbytes)))
                self._runtime.upload(pairs[-1][0].address, noise)

            def run(index: int) -> None:
                source, target = pairs[index]
                self._runtime.copy(target.address, source.address, nbytes)

            yield run
        finally:
            with contextlib.suppress(DeviceError):
                for allocation in (each for pair in pairs for each in pair):
                    self._runtime.free(allocation)

    def _check(self, run: Callable[[int], None]) -> float | Failure:
        """The largest scaled error of a right result, or what is wrong with it."""
        output = self._problem.output
        buffers = self._buffers[0]
        buffers[output.name].poison()
        run(0)
        self._runtime.synchronize()
        for name, buffer in buffers.items():
            if damage := buffer.damage():
                return Failure(FailureKind.OUT_OF_BOUNDS, f"{name}: {damage}")
        result = np.empty(output.shape, dtype=str(output.dtype))
        self._runtime.download(result, buffers[output.name].address)
        verdict = verify(result, self._reference, output.dtype)
        return verdict.max_error if verdict.right else Failure(FailureKind.WRONG, verdict.message)

    def close(self) -> None:
        """Gives the buffers back."""
        for buffers in self._buffers:
            for buffer in buffers.values():
                buffer.free()


def _on_any_set(run: Callable[[], None]) -> Callable[[int], None]:
    """A peer has buffers of its own, and no use for the number of a set."""
    return lambda _: run()
