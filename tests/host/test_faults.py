"""Whole tuning runs on the CPU with real faults: no stored data is lost, the winner is right, and the search ends or
resumes.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from builders import failure, trial
from policies import TIME_BRIEFLY
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import StoreError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.space import Config
from warpsmith.store import sqlite
from warpsmith.store.contents import check_store
from warpsmith.store.record import Failure, FailureKind, Measurement, Record, Trial
from warpsmith.store.rows import MAX_STARTS
from warpsmith.store.store import Store
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress, Snapshot
from warpsmith.tuner.report import TuneReport
from warpsmith.tuner.run.session import tune
from warpsmith.tuner.workers import compile_pool
from warpsmith.tuner.workers.compile_pool import CompilePool
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.workers.worker_pool import COMPILER_MEMORY_BYTES

HOST = DeviceRef(DeviceKind.HOST)
PROBLEM = Filter2d(image=(24, 32), filter=(3, 3))
OTHER = Filter2d(image=(25, 32), filter=(3, 3))
PATIENCE_S = 90.0
"""Far longer than any test here takes, even on a loaded machine."""
PATIENT = {"compile_s": 80.0, "least_compile_s": 80.0, "first_run_s": 80.0, "least_run_s": 80.0}
"""Deadlines that no test here exceeds."""

CRASHES = "*reinterpret_cast<volatile int*>(8) = 1;"
TAKES_A_WHILE = "if (blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0) usleep(100000);"
"""A tenth of a second in each of the ten or so runs of a verification and its timing. Like the next one it sleeps, so
that other tests have the cores meanwhile.
"""
NEVER_ENDS = "for (volatile int i = 0; i >= 0; i = 0) { usleep(10000); }"

# A compiler that obeys a comment in the source. Without such a comment it runs the machine's own compiler.
COMPILER = """#!/bin/bash
case " $* " in *" -dM "*|*" -print"*) exec {gxx} {options} "$@" ;; esac
source=$(cat)
echo "$source" | grep -o 'number = [0-9]*' >> {notes}/compiled
case "$source" in
    *"// compiler: crash"*) kill -SEGV $$ ;;
    *"// compiler: hang"*) sleep 600 & echo $$ $! > {notes}/hanging; wait ;;
    *"// compiler: greedy"*) {python} -c 'bytearray({greed})' || { echo "error: no memory" >&2; exit 1; } ;;
    *"// compiler: dawdle"*) echo $PPID > {notes}/dawdling; sleep 0.7 ;;
    *"// compiler: wait"*) echo $PPID > {notes}/waiting; while [ ! -e {notes}/go ]; do sleep 0.05; done ;;
