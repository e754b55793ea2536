"""Worker processes: they reply, fail, crash and hang, and the tuner goes on."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from warpsmith.errors import BadArgument, LaunchError, OutOfMemory
from warpsmith.workers.worker import DeadlinePassed, Worker, WorkerDied

pytestmark = pytest.mark.usefixtures("start_workers")

DEADLINE_S = 60.0
"""Seconds, far more than any job here takes, even on a loaded machine."""

SETTLE_S = 10.0
"""Seconds that the kernel may take to end a process after SIGKILL."""


# Test files are not importable by name, and what crosses the border must be.
JOBS = """
import atexit, ctypes, dataclasses, os, resource, subprocess, sys, time
from collections.abc import Callable
from typing import Any

from warpsmith.errors import BadArgument, LaunchError
from warpsmith.workers.job import Job


@dataclasses.dataclass(frozen=True)
class Call(Job[Any]):
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()

    def run(self, state):
        return self.function(*self.arguments)


@dataclasses.dataclass(frozen=True)
class NoteInState(Job[list[str]]):
    note: str

    def run(self, state):
        state.notes = [*getattr(state, "notes", []), self.note]
        return state.notes


def refuse(kind, message):
    raise {"launch": LaunchError, "argument": BadArgument}[kind](message)


def stumble():
    return {}["no such key"]


def unpicklable():
    return lambda: None


def chatter():
    print("printed")
    sys.stdout.write("no line end")
    sys.stdout.flush()
    os.write(1, b"written to descriptor 1")
    ctypes.CDLL(None).puts(b"put by a C library")
    ctypes.CDLL(None).fflush(None)
    subprocess.run(["echo", "said by a child"], check=True)
    return "the answer"


def lament_and_exit(lines):
    for number in range(lines):
        print(f"line {number}", file=sys.stderr)
    print("the last word", file=sys.stderr, flush=True)
    os._exit(7)


def start_child():
    return subprocess.Popen(["sleep", "600"]).pid


def start_child_and_hang(note):
    note.write_text(str(start_child()))
    time.sleep(600)


def note_pid_and_loop(note):
    note.write_text(str(os.getpid()))
    while True:
        pass


def note_pid_and_hang_in_c(note):
    note.write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(600)  # PyDLL keeps the interpreter's lock, as an extension's endless loop does


def note_pid_and_answer(note, seconds, size):
    note.write_text(str(os.getpid()))
    time.sleep(seconds)
    return bytes(size)


def take(nbytes):
    return len(bytearray(nbytes))


def data_limit():
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


def leave_note_at_exit(note):
    atexit.register(note.write_text, "ended by itself")


def dawdle_at_exit():
    atexit.register(time.sleep, 600)
"""


@pytest.fixture(scope="module")
def jobs(importable: Callable[[str, str], ModuleType]) -> ModuleType:
    return importable("jobs_of_tests", JOBS)


@pytest.fixture(scope="module")
def folder(jobs: ModuleType) -> Path:
    """Folder to put on the PYTHONPATH of processes that import the jobs."""
    return Path(str(jobs.__file__)).parent


@pytest.fixture
def worker(folder: Path) -> Iterator[Worker]:
    worker = Worker({"PYTHONPATH": str(folder)})
    yield worker
    worker.kill()


@pytest.fixture
def starting_with(tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    """Makes workers whose interpreter first runs a given line."""
    made: list[Worker] = []

    def make(line: str) -> Worker:
        (tmp_path / "sitecustomize.py").write_text(line)
        made.append(Worker({"PYTHONPATH": str(tmp_path)}))
        return made[-1]

    yield make
    for worker in made:
        worker.kill()


def call(worker: Worker, jobs: ModuleType, function: str | Callable[..., Any], *arguments: Any) -> Any:
    """Runs a function of the jobs module, or an importable one, in the worker."""
    chosen = getattr(jobs, function) if isinstance(function, str) else function
    return worker.call(jobs.Call(chosen, arguments), DEADLINE_S)


def is_running(pid: int) -> bool:
    """True if the process exists and is not merely a zombie that nobody has waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def ends(pid: int) -> bool:
    """True if the process ends within SETTLE_S."""
    return eventually(lambda: not is_running(pid), SETTLE_S)


