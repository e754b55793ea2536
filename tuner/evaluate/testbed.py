"""Testbed: one problem laid out on one device, where candidates are verified and timed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.compiler import Binaries, Compiler, Usage, most_used
from warpsmith.devices.module import Allocation
from warpsmith.devices.runtime import Runtime
from warpsmith.errors import DeviceError, LaunchError, OutOfMemory
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.record import COPY, Baseline, Failure, FailureKind, LeftOut, Measurement, Timing
from warpsmith.tuner.evaluate.buffers import GUARD_BYTES
from warpsmith.tuner.evaluate.dataset import Dataset
from warpsmith.tuner.evaluate.device_lock import DeviceLock
from warpsmith.tuner.evaluate.loaded import LoadedCandidate, loaded
from warpsmith.tuner.evaluate.outcomes import Contender, Evaluated, InTurns, Laps, Measured
from warpsmith.tuner.evaluate.timing import (
    Entrant,
    Sustained,
    Work,
    measure,
    measure_in_turns,
    measure_sustained,
    measured,
)
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.faults import Faults, Part, PartFailure
from warpsmith.tuner.operations.drawing import noise as random_noise
from warpsmith.tuner.operations.judge import Judge
from warpsmith.tuner.operations.peer import Peer, first_line
from warpsmith.tuner.operations.registry import (
    candidates,
    is_quick,
    judge_of,
    random_operands,
    stress_operands,
    warm_up,
)

NOISE_BYTES = 1 << 26
"""Largest number of random bytes drawn for the device's copy; larger buffers repeat them."""

STRESS_TERMS_THERE = 1 << 39
"""Total terms of all results above which only finalists are verified on stress data, if the device computes references.
The stress reference of 2^39 terms takes 0.2 s (10 TFLOP/s on an H100, two sums), and its process as long again to lay
out the data. A layer of 2^41 takes 2 s.
"""