esac
exec {gxx} {options} "$@" <<< "$source"
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Path]:
    """Folder in which a compiler of `compiler_of_tests` leaves notes."""
    folder = tmp_path / "notes"
    folder.mkdir()
    yield folder
    (folder / "go").touch()
    for pid in hanging(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def hanging(notes: Path) -> list[int]:
    """Processes of a compiler that hangs."""
    note = notes / "hanging"
    return [int(pid) for pid in note.read_text().split()] if note.exists() else []


def compiler_of_tests(notes: Path, options: str = "") -> Path:
    """A compiler that obeys comments in sources. With `options` it has another identity."""
    gxx = shutil.which("g++") or shutil.which("clang++")
    assert gxx
    path = notes / f"compiler{options}"
    greed = COMPILER_MEMORY_BYTES + (1 << 30)
    words = {"gxx": gxx, "notes": notes, "python": sys.executable, "greed": greed, "options": options}
    text = COMPILER
    for word, value in words.items():
        text = text.replace(f"{{{word}}}", shlex.quote(str(value)) if value else "")
    path.write_text(text)
    path.chmod(0o755)
    return path


class TunerHere:
    """Tuner that runs in a thread of this process."""

    def __init__(
        self,
        script: ModuleType,
        store: Path,
        numbers: range,
        *,
        faults: Mapping[int, str] | None = None,
        deadlines: Mapping[str, float] | None = None,
        progress: Any = None,
        **options: Any,
    ) -> None:
        told = {"trials": len(numbers), "deadlines": Deadlines(**{**PATIENT, **(deadlines or {})}), **options}
        self._store, self._progress = store, progress or SilentProgress()
        self._family, self._options = script.Numbered(numbers, faults or {}), TuneOptions(**told)
        self._report: TuneReport | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Store.open(str(self._store), write=True) as opened:
                self._report = tune(PROBLEM, (HOST,), opened, self._options, self._progress, (self._family,))
        except Exception as error:
            self._error = error

    def report(self) -> TuneReport:
        """Report of the run. Raises the run's exception if it failed."""
        self._thread.join(PATIENCE_S)
        if self._error:
            raise self._error
        assert self._report, "it hangs"
        return self._report

    def check_that_it_runs(self) -> None:
        assert self._thread.is_alive(), self._error


def workers_here(niceness: int) -> list[int]:
    """Worker processes of this process. Those of niceness 0 run candidates, the others compile."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (each / "cmdline").read_bytes().split(b"\0")
            if b"warpsmith.workers.main" in words and words[-4:-1:2] == [b"%d" % os.getpid(), b"%d" % niceness]:
                found.append(int(each.name))
    return found


@pytest.fixture
def start(start_at: Callable[..., Any], store: Path) -> Callable[..., Any]:
    """Starts tuning runs that time briefly: `start(range(5), faults={1: CRASHES}, seed=3)`."""

    def call(numbers: range, *, prelude: str = "", **others: Any) -> Any:
        return start_at(store, numbers, prelude=f"{prelude}\n{TIME_BRIEFLY}", **others)

    return call


@pytest.fixture
def start_here(script: ModuleType, store: Path) -> Callable[..., TunerHere]:
    """Starts tuners in this process."""
    return functools.partial(TunerHere, script, store)


def trials_in(store: Path) -> dict[int, Trial]:
    """Trials in a store by their config's number `n`."""
    with Store.open(str(store), write=False) as opened:
        return {trial.config.integer("n"): trial for trial in opened.trials(PROBLEM, HOST.device())}


def failures_in(store: Path) -> dict[int, FailureKind]:
    found = {number: trial.outcome for number, trial in trials_in(store).items()}
    return {number: outcome.kind for number, outcome in found.items() if isinstance(outcome, Failure)}


def message_of(trial: Trial) -> str:
    assert isinstance(trial.outcome, Failure)
    return trial.outcome.message


def starts_of(store: Path, number: int) -> int:
    """Number of starts without an end that the store notes for a candidate."""
    if not store.exists():
        return 0
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=5)) as connection:
        try:
            rows = connection.execute("SELECT config, starts FROM warpsmith_poisoned").fetchall()
        except sqlite3.OperationalError:  # no tables yet, or a killed writer's journal
            return 0
    return sum(starts for config, starts in rows if json.loads(config) == {"n": number})


def await_that(condition: Callable[[], object], tuner: Any = None) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        if tuner is not None:
            tuner.check_that_it_runs()
        assert time.monotonic() < give_up
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def winner_in(store: Path) -> Record:
    with Store.open(str(store), write=False) as opened:
        record = opened.winner(PROBLEM.key(), HOST.device().key())
    assert record is not None
    return record


def check_winner(store: Path, told: Any = None) -> None:
    """Checks that the stored winner is right, a trial, and the one in the report, and that the store is sound."""
    record = winner_in(store)
    number = record.trial.config.integer("n")
    if isinstance(told, TuneReport):
        assert told.record == record
    elif told is not None:
        assert told["winner"] == number
    assert isinstance(record.trial.outcome, Measurement)
    assert 0 < record.trial.outcome.max_error <= 1e-6
    assert isinstance(trials_in(store)[number].outcome, Measurement)
    with Store.open(str(store), write=False) as opened:
        assert check_store(opened) == ()