def eventually(condition: Callable[[], bool], seconds: float) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def pid_noted_in(note: Path) -> int:
    assert eventually(lambda: note.exists() and note.read_text() != "", DEADLINE_S), "the job did not begin"
    return int(note.read_text())


class TestAnswers:
    def test_one_process_serves_job_after_job_and_keeps_its_state(self, worker: Worker, jobs: ModuleType) -> None:
        assert not worker.alive
        pid = call(worker, jobs, os.getpid)
        assert pid != os.getpid()
        assert worker.call(jobs.NoteInState("a"), DEADLINE_S) == ["a"]
        assert worker.call(jobs.NoteInState("b"), DEADLINE_S) == ["a", "b"]
        assert call(worker, jobs, os.getpid) == pid
        assert worker.alive

    def test_an_expected_error_keeps_its_class_and_words_and_costs_no_process(
        self, worker: Worker, jobs: ModuleType
    ) -> None:
        pid = call(worker, jobs, os.getpid)
        with pytest.raises(LaunchError, match=r"^a block of 2048 threads$"):
            call(worker, jobs, "refuse", "launch", "a block of 2048 threads")
        with pytest.raises(BadArgument, match=r"^size 0$") as caught:
            call(worker, jobs, "refuse", "argument", "size 0")
        assert caught.value.exit_code == 2
        assert call(worker, jobs, os.getpid) == pid

    @pytest.mark.parametrize("size", [0, 1, 65536, 5_000_000])
    def test_messages_of_any_size_go_both_ways(self, worker: Worker, jobs: ModuleType, size: int) -> None:
        content = os.urandom(size)
        assert call(worker, jobs, bytes, content) == content

    def test_what_a_job_prints_is_no_part_of_the_answer(self, worker: Worker, jobs: ModuleType) -> None:
        assert call(worker, jobs, "chatter") == "the answer"
        with pytest.raises(WorkerDied) as caught:
            call(worker, jobs, os._exit, 1)
        for words in ("no line end", "written to descriptor 1", "put by a C library", "said by a child"):
            assert words in caught.value.last_words

    def test_the_environment_is_this_ones_and_the_given(
        self, folder: Path, jobs: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("INHERITED", "yes")
        worker = Worker({"PYTHONPATH": str(folder), "GIVEN": "too"})
        try:
            assert (call(worker, jobs, os.getenv, "INHERITED"), call(worker, jobs, os.getenv, "GIVEN")) == (
                "yes",
                "too",
            )
        finally:
            worker.kill()

    def test_modules_beside_the_user_are_not_imported(
        self, worker: Worker, jobs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("warpsmith", "numpy", "select"):
            (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong module')")
        monkeypatch.chdir(tmp_path)
        assert call(worker, jobs, os.getcwd) == str(tmp_path)


class TestDeaths:
    def test_an_exit_is_told_with_its_code(self, worker: Worker, jobs: ModuleType) -> None:
        with pytest.raises(WorkerDied, match=r"^the worker process ended with exit code 3$") as caught:
            call(worker, jobs, os._exit, 3)
        assert caught.value.status == 3
        assert not worker.alive

    @pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
    def test_a_signal_is_told_by_its_name(self, worker: Worker, jobs: ModuleType, number: signal.Signals) -> None:
        with pytest.raises(WorkerDied, match=rf"^the worker process was killed by {number.name}$") as caught:
            call(worker, jobs, signal.raise_signal, number)
        assert caught.value.status == -number

    def test_the_next_job_finds_a_new_process(self, worker: Worker, jobs: ModuleType) -> None:
        worker.call(jobs.NoteInState("lost"), DEADLINE_S)
        first = call(worker, jobs, os.getpid)
        for _ in range(2):
            with pytest.raises(WorkerDied):
                call(worker, jobs, os._exit, 3)
            assert call(worker, jobs, os.getpid) != first
        assert worker.call(jobs.NoteInState("kept"), DEADLINE_S) == ["kept"]

    def test_an_interrupt_inside_poll_does_not_make_kill_wait_for_ever(self, worker: Worker, jobs: ModuleType) -> None:
        """The interrupt leaves the lock of CPython's Popen.wait() taken; the test can arrange that in no other way."""
        pid = call(worker, jobs, os.getpid)
        process: Any = worker._process
        assert process._waitpid_lock.acquire(blocking=False)
        worker.kill()
        assert ends(pid)
        assert call(worker, jobs, os.getpid) != pid

    def test_a_process_that_died_between_jobs_is_replaced(self, worker: Worker, jobs: ModuleType) -> None:
        pid = call(worker, jobs, os.getpid)
        os.kill(pid, signal.SIGKILL)
        assert eventually(lambda: not worker.alive, SETTLE_S)
        assert call(worker, jobs, os.getpid) != pid

    @pytest.mark.parametrize(("job", "word"), [("stumble", "KeyError: 'no such key'"), ("unpicklable", "local object")])
    def test_an_unexpected_error_ends_the_process_with_its_traceback(
        self, worker: Worker, jobs: ModuleType, job: str, word: str
    ) -> None:
        with pytest.raises(WorkerDied) as caught:
            call(worker, jobs, job)
        assert caught.value.status == 1
        assert word in caught.value.last_words.splitlines()[-1]

    def test_the_end_of_a_long_complaint_is_kept(self, worker: Worker, jobs: ModuleType) -> None:
        with pytest.raises(WorkerDied) as caught:
            call(worker, jobs, "lament_and_exit", 5000)
        words = caught.value.last_words
        assert words.endswith("line 4999\nthe last word")
        assert 1000 < len(words) <= 4000

    def test_a_new_process_does_not_repeat_the_words_of_the_last(self, worker: Worker, jobs: ModuleType) -> None:
        with pytest.raises(WorkerDied, match="exit code 7"):
            call(worker, jobs, "lament_and_exit", 1)
        with pytest.raises(WorkerDied) as caught:
            call(worker, jobs, os._exit, 3)
        assert caught.value.last_words == ""

    @pytest.mark.parametrize("size", [0, 5_000_000])
    def test_a_process_that_dies_while_it_starts_is_told(
        self, starting_with: Callable[[str], Worker], jobs: ModuleType, size: int
    ) -> None:
        worker = starting_with("import os; os.write(2, b'no library'); os._exit(9)")
        with pytest.raises(WorkerDied) as caught:
            call(worker, jobs, len, bytes(size))
        assert (caught.value.status, caught.value.last_words) == (9, "no library")
        assert not worker.alive


class TestDeadlines:
    @pytest.mark.parametrize("job", ["note_pid_and_loop", "note_pid_and_hang_in_c"])
    def test_a_job_that_never_ends_is_killed_in_time(
        self, worker: Worker, jobs: ModuleType, job: str, tmp_path: Path
    ) -> None:
        call(worker, jobs, os.getpid)
        start = time.monotonic()
        with pytest.raises(DeadlinePassed, match=r"^no answer within 1\.5 s$"):
            worker.call(jobs.Call(getattr(jobs, job), (tmp_path / "pid",)), 1.5)
        assert 1.5 <= time.monotonic() - start < 1.5 + SETTLE_S
        assert not worker.alive
        assert not is_running(pid_noted_in(tmp_path / "pid"))
        assert call(worker, jobs, abs, -1) == 1

    @pytest.mark.parametrize("size", [0, 5_000_000])
    def test_a_process_that_hangs_while_it_starts_is_killed_in_time(
        self, starting_with: Callable[[str], Worker], jobs: ModuleType, size: int
    ) -> None:
        worker = starting_with("import time; time.sleep(600)")
        with pytest.raises(DeadlinePassed):
            worker.call(jobs.Call(len, (bytes(size),)), 0.5)
        assert not worker.alive

    @pytest.mark.parametrize("size", [10, 5_000_000])
    def test_an_answer_that_came_in_time_counts_although_the_tuner_was_stopped_past_the_deadline(
        self, folder: Path, size: int, tmp_path: Path
    ) -> None:
        """Ctrl-Z stops the tuner and not its workers; a pipe holds 64 KiB of a longer answer."""
        note = tmp_path / "pid"
        script = (
            "import sys; from pathlib import Path; import jobs_of_tests as jobs\n"
            "from warpsmith.workers.worker import Worker\n"
            "job = jobs.Call(jobs.note_pid_and_answer, (Path(sys.argv[1]), 0.3, int(sys.argv[2])))\n"
            "worker = Worker()\n"
            "worker.call(jobs.Call(len, ('',)), 60)\n"
            "print(len(worker.call(job, 1.5)))\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        command = [sys.executable, "-c", script, str(note), str(size)]
        parent = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        pid_noted_in(note)
        parent.send_signal(signal.SIGSTOP)
        time.sleep(2.2)
        parent.send_signal(signal.SIGCONT)
        output, errors = parent.communicate(timeout=DEADLINE_S)
        assert output == f"{size}\n", errors


class TestLimits:
    def test_more_memory_than_it_may_take_is_an_error_that_costs_no_process(
        self, folder: Path, jobs: ModuleType
    ) -> None:
        worker = Worker({"PYTHONPATH": str(folder)}, memory_bytes=1 << 30)
        try:
            pid = call(worker, jobs, os.getpid)
            with pytest.raises(OutOfMemory, match=r"^the worker process may take 1,024 MiB, and wanted more$"):
                call(worker, jobs, "take", 1100 << 20)
            assert call(worker, jobs, "take", 100 << 20) == 100 << 20
            assert call(worker, jobs, os.getpid) == pid
        finally:
            worker.kill()

    def test_the_bound_holds_for_what_the_process_starts(self, folder: Path, jobs: ModuleType) -> None:
        worker = Worker({"PYTHONPATH": str(folder)}, memory_bytes=1 << 30)
        script = f"import sys; sys.path.insert(0, {str(folder)!r}); import jobs_of_tests as j; print(j.data_limit())"
        try:
            told = call(worker, jobs, subprocess.check_output, [sys.executable, "-c", script])
            assert int(told) == 1 << 30
        finally:
            worker.kill()

    def test_there_is_none_where_none_is_given(self, worker: Worker, jobs: ModuleType) -> None:
        assert call(worker, jobs, "data_limit") == resource.getrlimit(resource.RLIMIT_DATA)[0]
        assert call(worker, jobs, os.nice, 0) == os.nice(0)

    def test_it_gives_way_by_its_niceness(self, folder: Path, jobs: ModuleType) -> None:
        worker = Worker({"PYTHONPATH": str(folder)}, niceness=3)
        try:
            assert call(worker, jobs, os.nice, 0) == min(os.nice(0) + 3, 19)
        finally:
            worker.kill()


class TestThreads:
    def test_a_process_lives_on_when_the_thread_that_started_it_ends(self, worker: Worker, jobs: ModuleType) -> None:
        told: list[int] = []
        starter = threading.Thread(target=lambda: told.append(call(worker, jobs, os.getpid)))
        starter.start()
        starter.join()
        # Linux would send its signal at the end of the thread, which join() does not wait for.
        assert not eventually(lambda: not worker.alive, 0.5)
        assert [call(worker, jobs, os.getpid)] == told

    def test_an_interrupt_ends_a_call_in_another_thread(self, worker: Worker, jobs: ModuleType, tmp_path: Path) -> None:
        note = tmp_path / "child"

        def interrupt() -> None:
            pid_noted_in(note)
            worker.interrupt()

        other = threading.Thread(target=interrupt)
        other.start()
        start = time.monotonic()
        with pytest.raises(WorkerDied, match=r"^the worker process was killed by SIGKILL$"):
            worker.call(jobs.Call(jobs.start_child_and_hang, (note,)), 600)
        other.join()
        assert time.monotonic() - start < DEADLINE_S
        assert ends(pid_noted_in(note))  # what it started too
        assert call(worker, jobs, abs, -1) == 1

    def test_an_interrupt_of_a_worker_that_never_began_is_none(self, worker: Worker, jobs: ModuleType) -> None:
        worker.interrupt()
        assert call(worker, jobs, abs, -1) == 1
        worker.kill()
        worker.interrupt()
        assert call(worker, jobs, abs, -1) == 1

    def test_a_job_right_after_an_interrupt_finds_a_new_process(self, worker: Worker, jobs: ModuleType) -> None:
        """The old worker takes a while to end and must not get the job."""
        pid = call(worker, jobs, os.getpid)
        worker.interrupt()
        assert call(worker, jobs, os.getpid) != pid


class TestEnds:
    def test_kill_ends_what_the_process_started(self, worker: Worker, jobs: ModuleType) -> None:
        pid, child = call(worker, jobs, os.getpid), call(worker, jobs, "start_child")
        assert is_running(child)
        worker.kill()
        assert not worker.alive
        assert ends(pid)
        assert ends(child)
        worker.kill()  # a second time is no error

    def test_a_deadline_ends_what_the_process_started(self, worker: Worker, jobs: ModuleType, tmp_path: Path) -> None:
        call(worker, jobs, os.getpid)
        with pytest.raises(DeadlinePassed):
            worker.call(jobs.Call(jobs.start_child_and_hang, (tmp_path / "child",)), 2.0)
        assert ends(pid_noted_in(tmp_path / "child"))

    def test_close_lets_the_process_end_by_itself(self, worker: Worker, jobs: ModuleType, tmp_path: Path) -> None:
        call(worker, jobs, "leave_note_at_exit", tmp_path / "note")
        worker.close(patience_s=DEADLINE_S)
        assert (tmp_path / "note").read_text() == "ended by itself"
        assert not worker.alive

    def test_close_kills_a_process_that_does_not_end(self, worker: Worker, jobs: ModuleType) -> None:
        call(worker, jobs, "dawdle_at_exit")
        pid = call(worker, jobs, os.getpid)
        worker.close(patience_s=0.2)
        assert ends(pid)

    def test_a_worker_that_never_began_closes(self) -> None:
        Worker().close()

    def test_ctrl_c_does_not_reach_the_process(self, worker: Worker, jobs: ModuleType) -> None:
        # A terminal signals the processes of its session alone.
        assert call(worker, jobs, os.getsid, 0) == call(worker, jobs, os.getpid)

    @pytest.mark.parametrize("job", ["note_pid_and_loop", "note_pid_and_hang_in_c"])
    def test_a_killed_parent_leaves_no_worker_behind(self, folder: Path, job: str, tmp_path: Path) -> None:
        note = tmp_path / "pid"
        script = (
            "import sys; from pathlib import Path; import jobs_of_tests as jobs\n"
            "from warpsmith.workers.worker import Worker\n"
            "Worker().call(jobs.Call(getattr(jobs, sys.argv[1]), (Path(sys.argv[2]),)), 600)\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        parent = subprocess.Popen([sys.executable, "-c", script, job, str(note)], env=environment)
        try:
            pid = pid_noted_in(note)
            assert is_running(pid)
        finally:
            parent.kill()
            parent.wait()
        ended = ends(pid)
        if not ended:
            os.kill(pid, signal.SIGKILL)  # a failing test leaves no endless loop behind either
        assert ended

    @pytest.mark.parametrize(("parent", "status"), [("own", 0), ("gone", 1)])
    def test_a_worker_whose_parent_died_before_it_could_ask_ends_at_once(self, parent: str, status: int) -> None:
        pid = os.getpid() if parent == "own" else 2**22 + 1  # above the largest id that Linux gives
        command = [sys.executable, "-P", "-m", "warpsmith.workers.main", str(pid), "0", "0"]
        assert subprocess.run(command, stdin=subprocess.DEVNULL, timeout=DEADLINE_S, check=False).returncode == status

    def test_a_forked_child_starts_workers_of_its_own(self, worker: Worker, jobs: ModuleType, folder: Path) -> None:
        """The thread that starts workers in the parent does not exist in the child."""
        assert call(worker, jobs, os.getpid) != os.getpid()
        child = os.fork()
        if child == 0:
            status = 3
            try:
                mine = Worker({"PYTHONPATH": str(folder)})
                status = int(call(mine, jobs, os.getppid) != os.getpid())
                mine.close()
            finally:
                os._exit(status)
        deadline = time.monotonic() + DEADLINE_S
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.01)
        if ended == (0, 0):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            pytest.fail("the forked child hangs")
        assert os.waitstatus_to_exitcode(ended[1]) == 0
