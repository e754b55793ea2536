"""One problem laid out on one device: inputs, guarded outputs, and the reference they are held against."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from warpsmith.devices.base import Allocation, Binary, BoundLaunch, Compiler, Module, Runtime
from warpsmith.errors import DeviceError, LaunchError, OutOfMemory
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import COPY, Baseline, Failure, FailureKind, LeftOut, Measurement, Timing
from warpsmith.tuner.buffers import GUARD_BYTES, GuardedBuffer, poisons
from warpsmith.tuner.device_verify import device_verifier
from warpsmith.tuner.oracle import Reference, noise, random_operands, reference
from warpsmith.tuner.outcomes import Contender, Evaluated, InTurns, Laps
from warpsmith.tuner.peer import Peer, first_line
from warpsmith.tuner.peers import candidates, warm_up
from warpsmith.tuner.sustained import Sustained, measure_sustained
from warpsmith.tuner.timing import Entrant, TimingPolicy, Work, measure, measure_in_turns
from warpsmith.tuner.turn import Turn
from warpsmith.tuner.verify import ERROR_BOUND, verify


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
        turn: of this process on the device, where another one uses it too.

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
        turn: Turn | None = None,
    ) -> None:
        self._runtime = runtime
        self._turn = turn or Turn(None)
        self._peers: tuple[Peer, ...] | None = None
        self._left_out: list[LeftOut] = []
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
        self._peers = None  # they hold the earlier ones
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
    ) -> Evaluated:
        """Verifies one candidate, then times it.

        Raises DeviceError where the device faulted: this process cannot use it any more.
        """
        laps = Laps()
        try:
            with self._turn, self._loaded(program, binary) as run:
                laps.next()
                outcome: Measurement | Failure
                checked = self._check(run)
                laps.next()
                if isinstance(checked, Failure):
                    self._upload()  # a wrong kernel may have written anywhere
                    outcome = checked
                else:
                    outcome = Measurement(
                        timing=measure(self._runtime, run, self._rotation, policy, best_ns),
                        max_error=checked,
                        registers=binary.registers,
                        spill_bytes=binary.spill_bytes,
                        shared_bytes=binary.shared_bytes,
                        clock_mhz=self._runtime.clock_mhz(),
                    )
                laps.next()
        except LaunchError as error:
            outcome = Failure(FailureKind.LAUNCH, str(error))
        except OutOfMemory as error:
            outcome = Failure(FailureKind.OUT_OF_MEMORY, str(error))
        return Evaluated(outcome, *laps.three())

    def copy_timing(self, policy: TimingPolicy) -> Timing:
        """How long the device takes to move as many bytes as the problem must, half read and half written."""
        with self._turn, self._copying(self._rotation.sets) as run:
            return measure(self._runtime, run, self._rotation, policy)

    def prepare_peers(self) -> None:
        """Loads the other libraries that are installed here, and finds out which of them are right.

        A peer whose result is over twenty times the error bound, or over its own tolerance, is left out: it computes
        something else, or in a lower precision. So is one that cannot run here.
        """
        if self._peers is not None:
            return
        kind, found, self._left_out = self._runtime.device.kind, [], []
        warm_up(self._problem, kind)  # seconds, in which the device does next to nothing
        for candidate in candidates(self._problem, self._operands, kind, self._rotation.sets):
            refusal = candidate if isinstance(candidate, LeftOut) else self._refusal(candidate)
            if refusal is not None:
                self._left_out.append(refusal)
            elif isinstance(candidate, Peer):
                found.append(candidate)
        self._peers = tuple(found)

    def _refusal(self, peer: Peer) -> LeftOut | None:
        """Why a library is not to be timed; None where it is right."""
        dtype = self._problem.output.dtype
        try:
            with self._turn:
                peer.run()
                result = peer.result()
            error = verify(result, self._reference, dtype).max_error
        except Exception as failure:  # a library may raise anything at what it does not know
            return LeftOut(peer.name, f"failed: {first_line(failure)}")
        bound = peer.tolerance or 20 * ERROR_BOUND[dtype]
        if error <= bound:
            return None
        return LeftOut(peer.name, f"its error of {error:.1e} is over the bound of {bound:.1e}")

    def side_by_side(self, contenders: tuple[Contender, ...], policy: TimingPolicy) -> InTurns:
        """Times verified candidates, the device's copy and every peer installed here, taking turns.

        All under the same conditions: on as many sets of buffers each, and in graphs where the policy has them. What
        cannot be captured is launched eagerly, and its baseline says why.
        """
        self.prepare_peers()
        notes: dict[str, str] = {}
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._turn)
            entrants = {peer.name: self._entrant(peer, notes) for peer in self._peers or ()}
            copy = stack.enter_context(self._copying(self._rotation.sets))
            entrants[COPY] = Entrant(copy, self._rotation, takes_stream=True)
            # Numbers, which no library has for a name.
            for number, contender in enumerate(contenders):
                run = stack.enter_context(self._loaded(contender.program, contender.binary))
                entrants[str(number)] = Entrant(run, self._rotation, takes_stream=True)
            timings = measure_in_turns(self._runtime, entrants, policy)
        ours = tuple(timings.pop(str(number)) for number in range(len(contenders)))
        baselines = tuple(Baseline(name, timing, notes.get(name)) for name, timing in timings.items())
        return InTurns(ours, baselines, tuple(self._left_out))

    def sustained(self, contender: Contender, seconds: float) -> Sustained:
        """How long a verified candidate takes once it has run for so many seconds, launch by launch."""
        with self._turn, self._loaded(contender.program, contender.binary) as run:
            return measure_sustained(self._runtime, run, self._rotation, seconds)

    def _entrant(self, peer: Peer, notes: dict[str, str]) -> Entrant:
        """A peer as what takes turns; why it cannot be captured goes into `notes`, under its name."""

        def run(index: int, /, stream: int | None = None) -> None:
            peer.run(index, stream)

        note = functools.partial(notes.__setitem__, peer.name)
        return Entrant(run, self._rotation, takes_stream=True, renew=peer.renew, uncaptured=note)

    @contextlib.contextmanager
    def _loaded(self, program: Program, binary: Binary) -> Iterator[Work]:
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

    def _bound(self, program: Program, module: Module, workspaces: dict[str, int]) -> Work:
        values = {name: array.tobytes() for name, array in self._operands.items() if name in program.by_value}
        bound: list[list[BoundLaunch]] = []
        for buffers in self._buffers:
            addresses = workspaces | {name: buffer.address for name, buffer in buffers.items()}
            bound.append([module.bind(launch, addresses, values) for launch in program.launches])

        def run(index: int, /, stream: int | None = None) -> None:
            for launch in bound[index]:
                launch(stream)

        return run

    @contextlib.contextmanager
    def _copying(self, sets: int) -> Iterator[Work]:
        """Gives what copies as many bytes as the problem moves, between the buffers of pair i, of `sets`."""
        nbytes = self._problem.bytes // 2
        data = noise(nbytes, seed=0)
        pairs: list[tuple[Allocation, Allocation]] = []
        try:
            for _ in range(sets):
                pairs.append((self._runtime.allocate(nbytes), self._runtime.allocate(nbytes)))
                self._runtime.upload(pairs[-1][0].address, data)

            def run(index: int, /, stream: int | None = None) -> None:
                source, target = pairs[index]
                self._runtime.copy(target.address, source.address, nbytes, stream)

            yield run
        finally:
            with contextlib.suppress(DeviceError):
                for allocation in (each for pair in pairs for each in pair):
                    self._runtime.free(allocation)

    def _check(self, run: Work) -> float | Failure:
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
