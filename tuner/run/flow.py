"""Flow of candidates: compiled ahead by many processes, evaluated on one device."""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import hashlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.program import Program
from warpsmith.generator.steps import step_spec, workspace_spec
from warpsmith.store.record import Failure, Measurement, Timing, Trial
from warpsmith.tuner.costs import CostStage, Ledger
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import Evaluated
from warpsmith.tuner.faults import failure_of
from warpsmith.tuner.run.screen import Screen
from warpsmith.tuner.workers.compile_pool import Compiled

AHEAD = 2
"""Least number of candidates in progress per compiler: one that it compiles, and one that waits for it."""
BACKLOG = 1
"""Largest number of compiled candidates per compiler that wait for an open device. If the device is slower than the
compilers, more would only be requested with less knowledge, and withheld from other tuners that are idle.
"""
MOST_AHEAD = 8
"""Largest number of candidates in progress per compiler, as while the device is being opened."""

MOST_BROKEN = 3
"""Number of consecutive candidates without a compiler or a worker after which the search ends: trying again does not
bring back a lost device.
"""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A config that is being compiled or measured."""

    number: int
    """Position in the order of requests."""
    program: Program
    fingerprint: str


@dataclasses.dataclass(frozen=True, slots=True)
class _Built:
    candidate: Candidate
    compiled: Compiled | Failure


@dataclasses.dataclass(frozen=True, slots=True)
class _Ready:
    candidate: Candidate
    compiled: Compiled
    code: str
    """Result of `_code_of`, computed once: it hashes an image of some 20 KB."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Ran:
    ready: _Ready
    evaluated: Evaluated


@dataclasses.dataclass(frozen=True, slots=True)
class _Opened:
    copy: Timing | Failure


@dataclasses.dataclass(frozen=True, slots=True)
class _Broke:
    error: BaseException


class FlowCallbacks(abc.ABC):
    """Callbacks of a flow: they supply its programs and follow them."""

    @abc.abstractmethod
    def next(self) -> Program | None:
        """The next program to try; None if there is none now."""

    def best_ns(self, candidate: Candidate) -> float | None:  # noqa: ARG002 - each candidate may have another
        """Time that a candidate should beat; None if there is none. Called in another thread, just before it runs."""
        return None

    def starting(self, candidate: Candidate) -> None:  # noqa: B027 - nothing to do by default
        """Called with each candidate just before it runs, in another thread."""

    def opened(self, copy: Timing | Failure) -> None:  # noqa: B027 - nothing to do by default
        """Called once, before any trial, with the time of the device's own copy."""


class AllOf(FlowCallbacks):
    """All of some programs, each fully sampled."""

    def __init__(self, programs: Iterable[Program]) -> None:
        self._programs = iter(programs)

    def next(self) -> Program | None:
        return next(self._programs, None)


