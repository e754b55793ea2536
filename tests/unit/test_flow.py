"""Candidates in flow: which are requested, compiled, run and reported, and when."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from builders import NVRTC, binary, launch, numbered, timing, trial
from builders import SMALL as PROBLEM
from builders import measurement as measured
from builders import program as made
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import DeviceError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Work
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.program import Program, Workspace
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind, Measurement, Timing, Trial
from warpsmith.tuner.costs import CostStage, Ledger
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import Evaluated
from warpsmith.tuner.run.flow import AHEAD, BACKLOG, MOST_AHEAD, MOST_BROKEN, Candidate, Flow, FlowCallbacks
from warpsmith.tuner.run.screen import Screen
from warpsmith.tuner.workers.compile_pool import Compiled

PATIENCE_S = 20.0
"""Seconds, far more than anything here waits for, even on a loaded machine."""
SOON_S = 0.3
"""Seconds, long enough for other threads to do what they must not."""
COPY = timing(1.0, samples=3)
REFUSED = Failure(FailureKind.COMPILE, "this is no CUDA")


def program(number: int) -> Program:
    run = launch(grid=(1 + number, 1, 1), block=(256, 1, 1))
    return made(f"// {number}", run, family="plain", config=numbered(number))


def compiled(program: Program, image: bytes | None = None, spill_bytes: int = 0) -> Compiled:
    image = program.source.encode() if image is None else image
    return Compiled({"": binary(image, spill_bytes=spill_bytes)}, 1000.0)


def number_of(trial: Trial | Program) -> int:
    return trial.config.integer("n")


class FakePool:
    """Compiles at once; if `waits`, only when `finish` says so."""

    def __init__(self, processes: int, waits: bool) -> None:
        self.processes, self._waits = processes, waits
        self.results: dict[int, Compiled | Failure | Exception] = {}
        """Outcomes by candidate, if they differ from what `compiled` gives."""
        self.futures: dict[int, Future[Compiled | Failure]] = {}
        self.interrupts = 0

    def submit(self, program: Program) -> Future[Compiled | Failure]:
        future: Future[Compiled | Failure] = Future()
        self.futures[number_of(program)] = future
        self.results.setdefault(number_of(program), compiled(program))
        if not self._waits:
            self.finish(number_of(program))
        return future

    def finish(self, number: int) -> None:
        result, future = self.results[number], self.futures[number]
        future.set_running_or_notify_cancel()
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)

    def interrupt(self) -> None:
        self.interrupts += 1


class FakeBench:
    """A bench that evaluates by `run`, which may wait, and notes its programs."""

    def __init__(self, device: DeviceRef) -> None:
        self.device = device
        self.run: Callable[[int], Measurement | Failure] = lambda number: measured(100.0 + number)
        self.copy: Timing | Failure | Exception = COPY
        self.evaluated: list[int] = []
        self.best: list[float | None] = []
        self.interrupted = threading.Event()
        """Event set when an interrupt strikes a running candidate."""
        self.interrupts = 0
        self._running = threading.Event()

    def copy_timing(self) -> Timing | Failure:
        if isinstance(self.copy, Exception):
            raise self.copy
        return self.copy

    def evaluate(self, program: Program, compiled: Compiled, best_ns: float | None = None) -> Evaluated:  # noqa: ARG002
        self.evaluated.append(number_of(program))
        self.best.append(best_ns)
        self._running.set()
        try:
            return Evaluated(self.run(number_of(program)), load_ms=10.0, verify_ms=20.0, time_ms=40.0)
        finally:
            self._running.clear()

    def until_interrupted(self, _number: int) -> Measurement | Failure:
        """A candidate that does not end by itself."""
        assert self.interrupted.wait(PATIENCE_S), "nobody interrupted it"
        return Failure(FailureKind.CRASH, "interrupted")

    def interrupt(self) -> None:
        self.interrupts += 1
        if self._running.is_set():
            self.interrupted.set()


class Shop:
    """The part of a workshop that a flow needs."""

    def __init__(self, *, host: bool = False, processes: int = 2, waits: bool = False) -> None:
        self.device = HOST if host else H200
        self.compiler_identity = "nvrtc 13.0 with options"
        self.pool = FakePool(processes, waits)
        kind = DeviceKind.HOST if host else DeviceKind.CUDA
        self.bench = FakeBench(DeviceRef(kind, 0))
        self.generate: Callable[[int], Program] = program

    identity_of = Evaluator.identity_of  # over what is above

    def compile(self, program: Program) -> Future[Compiled | Failure]:
        return self.pool.submit(program)


class Asked:
    """Numbers of programs, endless or `count` of them, and how many were requested."""

    def __init__(self, count: int | None = None) -> None:
        self.count = 0
        self._numbers: Iterator[int] = itertools.count() if count is None else iter(range(count))

    def next(self) -> int | None:
        number = next(self._numbers, None)
        self.count += number is not None
        return number


class Callbacks(FlowCallbacks):
    """Programs by number, and functions in place of the other callbacks."""

    def __init__(self, shop: Shop, wanted: Asked, **functions: Callable[[Any], Any]) -> None:
        self._shop, self._wanted = shop, wanted
        for name, function in functions.items():
            assert hasattr(FlowCallbacks, name)
            setattr(self, name, function)

    def next(self) -> Program | None:
        number = self._wanted.next()
        return None if number is None else self._shop.generate(number)


def flow(
    shop: Shop,
    wanted: Asked,
    ledger: Ledger | None = None,
    total: int = 0,
    screen: Screen | None = None,
    **functions: Callable[[Any], Any],
) -> Flow:
    callbacks = Callbacks(shop, wanted, **functions)
    return Flow(shop, callbacks, ledger or Ledger(), total, screen)  # type: ignore[arg-type]


def never() -> None:
    """No deadline."""


def all_trials(shop: Shop, count: int, **others: Any) -> list[Trial]:
    with flow(shop, Asked(count), **others) as opened:
        return list(opened.trials(never))


def screen(
    *,
    poisoned: Any = (),
    best_ns: float | None = None,
    family: Callable[[], Any] | None = None,
    likely_ns: float = math.inf,
) -> Screen:
    families = collections.defaultdict(family or Workless)
    made = Screen(PROBLEM, H200, families, dict(poisoned), drops=True, likely_ns=likely_ns)
    if best_ns is not None:
        made.expect(best_ns)
    return made


class Workless:
    """A family that states no work."""

    def work(self, *_: Any) -> None:
        return None


class Heavy:
    """A family whose candidate 1 has seconds of work."""

    def work(self, _: Any, config: Config) -> Work | None:
        return Work(10**17, 0) if config.integer("n") == 1 else None


class Gates:
    """Gates, one for each candidate, closed at first."""

    def __init__(self) -> None:
        self._gates: dict[int, threading.Event] = collections.defaultdict(threading.Event)

    def open(self, *numbers: int) -> None:
        for number in numbers:
            self._gates[number].set()

    def pass_through(self, number: int) -> Measurement:
        assert self._gates[number].wait(PATIENCE_S), f"candidate {number} was left waiting"
        return measured(100.0 + number)


class TestAsking:
    def test_a_gpu_has_a_few_candidates_ahead_for_each_compiler_and_no_more(self) -> None:
        shop, wanted = Shop(processes=2, waits=True), Asked()
        with flow(shop, wanted) as opened:
            trials = opened.trials(never)
            for done in range(4):
                threading.Timer(SOON_S, shop.pool.finish, [done]).start()
                assert number_of(next(trials)) == done
                assert wanted.count == 2 * AHEAD + done

    def test_where_the_gpu_takes_longer_a_few_wait_for_it_and_no_more(self) -> None:
        """Holds however many may be on their way; while the GPU is opened, compilers need not wait."""
        shop, wanted, gates = Shop(processes=2), Asked(), Gates()
        shop.bench.run = gates.pass_through
        with flow(shop, wanted, total=10**6) as opened:
            trials = opened.trials(never)
            for done in range(4 * MOST_AHEAD):
                gates.open(done)
                assert number_of(next(trials)) == done
                # One runs, and one may have left the queue or not, by the time that it is looked at.
                assert done + 2 * BACKLOG <= wanted.count <= max(2 * MOST_AHEAD, done + 2 + 2 * (AHEAD + BACKLOG))
            gates.open(*range(wanted.count))

    @pytest.mark.parametrize(
        ("total", "ahead"), [(0, 2 * AHEAD), (39, 2 * AHEAD), (40, 5), (120, 15), (10**6, 2 * MOST_AHEAD)]
    )
    def test_the_more_there_are_to_come_the_more_are_ahead(self, total: int, ahead: int) -> None:
        shop, wanted, gates = Shop(processes=2), Asked(), Gates()
        shop.bench.run = gates.pass_through
        with flow(shop, wanted, total=total) as opened:
            assert list(opened.trials(lambda: time.monotonic() + SOON_S)) == []
            gates.open(*range(wanted.count))
        assert wanted.count == ahead

    def test_the_host_has_one_for_each_compiler(self) -> None:
        shop, wanted = Shop(host=True, processes=3), Asked()
        with flow(shop, wanted) as opened:
            trials = opened.trials(never)
            counts = []
            for _ in range(6):
                next(trials)
                counts.append(wanted.count)
        assert counts == [3, 3, 3, 6, 6, 6]

    @pytest.mark.parametrize("host", [False, True])
    def test_those_that_end_at_once_take_room_until_they_are_told_of(self, host: bool) -> None:
        """A search that hears of no result would otherwise request its whole space."""
        shop, wanted = Shop(host=host), Asked()
        poisoned = {program(number).fingerprint: Failure(FailureKind.CRASH, "so it did") for number in range(1000)}
        with flow(shop, wanted, screen=screen(poisoned=poisoned)) as opened:
            for done, trial in enumerate(itertools.islice(opened.trials(never), 50)):
                assert number_of(trial) == done
                assert wanted.count <= done + (2 if host else 2 * AHEAD)

    def test_it_ends_where_there_is_no_more(self) -> None:
        assert sorted(map(number_of, all_trials(Shop(), 20))) == list(range(20))
        assert sorted(map(number_of, all_trials(Shop(host=True), 5))) == list(range(5))
        assert all_trials(Shop(), 0) == []

    def test_the_best_time_is_asked_just_before_a_candidate_runs(self) -> None:
        shop, best = Shop(), {"ns": 500.0}

        def run(number: int) -> Measurement:
            best["ns"] -= 100
            return measured(number)

        shop.bench.run = run
        all_trials(shop, 3, best_ns=lambda _: best["ns"])
        assert shop.bench.best == [500, 400, 300]


class TestTrials:
    def test_say_what_was_tried_and_where(self) -> None:
        assert all_trials(Shop(), 1) == [
            trial(
                0,
                measured(100.0),
                fingerprint=program(0).fingerprint,
                compiler=f"{NVRTC} with options",
                compile_ms=1000.0,
                gpu="cuda:0",
            )
        ]

    def test_on_the_host_they_name_no_gpu(self) -> None:
        (trial,) = all_trials(Shop(host=True), 1)
        assert trial.gpu is None
        assert trial.outcome == measured(100.0)

    def test_what_does_not_compile_is_a_trial_and_is_not_run(self) -> None:
        shop = Shop()
        shop.pool.results[1] = REFUSED
        trials = {number_of(trial): trial for trial in all_trials(shop, 3)}
        assert (trials[1].outcome, trials[1].compile_ms, trials[1].gpu) == (REFUSED, None, None)
        assert shop.bench.evaluated == [0, 2]

    def test_a_gpu_tells_them_as_they_end(self) -> None:
        shop = Shop(waits=True)
        with flow(shop, Asked(3)) as opened:
            trials = opened.trials(never)
            for number in (1, 2, 0):
                threading.Timer(SOON_S, shop.pool.finish, [number]).start()
                assert number_of(next(trials)) == number
            assert list(trials) == []


class TestBatches:
    """Batches on the host, where compilers and candidates share the cores."""

    def test_nothing_runs_while_something_compiles_and_then_all_in_order(self) -> None:
        shop, told = Shop(host=True, processes=3, waits=True), []
        with flow(shop, Asked(3)) as opened:
            taker = threading.Thread(target=lambda: told.extend(opened.trials(never)))
            taker.start()
            for number in (2, 0):
                await_that(lambda number=number: number in shop.pool.futures)
                shop.pool.finish(number)
            time.sleep(SOON_S)
            assert shop.bench.evaluated == []
            shop.pool.finish(1)
            taker.join(PATIENCE_S)
        assert shop.bench.evaluated == [0, 1, 2]
        assert [number_of(trial) for trial in told] == [0, 1, 2]

    def test_nothing_compiles_while_something_runs(self) -> None:
        shop, gates = Shop(host=True, processes=2), Gates()
        compiling: list[set[int]] = []

        def run(number: int) -> Measurement:
            compiling.append(set(shop.pool.futures))
            return gates.pass_through(number)

        shop.bench.run = run
        gates.open(*range(4))
        all_trials(shop, 4)
        assert compiling == [{0, 1}, {0, 1}, {0, 1, 2, 3}, {0, 1, 2, 3}]

    def test_a_batch_of_which_the_last_does_not_compile_runs_all_the_same(self) -> None:
        shop = Shop(host=True, processes=3)
        shop.pool.results[2] = REFUSED
        trials = all_trials(shop, 4)
        assert shop.bench.evaluated == [0, 1, 3]
        assert sorted(map(number_of, trials)) == [0, 1, 2, 3]


class TestTwins:
    """Candidates with the same binary and launch."""

    @pytest.fixture
    def shop(self) -> Shop:
        """A shop whose candidates 0 and 2 have the same binary and the same launch."""
        shop = Shop()
        shop.generate = lambda number: dataclasses.replace(program(number), steps=program(0).steps)
        shop.pool.results[0] = compiled(program(0), b"the same")
        shop.pool.results[2] = dataclasses.replace(compiled(program(2), b"the same"), compile_ms=7.0)
        return shop

    def test_are_run_once_where_the_first_has_ended(self, shop: Shop) -> None:
        shop.pool.processes = 1
        ledger = Ledger()
        with flow(shop, Asked(9), ledger=ledger) as opened:
            trials = {}
            for trial in opened.trials(never):
                trials[number_of(trial)] = trial
        assert shop.bench.evaluated == [0, 1, *range(3, 9)]
        assert trials[2].outcome == trials[0].outcome == measured(100.0)
        assert (trials[2].compile_ms, trials[2].gpu, trials[2].config) == (7.0, "cuda:0", program(2).config)
        assert ledger.twins == 1

    def test_are_run_once_where_the_first_still_runs(self, shop: Shop) -> None:
        gates, ledger = Gates(), Ledger()
        shop.bench.run = gates.pass_through
        with flow(shop, Asked(3), ledger=ledger) as opened:
            trials = opened.trials(lambda: time.monotonic() + SOON_S)
            assert list(trials) == []  # all are compiled, the first still runs
            assert (shop.bench.evaluated, ledger.twins) == ([0], 1)
            gates.open(0, 1)
            told = {number_of(trial): trial for trial in opened.trials(never)}
        assert shop.bench.evaluated == [0, 1]
        assert told[2].outcome == told[0].outcome == measured(100.0)

    def test_share_a_failure_too(self, shop: Shop) -> None:
        crash = Failure(FailureKind.CRASH, "illegal address")
        shop.bench.run = lambda number: crash if number == 0 else measured(number)
        trials = {number_of(trial): trial for trial in all_trials(shop, 3)}
        assert trials[2].outcome == trials[0].outcome == crash
        assert shop.bench.evaluated == [0, 1]

    def test_on_the_host_they_are_too(self) -> None:
        shop = Shop(host=True)
        shop.generate = lambda number: dataclasses.replace(program(number), steps=program(0).steps)
        shop.pool.results = {number: compiled(program(number), b"the same") for number in range(5)}
        assert len(all_trials(shop, 5)) == 5
        assert shop.bench.evaluated == [0]

    @pytest.mark.parametrize(
        "change",
        [
            {"steps": (dataclasses.replace(program(0).launches[0], grid=(9, 1, 1)),)},
            {"steps": (dataclasses.replace(program(0).launches[0], shared_bytes=16),)},
            {"steps": program(0).steps * 2},
            {"workspaces": (Workspace("sums", 64),)},
        ],
        ids=["grid", "shared memory", "twice", "workspace"],
    )
    def test_are_none_where_one_binary_is_launched_in_two_ways(self, shop: Shop, change: dict[str, Any]) -> None:
        alike = shop.generate
        shop.generate = lambda number: dataclasses.replace(alike(number), **(change if number == 2 else {}))
        all_trials(shop, 3)
        assert shop.bench.evaluated == [0, 1, 2]


class TestScreened:
    def test_a_poisoned_candidate_is_neither_compiled_nor_run(self) -> None:
        shop, started = Shop(), []
        poisoned = {program(1).fingerprint: Failure(FailureKind.TIMEOUT, "no answer within 10 s")}
        trials = all_trials(shop, 3, screen=screen(poisoned=poisoned), starting=started.append)
        told = {number_of(trial): trial for trial in trials}
        assert told[1].outcome == Failure(FailureKind.TIMEOUT, "not run again: no answer within 10 s")
        assert (told[1].compile_ms, told[1].gpu) == (None, None)
        assert set(shop.pool.futures) == {0, 2}
        assert shop.bench.evaluated == [each.number for each in started] == [0, 2]

    @pytest.mark.parametrize("host", [False, True])
    def test_a_dropped_candidate_is_not_run(self, host: bool) -> None:
        shop = Shop(host=host, processes=3)
        shop.pool.results[1] = compiled(program(1), spill_bytes=100)
        trials = {number_of(trial): trial for trial in all_trials(shop, 3, screen=screen(best_ns=1e9))}
        assert trials[1].outcome == Failure(FailureKind.DROPPED, "each thread spills 100 bytes of registers")
        assert trials[1].compile_ms == 1000.0
        assert shop.bench.evaluated == [0, 2]

    def test_one_that_cannot_win_any_more_is_dropped_when_its_turn_comes(self) -> None:
        """All candidates are requested and compiled before the first has a time."""
        shop, started, made = Shop(processes=3), [], screen(family=Heavy)

        def run(number: int) -> Measurement:
            made.expect(1000.0)
            return measured(1000.0 + number)

        shop.bench.run = run
        trials = {number_of(trial): trial for trial in all_trials(shop, 3, screen=made, starting=started.append)}
        assert set(shop.pool.futures) == {0, 1, 2}
        assert shop.bench.evaluated == [each.number for each in started] == [0, 2]
        outcome = trials[1].outcome
        assert isinstance(outcome, Failure)
        assert outcome.kind is FailureKind.DROPPED

    def test_one_with_more_work_than_others_are_expected_to_take_waits_for_a_time(self) -> None:
        """Candidate 1 is compiled first and dropped because of another candidate's time."""
        shop, made = Shop(processes=3, waits=True), screen(family=Heavy, likely_ns=1000.0)

        def run(number: int) -> Measurement:
            made.expect(1000.0)
            return measured(1000.0 + number)

        shop.bench.run = run
        with flow(shop, Asked(3), screen=made) as opened:
            for finished in ((), (1,)):
                for number in finished:
                    shop.pool.finish(number)
                assert list(opened.trials(lambda: time.monotonic() + SOON_S)) == []
            shop.pool.finish(0)
            shop.pool.finish(2)
            outcomes = {number_of(trial): trial.outcome for trial in opened.trials(never)}
        assert shop.bench.evaluated == [0, 2]
        assert isinstance(outcomes[1], Failure)
        assert outcomes[1].kind is FailureKind.DROPPED

    def test_one_that_waits_runs_where_all_others_fail(self) -> None:
        shop = Shop(processes=3)
        shop.bench.run = lambda number: measured(1e6) if number == 1 else Failure(FailureKind.WRONG, "wrong")
        trials = all_trials(shop, 4, screen=screen(family=Heavy, likely_ns=1000.0))
        assert [number_of(trial) for trial in trials] == shop.bench.evaluated == [0, 2, 3, 1]
        assert trials[-1].outcome == measured(1e6)

    def test_what_runs_is_told_of_just_before(self) -> None:
        shop, log = Shop(), []
        shop.bench.run = lambda number: log.append(("runs", number)) or measured(1.0)

        def starting(candidate: Candidate) -> None:
            assert candidate.fingerprint == program(candidate.number).fingerprint
            log.append(("starts", candidate.number))

        all_trials(shop, 2, starting=starting)
        assert log == [("starts", 0), ("runs", 0), ("starts", 1), ("runs", 1)]