class Testbed:
    """Runs candidates of one problem on one device, one at a time.

    Args:
        runtime: the device.
        problem: problem that candidates solve.
        seed: seed of the inputs.
        policy: timing policy.
        guarded: put canaries around the buffers.
        compiler: compiler of the kernels that verify results on the device; None to verify on the host. If they do not
            compile, or the reference does not fit beside the buffers, results are verified on the host too.
        lock: this process's lock on the device, if another process uses it too.
        finals: verify on stress data however long their reference takes; see `is_quick`.
        judge: supplies inputs, checks and libraries; None for the operation's own judge.
        verifies_there: see `Dataset`.

    Raises:
        OutOfMemory: the buffers do not fit.
    """

    __test__ = False  # keeps pytest from collecting this class

    def __init__(
        self,
        runtime: Runtime,
        problem: Problem,
        seed: int,
        policy: TimingPolicy,
        *,
        guarded: bool,
        compiler: Compiler | None = None,
        lock: DeviceLock | None = None,
        finals: bool = False,
        judge: Judge[Any] | None = None,
        verifies_there: bool = True,
    ) -> None:
        self._faults, self._verifies_there = Faults(), verifies_there
        self._runtime, self._judge = runtime, judge or judge_of(problem)
        self._lock = lock or DeviceLock(None)
        self._peers: tuple[Peer, ...] | None = None
        self._left_out: list[LeftOut] = []
        self._problem = problem
        self._rotation = policy.rotation(problem.bytes, runtime.device.l2_bytes)
        self._guard_bytes = GUARD_BYTES if guarded else 0
        self._compiler = compiler
        draw = functools.partial(random_operands, problem, seed, self._judge)
        sets, guard_bytes = self._rotation.sets, self._guard_bytes
        given = (sets, guard_bytes, compiler, draw, 1.0, self._judge, self._lock)
        self._data = Dataset(runtime, problem, *given, checks=True, **self._how)
        self._stress = self._stress_data(seed, finals=finals)

    @property
    def _how(self) -> dict[str, Any]:
        return {"verifies_there": self._verifies_there, "faults": self._faults}

    @property
    def faults(self) -> tuple[PartFailure, ...]:
        """Ways of computing references, and data sets, that failed."""
        return self._faults.all

    def renew(self, seed: int) -> None:
        """Draws fresh inputs for the finals and computes their reference."""
        self._peers = None  # the peers hold the earlier inputs
        if self._stress:
            self._stress.close()
        self._data.draw(functools.partial(random_operands, self._problem, seed, self._judge))
        self._stress = self._stress_data(seed, finals=True)

    def _stress_data(self, seed: int, *, finals: bool) -> Dataset | None:
        """Stress data; None if their reference would delay a search, or if they do not fit in memory."""
        most_terms = STRESS_TERMS_THERE if self._data.is_made_on_device else None
        if not (finals or is_quick(self._problem, most_terms, self._judge)):
            return None
        draw = functools.partial(stress_operands, self._problem, seed, self._judge)
        try:
            slack = self._judge.stress_slack(self._problem)
            given = (self._guard_bytes, self._compiler, draw, slack, self._judge, self._lock)
            # The reference kernels were already checked on the other data.
            return Dataset(
                self._runtime, self._problem, 1, *given, makes_there=self._data.is_made_on_device, **self._how
            )
        except Exception as error:
            if isinstance(error, DeviceError) and not isinstance(error, OutOfMemory | LaunchError):
                raise  # this process can no longer use the device
            self._faults.add(Part.REFERENCE, "of stress data", error)
            return None

    def evaluate(
        self, program: Program, binaries: Binaries, policy: TimingPolicy, best_ns: float | None = None
    ) -> Evaluated:
        """Verifies one candidate, times it, and verifies the results of the timed runs.

        Raises DeviceError if the device faulted: this process can no longer use it.
        """
        laps = Laps()
        try:
            with self._lock, self._loaded(program, binaries) as candidate:
                run = candidate.on(self._data)  # bound once: with 256 sets it takes a while
                laps.next()
                checked = self._check(run, candidate)
                laps.next()
                if isinstance(checked, Failure):
                    outcome: Measurement | Failure = checked
                else:
                    outcome = self._timed(run, candidate, most_used(binaries), checked, policy, best_ns)
                if isinstance(outcome, Failure):
                    self._upload()  # a wrong kernel may have written anywhere
                laps.next()
        except LaunchError as error:
            outcome = Failure(FailureKind.LAUNCH, str(error))
        except OutOfMemory as error:
            outcome = Failure(FailureKind.OUT_OF_MEMORY, str(error))
        return Evaluated(outcome, *laps.three())

    def _check(self, run: Work, candidate: LoadedCandidate) -> float | Failure:
        """Largest scaled error of a program that is right on all data, or the failure."""
        error = candidate.damage_or(self._data.check(candidate.verified(run)))
        if isinstance(error, Failure) or self._stress is None:
            return error
        stressed = candidate.damage_or(self._stress.check(candidate.verified(candidate.on(self._stress))))
        if isinstance(stressed, Failure):
            return dataclasses.replace(stressed, message=f"on stress data: {stressed.message}")
        return max(error, stressed)

    def _timed(
        self,
        run: Work,
        candidate: LoadedCandidate,
        usage: Usage,
        error: float,
        policy: TimingPolicy,
        best_ns: float | None,
    ) -> Measurement | Failure:
        """Timing of a program that passed the first check, if it also passes the check after the timed runs."""
        self._data.poison_results()
        candidate.poison()
        with measured(self._runtime, run, self._rotation, policy, best_ns) as found:
            self._run_afresh(run, found.sets)
            fault, when = self._data.check_sets(found.sets), f"after {found.runs} timed runs"
            if fault is None and found.replay:
                self._replay(run, candidate, found)
                fault, when = self._data.check_sets(found.replayed), "in a replay of the CUDA graph"
        if damage := candidate.damage():
            return dataclasses.replace(damage, message=f"{when}: {damage.message}")
        if fault:
            number, failure = fault
            return dataclasses.replace(failure, message=f"{when}, in buffer set {number}: {failure.message}")
        return Measurement(
            timing=found.timing,
            max_error=error,
            registers=usage.registers,
            spill_bytes=usage.spill_bytes,
            shared_bytes=usage.shared_bytes,
            clock_mhz=self._runtime.clock_mhz(),
        )

    def _replay(self, run: Work, candidate: LoadedCandidate, found: Measured) -> None:
        """Launches a graph on poisoned results, and from the initial state.

        The timed graph may run several times on one set, so that a state would move on more than once: runs with a
        state are captured anew, one for each set, and launched twice.
        """
        if not self._data.has_state:
            self._data.poison_results()
            candidate.poison()
            assert found.replay is not None
            found.replay()
            return

        def once(stream: int) -> None:
            for number in found.replayed:
                run(number, stream)

        with contextlib.closing(self._runtime.captured(once)) as graph:
            for _ in range(2):
                self._data.poison_results()
                candidate.poison()
                graph.launch()
            self._runtime.synchronize()

    def _run_afresh(self, run: Work, sets: Collection[int]) -> None:
        """Runs once on each set from the initial state, if runs change what later runs read: only then can the results
        be checked.
        """
        if self._data.has_state:
            self._data.poison_results()
            for number in sets:
                run(number)

    def _upload(self) -> None:
        for data in (self._data, self._stress):
            if data:
                data.restore()

    def copy_timing(self, policy: TimingPolicy) -> Timing:
        """Time that the device takes to move as many bytes as the problem must, half read and half written."""
        noise = self._noise()
        with self._lock, self._copying(self._rotation.sets, noise) as run:
            return measure(self._runtime, run, self._rotation, policy)

    def prepare_peers(self) -> None:
        """Loads the other installed libraries and checks their results.

        A peer whose error exceeds twenty times the error bound, or its own tolerance, is left out: it computes
        something else, or in a lower precision. A peer that cannot run here is left out too.
        """
        if self._peers is not None:
            return
        kind, found, self._left_out = self._runtime.device.kind, [], []
        operands = self._data.operands
        # This takes seconds, in which the device is almost idle.
        warm_up(self._problem, operands, kind, self._judge)
        with self._lock:  # the peers' inputs go to the device
            made = candidates(self._problem, operands, kind, self._rotation.sets, self._judge)
        del operands  # for large problems they were drawn only for this
        for candidate in made:
            refusal = candidate if isinstance(candidate, LeftOut) else self._refusal(candidate)
            if refusal is not None:
                self._left_out.append(refusal)
            elif isinstance(candidate, Peer):
                found.append(candidate)
        self._peers = tuple(found)

    def _refusal(self, peer: Peer) -> LeftOut | None:
        """Reason why a library is not timed; None if its result is right."""
        output = self._problem.output
        bound = self._judge.error_bound(self._problem, output)
        try:
            with self._lock:
                peer.run()
                result = peer.result()
            error = self._data.error_of(result)
        except Exception as failure:  # a library may raise anything on input that it does not support
            return LeftOut(peer.name, f"failed: {first_line(failure)}")
        allowed = peer.tolerance or 20 * bound
        if error <= allowed:
            return None
        return LeftOut(peer.name, f"its error of {error:.1e} is over the bound of {allowed:.1e}")

    def side_by_side(self, contenders: tuple[Contender, ...], policy: TimingPolicy, *, peers: bool = True) -> InTurns:
        """Times verified candidates, the device's copy and, unless `peers` is false, every installed peer.

        They take turns under equal conditions: each on the same number of buffer sets, and in graphs if the policy says
        so. Work that cannot be captured is launched eagerly, and its baseline says why. An entrant that is far behind
        takes part in fewer turns.
        """
        if peers:
            self.prepare_peers()
        notes: dict[str, str] = {}
        noise = self._noise()
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._lock)
            entrants = {peer.name: self._entrant(peer, notes) for peer in self._peers or () if peers}
            copy = stack.enter_context(self._copying(self._rotation.sets, noise))
            entrants[COPY] = Entrant(copy, self._rotation, takes_stream=True)
            # Numbers: no library has such a name.
            for number, contender in enumerate(contenders):
                run = stack.enter_context(self._loaded(contender.program, contender.binaries)).on(self._data)
                entrants[str(number)] = Entrant(run, self._rotation, takes_stream=True, sets_pace=True)
            timings = measure_in_turns(self._runtime, entrants, policy)
        ours = tuple(timings.pop(str(number)) for number in range(len(contenders)))
        baselines = tuple(Baseline(name, timing, notes.get(name)) for name, timing in timings.items())
        return InTurns(ours, baselines, tuple(self._left_out) if peers else ())

    def sustained(self, contender: Contender, seconds: float) -> Sustained:
        """Time of a verified candidate after it has run for `seconds`, launch by launch."""
        with self._lock, self._loaded(contender.program, contender.binaries) as candidate:
            return measure_sustained(self._runtime, candidate.on(self._data), self._rotation, seconds)

    def _entrant(self, peer: Peer, notes: dict[str, str]) -> Entrant:
        """A peer as an entrant; the reason why it cannot be captured goes into `notes`, under its name."""

        def run(index: int, /, stream: int | None = None) -> None:
            peer.run(index, stream)

        note = functools.partial(notes.__setitem__, peer.name)
        return Entrant(run, self._rotation, takes_stream=True, renew=peer.renew, uncaptured=note)

    def _loaded(self, program: Program, binaries: Binaries) -> contextlib.AbstractContextManager[LoadedCandidate]:
        return loaded(self._runtime, program, binaries, self._guard_bytes, self._problem.workspace_limit)

    def _noise(self) -> NDArray[np.uint8]:
        """Random bytes for the copy. They are drawn before the device is locked: 100 MB take 0.1 s."""
        return random_noise(min(self._copied_bytes, NOISE_BYTES), seed=0)

    @property
    def _copied_bytes(self) -> int:
        """Half as many bytes as the problem moves."""
        return self._problem.bytes // 2

    @contextlib.contextmanager
    def _copying(self, sets: int, noise: NDArray[np.uint8]) -> Iterator[Work]:
        """Yields a function that copies between the buffers of pair i of `sets` pairs; each source repeats `noise`."""
        nbytes = self._copied_bytes
        pairs: list[tuple[Allocation, Allocation]] = []
        try:
            for _ in range(sets):
                pairs.append((self._runtime.allocate(nbytes), self._runtime.allocate(nbytes)))
                for first in range(0, nbytes, max(1, noise.size)):
                    self._runtime.upload(pairs[-1][0].address + first, noise[: nbytes - first])

            def run(index: int, /, stream: int | None = None) -> None:
                source, target = pairs[index]
                self._runtime.copy(target.address, source.address, nbytes, stream)

            yield run
        finally:
            with contextlib.suppress(DeviceError):
                for allocation in (each for pair in pairs for each in pair):
                    self._runtime.free(allocation)

    def close(self) -> None:
        for data in (self._data, self._stress):
            if data:
                data.close()
