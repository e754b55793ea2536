"""One problem laid out on one device: inputs, guarded outputs, and the reference they are held against."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.base import Allocation, Binary, BoundLaunch, Compiler, Module, Runtime
from warpsmith.errors import DeviceError, LaunchError, OutOfMemory
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import COPY, Baseline, Failure, FailureKind, Measurement, Timing
from warpsmith.tuner.buffers import GUARD_BYTES, GuardedBuffer, poisons
from warpsmith.tuner.device_verify import device_verifier
from warpsmith.tuner.oracle import Reference, random_operands, reference
from warpsmith.tuner.peers import peers
from warpsmith.tuner.timing import Entrant, TimingPolicy, measure, measure_in_turns
from warpsmith.tuner.verify import ERROR_BOUND, verify


@dataclasses.dataclass(frozen=True, slots=True)
class Contender:
    """A verified program, to be timed in turns with another one."""

    name: str
    program: Program
    binary: Binary


class Testbed:
    """Runs candidates of one problem on one device, one at a time.

    Args:
        runtime: the device.
        problem: what candidates compute.
        seed: of the inputs.
        policy: of the timings.
        guarded: put canaries round the buffers.
        compiler: of the kernels that verify results on the device; None to verify on the host. Where they do not
            compile, or the reference does not fit beside the buffers, results are verified on the host too.

    Raises OutOfMemory where the buffers do not fit.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    def __init__(
        self,
        runtime: Runtime,
        problem: Problem,
        seed: int,
        policy: TimingPolicy,
        *,
        guarded: bool,
        compiler: Compiler | None = None,
    ) -> None:
        self._runtime = runtime
        self._problem = problem
        self._rotation = policy.rotation(problem.bytes, runtime.device.l2_bytes)
        guard_bytes = GUARD_BYTES if guarded else 0
        self._buffers: list[dict[str, GuardedBuffer]] = [
            {operand.name: GuardedBuffer(runtime, operand, guard_bytes) for operand in problem.operands}
            for _ in range(self._rotation.sets)
        ]
        self._verifier = device_verifier(runtime, compiler, self._buffers[0], problem.output) if compiler else None
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
                buffers[name].upload(array)
        if self._verifier:
            self._verifier.upload(self._reference)

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
        self, program: Program, binary: Binary, policy: TimingPolicy, others: tuple[Contender, ...] = ()
    ) -> tuple[Timing, tuple[Baseline, ...]]:
        """Times a verified candidate, `others`, the device's copy and every peer installed here, taking turns.

        A peer whose result is over twenty times the error bound is left out: it computes something else, or in a
        lower precision. So is one that cannot run here. A peer has one set of buffers; the others rotate through
        theirs as in the search, so that where a peer finds its data in the cache they do not.
        """
        output, kind = self._problem.output, self._runtime.device.kind
        entrants: dict[str, Entrant] = {}
        for peer in peers(self._problem, self._operands, kind):
            # A library may raise anything at what it does not know.
            with contextlib.suppress(Exception):
                peer.run()
                if verify(peer.result(), self._reference, output.dtype).max_error <= 20 * ERROR_BOUND[output.dtype]:
                    entrants[peer.name] = Entrant(_on_any_set(peer.run))
        with contextlib.ExitStack() as stack:
            runs = {COPY: stack.enter_context(self._copying(self._rotation.sets))}
            for other in others:
                runs[other.name] = stack.enter_context(self._loaded(other.program, other.binary))
            runs[program.family] = stack.enter_context(self._loaded(program, binary))
            entrants |= {name: Entrant(run, self._rotation) for name, run in runs.items()}
            timings = measure_in_turns(self._runtime, entrants, policy)
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
        output = self._buffers[0][self._problem.output.name]
        error = 0.0
        for poison in poisons(self._problem.output.dtype):
            output.poison(poison)
            run(0)
            self._runtime.synchronize()
            error_there = self._check_on_device(poison)
            checked = self._check_on_host() if error_there is None else error_there
            if isinstance(checked, Failure):
                return checked
            error = max(error, checked)
        return error

    def _check_on_device(self, poison: int) -> float | None:
        """The largest scaled error of a right result; None where the device finds fault or cannot tell."""
        found = self._verifier.findings(poison) if self._verifier else None
        return found.max_error if found and found.right else None

    def _check_on_host(self) -> float | Failure:
        """The same of the result that lies in the buffers, or what is wrong with it, in words."""
        result = self._downloaded()
        if isinstance(result, Failure):
            return result
        verdict = verify(result, self._reference, self._problem.output.dtype)
        if not verdict.right:
            return Failure(FailureKind.WRONG, verdict.message)
        if self._verifier:  # some kernel has written into the reference there
            self._verifier.upload(self._reference)
        return verdict.max_error

    def _downloaded(self) -> NDArray[Any] | Failure:
        """The result of the last run, or where it wrote besides."""
        buffers, name = self._buffers[0], self._problem.output.name
        result, between = buffers[name].download()
        damages = {each: buffer.damage() for each, buffer in buffers.items()}
        damages[name] = damages[name] or between
        for each, damage in damages.items():
            if damage:
                return Failure(FailureKind.OUT_OF_BOUNDS, f"{each}: {damage}")
        return result

    def close(self) -> None:
        """Gives the buffers back."""
        if self._verifier:
            self._verifier.close()
        for buffers in self._buffers:
            for buffer in buffers.values():
                buffer.free()


def _on_any_set(run: Callable[[], None]) -> Callable[[int], None]:
    """A peer has buffers of its own, and no use for the number of a set."""
    return lambda _: run()