class TestOpening:
    @pytest.mark.parametrize("copy", [COPY, Failure(FailureKind.CRASH, "no copy")])
    @pytest.mark.parametrize("host", [False, True])
    def test_is_told_once_and_before_any_trial(self, host: bool, copy: Timing | Failure) -> None:
        shop, log = Shop(host=host), []
        shop.bench.copy = copy
        with flow(
            shop,
            Asked(4),
            screen=screen(poisoned={program(0).fingerprint: Failure(FailureKind.CRASH, "once")}),
            opened=lambda copy: log.append(copy),
        ) as opened:
            for trial in opened.trials(never):
                log.append(number_of(trial))
        assert log[:2] == [copy, 0]
        assert sorted(log[1:]) == [0, 1, 2, 3]

    @pytest.mark.parametrize("host", [False, True])
    def test_that_fails_is_raised_in_the_caller(self, host: bool) -> None:
        shop = Shop(host=host)
        shop.bench.copy = DeviceError("no GPU here")
        with pytest.raises(DeviceError, match="no GPU here"), flow(shop, Asked()) as opened:
            next(opened.trials(never))

    def test_a_compiler_that_cannot_start_a_process_fails_its_candidate(self) -> None:
        shop = Shop()
        shop.pool.results[1] = OSError("no more processes")
        outcomes = {number_of(trial): trial.outcome for trial in all_trials(shop, 3)}
        assert outcomes[1] == Failure(FailureKind.CRASH, "OSError: no more processes")
        assert isinstance(outcomes[0], Measurement)
        assert isinstance(outcomes[2], Measurement)

    def test_whatever_goes_wrong_in_a_thread_fails_its_candidate(self) -> None:
        def starting(candidate: Candidate) -> None:
            if candidate.number == 1:
                raise ZeroDivisionError("planted")

        outcomes = {number_of(trial): trial.outcome for trial in all_trials(Shop(), 3, starting=starting)}
        assert outcomes[1] == Failure(FailureKind.CRASH, "ZeroDivisionError: planted")
        assert isinstance(outcomes[2], Measurement)

    def test_what_goes_wrong_for_several_one_after_the_other_is_raised(self) -> None:
        with pytest.raises(ZeroDivisionError):
            all_trials(Shop(), MOST_BROKEN, starting=lambda _: 1 / 0)

    def test_a_pool_that_compiles_nothing_is_raised(self) -> None:
        shop = Shop()
        shop.pool.results.update(dict.fromkeys(range(MOST_BROKEN), OSError("no more processes")))
        with pytest.raises(OSError, match="no more processes"):
            all_trials(shop, MOST_BROKEN)