@pytest.mark.usefixtures("start_workers")  # found by their command lines
class TestWorkers:
    """Faults of the processes that run and compile candidates."""

    def test_a_killed_bench_costs_the_candidate_that_ran(
        self, start_here: Callable[..., TunerHere], store: Path
    ) -> None:
        tuner = start_here(range(5), faults={2: NEVER_ENDS})
        await_that(lambda: starts_of(store, 2), tuner)
        (bench,) = workers_here(niceness=0)
        os.kill(bench, signal.SIGKILL)
        told = tuner.report()
        assert failures_in(store) == {2: FailureKind.CRASH}
        assert message_of(trials_in(store)[2]) == "the worker process was killed by SIGKILL"
        assert set(trials_in(store)) == set(range(5))
        check_winner(store, told)

    def test_a_killed_compiler_process_costs_the_program_that_it_compiled(
        self, start_here: Callable[..., TunerHere], store: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CXX", str(compiler_of_tests(notes)))
        tuner = start_here(range(5), faults={2: "// compiler: wait"})
        note = notes / "waiting"
        await_that(lambda: note.exists() and note.read_text().endswith("\n"), tuner)
        worker = int(note.read_text())
        assert worker in workers_here(niceness=compile_pool.NICENESS)
        os.kill(worker, signal.SIGKILL)
        told = tuner.report()
        (notes / "go").touch()
        assert failures_in(store) == {2: FailureKind.COMPILE}
        assert message_of(trials_in(store)[2]) == "compiling: the worker process was killed by SIGKILL"
        assert set(trials_in(store)) == set(range(5))
        check_winner(store, told)

    def test_a_stopped_bench_is_killed_at_its_deadline(self, start_here: Callable[..., TunerHere], store: Path) -> None:
        deadlines = {"first_run_s": 4.0, "least_run_s": 3.0, "run_factor": 2.0}
        tuner = start_here(range(8), faults={2: TAKES_A_WHILE}, deadlines=deadlines)
        await_that(lambda: starts_of(store, 2), tuner)
        (bench,) = workers_here(niceness=0)
        os.kill(bench, signal.SIGSTOP)
        told = tuner.report()
        assert failures_in(store) == {2: FailureKind.TIMEOUT}
        assert not is_running(bench)
        assert set(trials_in(store)) == set(range(8))
        check_winner(store, told)


class TestTuner:
    def test_one_that_was_stopped_past_all_deadlines_calls_nobody_late(
        self, start: Callable[..., Any], store: Path, notes: Path
    ) -> None:
        """The tuner stops, as at Ctrl-Z, while its workers go on."""
        deadlines = {"compile_s": 3.5, "least_compile_s": 3.5, "first_run_s": 3.5, "least_run_s": 3.5}
        environment = {"CXX": str(compiler_of_tests(notes))}
        faults = {0: "// compiler: dawdle", 1: TAKES_A_WHILE}
        tuner = start(range(4), faults=faults, environment=environment, deadlines=deadlines)
        for begun in ((notes / "dawdling").exists, lambda: starts_of(store, 1)):
            await_that(begun, tuner)
            tuner.process.send_signal(signal.SIGSTOP)
            time.sleep(3.7)
            tuner.process.send_signal(signal.SIGCONT)
        told = tuner.report()
        assert failures_in(store) == {}
        assert set(trials_in(store)) == set(range(4))
        check_winner(store, told)

    def test_one_that_was_killed_often_by_one_candidate_runs_it_no_more(
        self, start: Callable[..., Any], store: Path
    ) -> None:
        for deaths in range(1, MAX_STARTS + 1):
            tuner = start(range(3), faults={0: NEVER_ENDS})
            await_that(lambda deaths=deaths: starts_of(store, 0) == deaths, tuner)
            tuner.kill()
        told = start(range(3), faults={0: NEVER_ENDS}).report()
        assert failures_in(store) == {0: FailureKind.CRASH}
        died = f"not run again: the tuner died {MAX_STARTS} times while it ran"
        assert message_of(trials_in(store)[0]) == died
        check_winner(store, told)

    def test_two_at_one_file_both_end_and_lose_nothing(self, start: Callable[..., Any], store: Path) -> None:
        first, second = start(range(5), seed=1), start(range(3, 9), seed=2)
        winners = {first.report()["winner"], second.report()["winner"]}
        assert set(trials_in(store)) == set(range(9))
        assert failures_in(store) == {}
        check_winner(store)
        assert winner_in(store).trial.config.integer("n") in winners
        with Store.open(str(store), write=False) as opened:
            tried = sorted(run.spec["trials"] for run in opened.runs.of(PROBLEM, HOST.device()))
        # A tuner that begins late skips what the other has stored by then.
        assert len(tried) == 2
        assert 9 <= sum(tried) <= 5 + 6


class TestCompilers:
    def test_that_crash_hang_or_take_all_memory_cost_one_program_each(
        self, start_here: Callable[..., TunerHere], store: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CXX", str(compiler_of_tests(notes)))
        faults = {1: "// compiler: crash", 2: "// compiler: hang", 3: "// compiler: greedy"}
        deadlines = {"compile_s": 4.0, "least_compile_s": 4.0}
        told = start_here(range(6), faults=faults, deadlines=deadlines).report()
        assert failures_in(store) == dict.fromkeys(faults, FailureKind.COMPILE)
        messages = {number: message_of(trials_in(store)[number]) for number in faults}
        assert "refused the program" in messages[1]
        assert messages[2] == "the compiler gave no answer within 4 s"
        assert messages[3].endswith("refused the program: error: no memory")
        assert set(trials_in(store)) == set(range(6))
        check_winner(store, told)

    def test_one_that_hangs_is_not_left_behind(self, script: ModuleType, notes: Path) -> None:
        compiler = HostCompiler(str(compiler_of_tests(notes)))
        assert compiler.identity  # asked ahead of the deadline
        program = script.Numbered([0], {0: "// compiler: hang"}).program(PROBLEM, Config.of({"n": 0}))
        with contextlib.closing(CompilePool(compiler, Deadlines(compile_s=2.5))) as pool:
            outcome = pool.submit(program).result(PATIENCE_S)
            assert outcome == Failure(FailureKind.COMPILE, "the compiler gave no answer within 2.5 s")
            await_that((notes / "hanging").exists)
            time.sleep(0.5)
            assert not any(is_running(pid) for pid in hanging(notes))


class TestPoison:
    def test_what_crashed_is_not_run_again_with_another_seed_or_compiler(
        self, start_here: Callable[..., TunerHere], store: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told = start_here(range(4), faults={2: CRASHES}).report()
        assert told.failures == {FailureKind.CRASH: 1}
        crash = message_of(trials_in(store)[2])
        assert crash == "the worker process was killed by SIGSEGV"

        monkeypatch.setenv("CXX", str(compiler_of_tests(notes, "-DOF_ANOTHER_IDENTITY")))
        told = start_here(range(4), faults={2: CRASHES}, seed=6).report()
        assert (told.tried, told.reused, told.failures) == (4, 0, {FailureKind.CRASH: 1})
        with Store.open(str(store), write=False) as opened:
            again = [trial for trial in opened.trials(PROBLEM, HOST.device()) if trial.config.integer("n") == 2]
            poisoned = opened.poisoned(HOST.device())
        assert [message_of(trial) for trial in again] == [crash, f"not run again: {crash}"]
        assert again[0].compiler != again[1].compiler
        compiled = (notes / "compiled").read_text().splitlines()
        assert sorted(set(compiled)) == ["number = 0", "number = 1", "number = 3"]
        assert len(poisoned) == 1
        check_winner(store, told)


class LockedAfter(SilentProgress):
    """Makes another process lock the store after some trials, until it is told to end."""

    def __init__(self, store: Path, trials: int, seconds: float) -> None:
        """`seconds` is how long the lock lasts; 0 means until `give_back`."""
        self._store, self._trials, self._seconds = store, trials, seconds
        self._process: subprocess.Popen[str] | None = None
        self.done_meanwhile: list[int] = []

    def update(self, snapshot: Snapshot) -> None:
        if snapshot.done >= self._trials and self._process is None:
            script = (
                "import sqlite3, sys\n"
                "connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)\n"
                "connection.execute('BEGIN EXCLUSIVE')\n"
                "print('locked', flush=True)\n"
                "sys.stdin.readline()\n"
            )
            command = [sys.executable, "-c", script, str(self._store)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == "locked\n"
            if self._seconds:
                threading.Timer(self._seconds, self.give_back).start()
        elif self._process is not None and self._process.poll() is None:
            self.done_meanwhile.append(snapshot.done)

    def give_back(self) -> None:
        assert self._process is not None
        self._process.communicate("\n")


class TestStores:
    def test_one_locked_for_a_while_is_waited_for_while_the_search_goes_on(
        self, start_here: Callable[..., TunerHere], store: Path
    ) -> None:
        progress = LockedAfter(store, trials=2, seconds=2.5)
        report = start_here(range(8), progress=progress).report()
        assert len(progress.done_meanwhile) >= 2
        assert report.tried == 8
        assert set(trials_in(store)) == set(range(8))
        check_winner(store, report)

    def test_one_locked_for_too_long_ends_the_run_and_the_next_one_goes_on(
        self, start_here: Callable[..., TunerHere], store: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        progress = LockedAfter(store, trials=3, seconds=0)
        with monkeypatch.context() as patch:
            patch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.5)
            with pytest.raises(StoreError, match=rf"another process is writing {store} since 0.5 s"):
                start_here(range(100), progress=progress).report()
        assert progress.done_meanwhile[-1] < 100  # it did not search on for nothing
        progress.give_back()
        before = trials_in(store)
        assert 1 <= len(before) <= 3
        report = start_here(range(100), trials=6).report()
        assert (report.reused, report.tried) == (len(before), 6 - len(before))
        after = trials_in(store)
        assert len(after) == 6
        assert {number: after[number] for number in before} == before
        check_winner(store, report)

    def test_a_full_disk_ends_the_run_in_one_line_and_the_next_one_goes_on(
        self, start: Callable[..., Any], start_here: Callable[..., TunerHere], store: Path
    ) -> None:
        """A limit on file sizes stands for a full disk, because it needs no disk of its own."""
        # The limit is large enough for the compiler's files.
        long = failure(message="x" * 4000)
        filling = [trial(n, long, family="other") for n in range(500)]
        with Store.open(str(store), write=True) as opened:
            opened.add_trials(OTHER, HOST.device(), filling)
        most = store.stat().st_size + 4 * 4096
        prelude = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, -1))"
        # Compile errors that take one page of the store's file each.
        faults = {number: f"\n#error {'long ' * 700}{number}\n" for number in range(3, 12)}
        told = start(range(12), faults=faults, prelude=prelude).complaint()
        assert re.fullmatch(rf"the disk of {store} (is|failed or is) full.*: .*what it held before is kept", told)
        before = trials_in(store)
        assert 1 <= len(before) < 12
        with Store.open(str(store), write=False) as opened:
            assert check_store(opened) == ()
            assert len(opened.trials(OTHER, HOST.device())) == 500
        again = start_here(range(12), faults=faults).report()
        assert (again.reused, again.tried) == (len(before), 12 - len(before))
        after = trials_in(store)
        assert set(after) == set(range(12))
        assert {number: after[number] for number in before} == before
        check_winner(store, again)


STEPPING_CLOCK = """
import datetime, itertools, time

_real, _real_ns = time.time, time.time_ns
_looks = itertools.count()


def _step():
    # Further at each look, so that whatever is remembered is soon hours ahead and hours behind.
    number = next(_looks)
    return 3600 * number * (-1) ** number


time.time = lambda: _real() + _step()
time.time_ns = lambda: _real_ns() + _step() * 10**9


class Stepping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + datetime.timedelta(seconds=_step())


datetime.datetime = Stepping
"""


class TestClock:
    def test_a_wall_clock_that_steps_by_hours_changes_nothing(
        self, start: Callable[..., Any], store: Path, tmp_path: Path
    ) -> None:
        """The clocks of the tuner and its workers step back and forth each time they are read."""
        (tmp_path / "clock").mkdir()
        (tmp_path / "clock" / "sitecustomize.py").write_text(STEPPING_CLOCK)
        prelude = "import time; assert len({round(time.time() / 3600) for _ in range(5)}) > 3"
        # The limit is far away, but the stepping clock passes it at every other reading.
        tuner = start(range(6), paths=(str(tmp_path / "clock"),), prelude=prelude, time_limit_s=PATIENCE_S)
        told = tuner.report()
        assert (told["tried"], told["failures"]) == (6, {})
        assert set(trials_in(store)) == set(range(6))
        check_winner(store, told)