class Flow:
    """Turns programs into trials, inside a `with` block.

    On a GPU, trials arrive in the order in which they end, and programs are requested as soon as there is room. On the
    host, compilers and candidates share the cores, so a batch is compiled first and then timed undisturbed and in
    order.

    Args:
        evaluator: compiles and evaluates the candidates.
        callbacks: supply the programs and follow them.
        ledger: counts the costs.
        total: approximate number of candidates wanted. An eighth of them may be in progress while the device opens.
        screen: drops candidates that cannot win; None to run them all.
    """

    def __init__(
        self, evaluator: Evaluator, callbacks: FlowCallbacks, ledger: Ledger, total: int, screen: Screen | None = None
    ) -> None:
        self._evaluator, self._callbacks, self._ledger, self._screen = evaluator, callbacks, ledger, screen
        self._is_open = False
        self._in_batches = evaluator.device.kind is DeviceKind.HOST
        least, most = AHEAD * evaluator.pool.processes, MOST_AHEAD * evaluator.pool.processes
        self._ahead = evaluator.pool.processes if self._in_batches else max(least, min(most, total // 8))
        self._requested = 0
        self._outstanding = 0
        """Number of requested candidates whose trials are not finished."""
        self._compiling: dict[Candidate, Future[Compiled | Failure]] = {}
        self._batch: list[_Ready] = []
        self._waiting: list[_Ready] = []
        """Compiled candidates that run after all others, unless a measured time drops them first."""
        self._ready: queue.SimpleQueue[_Ready | None] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[_Built | _Ran | _Opened | _Broke] = queue.SimpleQueue()
        self._done: collections.deque[Trial] = collections.deque()
        self._twins: dict[str, list[tuple[Candidate, Compiled]]] = {}
        """Candidates that wait for the outcome of one with equal machine code and launches, by the hash of these."""
        self._unbuilt = 0
        """Number of consecutive candidates for which the compile pool itself failed."""
        self._outcomes: dict[str, tuple[Measurement | Failure, str | None]] = {}
        # Not join(): if Ctrl-C interrupts it, Python 3.11 takes the thread for ended.
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives up the candidates in progress. The running one may end, except after Ctrl-C."""
        try:
            with contextlib.suppress(queue.Empty):
                while True:
                    self._ready.get_nowait()
            self._ready.put(None)
            for future in self._compiling.values():
                future.cancel()
            if self._compiling:
                self._evaluator.pool.interrupt()
            self._ended.wait(None if kind is None else 0.0)
        finally:  # also if Ctrl-C is pressed meanwhile: no other thread may use a busy bench
            self._ready.put(None)  # again, in case the signal struck before it
            while not self._ended.is_set():
                self._evaluator.bench.interrupt()  # again, in case it struck before the candidate was sent
                self._ended.wait(0.1)

    def trials(self, deadline: Callable[[], float | None]) -> Iterator[Trial]:
        """Yields trials until no program is left for now or `deadline` (of time.monotonic) has passed.

        It continues at the next call if programs come later. Raises DeviceError if the device cannot be opened.
        """
        while True:
            self._fill()
            self._release()
            if not self._is_open:
                self._wait(None)
            elif self._done:
                yield self._done.popleft()
            elif self._outstanding == 0 or not self._wait(deadline()):
                return

    def _fill(self) -> None:
        if self._in_batches and (self._outstanding or self._done):
            return
        # Candidates that end at once, such as dropped ones, take room until they are yielded: they are trials too.
        while self._outstanding + len(self._done) < self._ahead and not self._has_enough():
            if (program := self._callbacks.next()) is None:
                return
            self._outstanding += 1
            self._start(program)

    def _has_enough(self) -> bool:
        """True if neither a compiler nor the open device will have to wait for a candidate."""
        processes = self._evaluator.pool.processes
        return self._is_open and (
            len(self._compiling) >= AHEAD * processes or self._ready.qsize() >= BACKLOG * processes
        )

    def _start(self, program: Program) -> None:
        candidate = Candidate(self._requested, program, program.fingerprint)
        self._requested += 1
        if self._screen and (failure := self._screen.of_program(program, candidate.fingerprint)):
            self._finish(candidate, None, failure, None)
            return
        future = self._evaluator.compile(program)
        self._compiling[candidate] = future
        future.add_done_callback(lambda done: self._built(candidate, done))

    def _built(self, candidate: Candidate, future: Future[Compiled | Failure]) -> None:
        """Callback of the compile pool, called in one of its threads."""
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._unbuilt = 0
            self._events.put(_Built(candidate, future.result()))
            return
        self._unbuilt += 1
        is_one = isinstance(error, Exception) and self._unbuilt < MOST_BROKEN
        self._events.put(_Built(candidate, failure_of(error)) if is_one else _Broke(error))

    def _wait(self, deadline: float | None) -> bool:
        """Handles the next event; False if none came in time."""
        try:
            event = self._events.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return False
        match event:
            case _Built(candidate, compiled):
                del self._compiling[candidate]
                self._take_built(candidate, compiled)
            case _Ran(ready, evaluated):
                self._take_run(ready, evaluated)
            case _Opened(copy):
                self._is_open = True
                self._callbacks.opened(copy)
            case _Broke(error):
                raise error
        if self._in_batches and not self._compiling:
            for waiting in sorted(self._batch, key=lambda ready: ready.candidate.number):
                self._ready.put(waiting)
            self._batch.clear()
        return True

    def _take_built(self, candidate: Candidate, compiled: Compiled | Failure) -> None:
        if isinstance(compiled, Failure):
            self._finish(candidate, None, compiled, None)
            return
        self._ledger.add(CostStage.COMPILE, compiled.compile_ms / 1e3)
        key = _code_of(candidate.program, compiled)
        if key in self._outcomes:
            self._ledger.twins += 1
            self._finish(candidate, compiled, *self._outcomes[key])
        elif key in self._twins:
            self._ledger.twins += 1
            self._twins[key].append((candidate, compiled))
        elif self._screen and (failure := self._screen.of_binaries(candidate.program, compiled.binaries)):
            self._finish(candidate, compiled, failure, None)
        else:
            self._twins[key] = []
            self._take_ready(_Ready(candidate, compiled, key))

    def _take_ready(self, ready: _Ready) -> None:
        if self._in_batches:
            self._batch.append(ready)
        elif self._screen and self._screen.should_wait(ready.candidate.program):
            self._waiting.append(ready)
        else:
            self._ready.put(ready)

    def _release(self) -> None:
        """Runs waiting candidates once a time is known, which drops most of them, or once no others are left."""
        if not self._waiting or self._screen is None:
            return
        if self._outstanding == len(self._waiting) or not self._screen.should_wait(self._waiting[0].candidate.program):
            for ready in self._waiting:
                self._ready.put(ready)
            self._waiting.clear()

    def _take_run(self, ready: _Ready, evaluated: Evaluated) -> None:
        for stage, cost_ms in (
            (CostStage.LOAD, evaluated.load_ms),
            (CostStage.VERIFY, evaluated.verify_ms),
            (CostStage.TIME, evaluated.time_ms),
        ):
            self._ledger.add(stage, cost_ms / 1e3)
        gpu = None if self._in_batches else str(self._evaluator.bench.device)
        self._outcomes[ready.code] = (evaluated.outcome, gpu)
        for each, its_compiled in ((ready.candidate, ready.compiled), *self._twins.pop(ready.code)):
            self._finish(each, its_compiled, evaluated.outcome, gpu)

    def _finish(
        self, candidate: Candidate, compiled: Compiled | None, outcome: Measurement | Failure, gpu: str | None
    ) -> None:
        self._outstanding -= 1
        trial = Trial(
            family=candidate.program.family,
            config=candidate.program.config,
            fingerprint=candidate.fingerprint,
            outcome=outcome,
            compiler=self._evaluator.identity_of(candidate.program),
            compile_ms=None if compiled is None else compiled.compile_ms,
            gpu=gpu,
        )
        self._done.append(trial)

    def _serve(self) -> None:
        """Evaluates ready candidates, in a thread of its own."""
        bench = self._evaluator.bench
        try:
            self._events.put(_Opened(bench.copy_timing()))
            broken = 0  # consecutive candidates for which there was no worker
            while (ready := self._ready.get()) is not None:
                try:
                    evaluated, broken = self._evaluated(ready), 0
                except Exception as error:
                    broken += 1
                    if broken == MOST_BROKEN:
                        raise
                    evaluated = Evaluated(failure_of(error), 0.0, 0.0, 0.0)
                self._events.put(_Ran(ready, evaluated))
        except BaseException as error:
            self._events.put(_Broke(error))
        finally:
            self._ended.set()

    def _evaluated(self, ready: _Ready) -> Evaluated:
        candidate = ready.candidate
        # Checked again: candidates requested at the same time may have times by now.
        if self._screen and (failure := self._screen.of_work(candidate.program)):
            return Evaluated(failure, 0.0, 0.0, 0.0)
        self._callbacks.starting(candidate)
        return self._evaluator.bench.evaluate(candidate.program, ready.compiled, self._callbacks.best_ns(candidate))


def _code_of(program: Program, compiled: Compiled) -> str:
    """Hash of the units' machine code and of the steps, equal for candidates that do the same."""
    steps = [step_spec(step) for step in program.steps]
    workspaces = [workspace_spec(workspace) for workspace in program.workspaces]
    images = [[unit.name, hashlib.sha256(compiled.binaries[unit.name].image).hexdigest()] for unit in program.units]
    return hashlib.sha256(json.dumps([images, steps, workspaces]).encode()).hexdigest()