class TestLeaving:
    def test_normally_waits_for_what_runs_and_gives_up_the_rest(self) -> None:
        shop, gates = Shop(processes=2), Gates()
        shop.bench.run = gates.pass_through
        gates.open(0)
        ended = []
        for number in range(3):
            shop.pool.results[number] = compiled(program(number))
        with flow(shop, Asked()) as opened:
            next(opened.trials(never))
            await_that(lambda: shop.bench.evaluated == [0, 1])
            timer = threading.Timer(SOON_S, lambda: (ended.append("1"), gates.open(1)))
            timer.start()
        assert ended == ["1"]  # it was waited for
        assert shop.bench.evaluated == [0, 1]  # what was ready did not begin
        assert shop.bench.interrupts == 0

    def test_normally_gives_up_what_compiles(self) -> None:
        shop = Shop(processes=2, waits=True)
        with flow(shop, Asked()) as opened:
            assert list(opened.trials(lambda: time.monotonic() + SOON_S)) == []
            shop.pool.futures[0].set_running_or_notify_cancel()  # a process is at it
        assert not shop.pool.futures[0].cancelled()
        assert all(shop.pool.futures[number].cancelled() for number in range(1, 2 * AHEAD))
        assert shop.pool.interrupts == 1
        assert shop.bench.evaluated == []

    def test_after_all_is_done_interrupts_nobody(self) -> None:
        shop = Shop()
        all_trials(shop, 3)
        assert (shop.pool.interrupts, shop.bench.interrupts) == (0, 0)

    def test_by_an_exception_interrupts_what_runs(self) -> None:
        shop = Shop()
        shop.bench.run = shop.bench.until_interrupted
        with contextlib.suppress(KeyboardInterrupt), flow(shop, Asked()) as opened:
            list(opened.trials(lambda: time.monotonic() + SOON_S))
            assert shop.bench.evaluated == [0]
            raise KeyboardInterrupt
        assert shop.bench.interrupted.is_set()
        assert shop.bench.evaluated == [0]

    def test_by_an_exception_interrupts_also_what_is_just_about_to_run(self) -> None:
        shop, reached = Shop(), threading.Event()
        shop.bench.run = shop.bench.until_interrupted

        def starting(_: Candidate) -> None:
            reached.set()
            time.sleep(SOON_S)  # meanwhile the first interrupt finds nothing that runs

        with contextlib.suppress(KeyboardInterrupt), flow(shop, Asked(), starting=starting) as opened:
            list(opened.trials(lambda: time.monotonic() + 0.05))
            assert reached.wait(PATIENCE_S)
            raise KeyboardInterrupt
        assert shop.bench.interrupted.is_set()

    def test_ctrl_c_while_it_waits_for_what_runs_ends_that(self) -> None:
        """No thread still uses the bench after the interrupt."""
        shop, before = Shop(), threading.active_count()
        shop.bench.run = shop.bench.until_interrupted

        def press() -> None:
            await_that(lambda: {"__exit__", "wait"} <= set(names_of_calls(threading.main_thread())))
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        opened = flow(shop, Asked()).__enter__()
        list(opened.trials(lambda: time.monotonic() + SOON_S))
        assert shop.bench.evaluated == [0]
        threading.Thread(target=press).start()
        with pytest.raises(KeyboardInterrupt):
            opened.__exit__(None, None, None)
        assert shop.bench.interrupted.is_set()
        await_that(lambda: threading.active_count() == before)

    def test_leaves_no_thread_behind(self) -> None:
        before = threading.active_count()
        for count in (0, 1, 5):
            all_trials(Shop(), count)
        await_that(lambda: threading.active_count() == before)


