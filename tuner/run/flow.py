"""Candidates on their way: compiled ahead by many processes, evaluated on one device."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.program import Program
from warpsmith.generator.program_spec import step_spec, workspace_spec
from warpsmith.store.record import Failure, Measurement, Timing, Trial
from warpsmith.tuner.costs import Ledger, Stage
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import Evaluated
from warpsmith.tuner.faults import failure_of
from warpsmith.tuner.run.screen import Screen
from warpsmith.tuner.workers.compile_job import Compiled

AHEAD = 2
"""Candidates for each compiler that are on their way at the least: one that it compiles, and one that waits for it."""
BACKLOG = 1
"""Candidates for each compiler that wait for an open device, at the most: where that takes longer than the compilers,
more would only be asked for knowing less, and kept from other tuners that have nothing left."""
MOST_AHEAD = 8
"""Candidates for each compiler that are on their way at the most, as while the device is being opened."""

MOST_BROKEN = 3
"""Candidates one after the other for which there is no compiler, or no worker to run on, after which the search ends: a
device that was lost does not come back by being asked again."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A config on its way to being measured."""

    number: int
    """In the order of asking."""
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
    """What `_code_of` says, over an image of some 20 KB: asked once."""


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


class Flow:
    """Turns programs into trials, while it is entered.

    On a GPU, trials come in the order in which they end, and programs are asked for as soon as there is room. On the
    host, compilers and candidates share the cores: there a batch is compiled, then timed undisturbed and in order.

    Args:
        evaluator: what compiles and evaluates.
        ask: the next program, or None where there is none now.
        best_ns: the time that a candidate should beat, or None; asked in another thread, just before it runs.
        ledger: where costs are counted.
        total: about how many will be wanted. An eighth of them may be on their way while the device is being opened.
        screen: what drops candidates that cannot win; None to run them all.
        starting: told of each candidate just before it runs, in another thread.
        opened: told once, before any trial, how long the device's own copy takes.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        ask: Callable[[], Program | None],
        best_ns: Callable[[Candidate], float | None],
        ledger: Ledger,
        total: int,
        screen: Screen | None = None,
        starting: Callable[[Candidate], None] = lambda _: None,
        opened: Callable[[Timing | Failure], None] = lambda _: None,
    ) -> None:
        self._evaluator, self._ask, self._best_ns = evaluator, ask, best_ns
        self._ledger, self._screen, self._starting, self._opened = ledger, screen, starting, opened
        self._is_open = False
        self._in_batches = evaluator.device.kind is DeviceKind.HOST
        least, most = AHEAD * evaluator.pool.processes, MOST_AHEAD * evaluator.pool.processes
        self._ahead = evaluator.pool.processes if self._in_batches else max(least, min(most, total // 8))
        self._asked = 0
        self._outstanding = 0
        """Candidates asked for whose trials are not done."""
        self._compiling: dict[Candidate, Future[Compiled | Failure]] = {}
        self._batch: list[_Ready] = []
        self._waiting: list[_Ready] = []
        """Compiled candidates that run after all others, unless a time drops them before."""
        self._ready: queue.SimpleQueue[_Ready | None] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[_Built | _Ran | _Opened | _Broke] = queue.SimpleQueue()
        self._done: collections.deque[Trial] = collections.deque()
        self._twins: dict[str, list[tuple[Candidate, Compiled]]] = {}
        """By machine code and launches: those that wait for the outcome of the one that runs."""
        self._unbuilt = 0
        """Candidates one after the other of which the pool itself failed."""
        self._outcomes: dict[str, tuple[Measurement | Failure, str | None]] = {}
        # Not join(): where Ctrl-C strikes in it, Python 3.11 takes the thread for ended.
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives up what is on its way. What runs may end, but not where somebody pressed Ctrl-C."""
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
        finally:  # also where Ctrl-C is pressed meanwhile: nobody else may use a bench in use
            self._ready.put(None)  # once more where it struck before
            while not self._ended.is_set():
                self._evaluator.bench.interrupt()  # again where it struck before the candidate was sent
                self._ended.wait(0.1)

    def trials(self, deadline: Callable[[], float | None]) -> Iterator[Trial]:
        """What comes of the programs, until there are none now or `deadline` (of time.monotonic) has passed.

        Where there are some later, it goes on by being called again. Raises DeviceError where the device cannot be
        opened.
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
        # Those that end at once, as dropped ones do, take room until they are told of: they are trials too.
        while self._outstanding + len(self._done) < self._ahead and not self._has_enough():
            if (program := self._ask()) is None:
                return
            self._outstanding += 1
            self._start(program)

    def _has_enough(self) -> bool:
        """Whether neither a compiler nor the open device will wait for a candidate."""
        processes = self._evaluator.pool.processes
        return self._is_open and (
            len(self._compiling) >= AHEAD * processes or self._ready.qsize() >= BACKLOG * processes
        )

    def _start(self, program: Program) -> None:
        candidate = Candidate(self._asked, program, program.fingerprint)
        self._asked += 1
        if self._screen and (failure := self._screen.of_program(program, candidate.fingerprint)):
            self._finish(candidate, None, failure, None)
            return
        future = self._evaluator.compile(program)
        self._compiling[candidate] = future
        future.add_done_callback(lambda done: self._built(candidate, done))

    def _built(self, candidate: Candidate, future: Future[Compiled | Failure]) -> None:
        """Called in a thread of the pool."""
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
        """Handles the next event; False where none came in time."""
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
                self._opened(copy)
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
        self._ledger.add(Stage.COMPILE, compiled.compile_ms / 1e3)
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
        """Lets candidates that wait run once a time is known, which drops most of them, or once no others are left."""
        if not self._waiting or self._screen is None:
            return
        if self._outstanding == len(self._waiting) or not self._screen.should_wait(self._waiting[0].candidate.program):
            for ready in self._waiting:
                self._ready.put(ready)
            self._waiting.clear()

    def _take_run(self, ready: _Ready, evaluated: Evaluated) -> None:
        for stage, cost_ms in (
            (Stage.LOAD, evaluated.load_ms),
            (Stage.VERIFY, evaluated.verify_ms),
            (Stage.TIME, evaluated.time_ms),
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
        """Evaluates what is ready, in a thread of its own."""
        bench = self._evaluator.bench
        try:
            self._events.put(_Opened(bench.copy_timing()))
            broken = 0  # candidates one after the other for which there was no worker
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
        # Once more: others that were asked for beside it may have times by now.
        if self._screen and (failure := self._screen.of_work(candidate.program)):
            return Evaluated(failure, 0.0, 0.0, 0.0)
        self._starting(candidate)
        return self._evaluator.bench.evaluate(candidate.program, ready.compiled, self._best_ns(candidate))


def _code_of(program: Program, compiled: Compiled) -> str:
    """What two candidates share that do the same: the machine code of their units, and the steps."""
    steps = [step_spec(step) for step in program.steps]
    workspaces = [workspace_spec(workspace) for workspace in program.workspaces]
    images = [[unit.name, hashlib.sha256(compiled.binaries[unit.name].image).hexdigest()] for unit in program.units]
    return hashlib.sha256(json.dumps([images, steps, workspaces]).encode()).hexdigest()