class TestDeadline:
    def test_ends_it(self) -> None:
        shop = Shop()
        shop.bench.run = lambda number: measured(1.0) if number == 0 else shop.bench.until_interrupted(number)
        start = time.monotonic()
        with contextlib.suppress(KeyboardInterrupt), flow(shop, Asked()) as opened:
            told = [number_of(trial) for trial in opened.trials(lambda: start + 2 * SOON_S)]
            assert told == [0]
            assert 2 * SOON_S <= time.monotonic() - start < PATIENCE_S
            raise KeyboardInterrupt  # ends the running candidate

    def test_is_asked_anew_and_may_come_later(self) -> None:
        """A deadline may be absent (None) before the first trial and appear later."""
        shop, gates, asked = Shop(), Gates(), []

        def deadline() -> float | None:
            asked.append(None)
            return None if len(asked) < 3 else time.monotonic()

        shop.bench.run = gates.pass_through
        threading.Timer(SOON_S, gates.open, (0,)).start()
        with flow(shop, Asked()) as opened:
            told = [number_of(trial) for trial in opened.trials(deadline)]
            gates.open(*range(9))
        assert told in ([], [0])
        assert len(asked) >= 3

    def test_that_has_passed_still_lets_the_device_open(self) -> None:
        shop, opened_with = Shop(), []
        with flow(shop, Asked(), opened=opened_with.append) as opened:
            list(opened.trials(lambda: 0.0))
        assert opened_with == [COPY]


class TestCosts:
    def test_add_up(self) -> None:
        shop, ledger = Shop(), Ledger()
        shop.pool.results[3] = REFUSED
        all_trials(shop, 4, ledger=ledger)
        told = {
            stage: ledger.seconds[stage]
            for stage in (CostStage.COMPILE, CostStage.LOAD, CostStage.VERIFY, CostStage.TIME)
        }
        assert told == pytest.approx(
            {CostStage.COMPILE: 3.0, CostStage.LOAD: 0.03, CostStage.VERIFY: 0.06, CostStage.TIME: 0.12}
        )
        elsewhere = (CostStage.ASK, CostStage.GENERATE, CostStage.STORE, CostStage.CHOOSE)
        assert not any(ledger.seconds[stage] for stage in elsewhere)

    def test_a_twin_costs_its_compilation_alone(self) -> None:
        shop, ledger = Shop(), Ledger()
        shop.generate = lambda number: dataclasses.replace(program(number), steps=program(0).steps)
        shop.pool.results = {number: compiled(program(number), b"the same") for number in range(4)}
        all_trials(shop, 4, ledger=ledger)
        assert ledger.seconds[CostStage.COMPILE] == pytest.approx(4.0)
        assert ledger.seconds[CostStage.TIME] == pytest.approx(0.04)
        assert ledger.twins == 3


def await_that(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def names_of_calls(thread: threading.Thread) -> Iterator[str]:
    """Names of the functions that the thread is running, innermost first."""
    assert thread.ident is not None
    frame = sys._current_frames().get(thread.ident)
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back
