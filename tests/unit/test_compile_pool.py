"""Processes that compile ahead: a failing compiler costs one program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from builders import program
from warpsmith.store.record import Failure, FailureKind
from warpsmith.tuner.workers import compile_pool
from warpsmith.tuner.workers.compile_pool import Compiled, CompilePool
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.workers.worker_pool import COMPILER_MEMORY_BYTES

PATIENCE_S = 60.0
"""Seconds, far more than anything here takes, even on a loaded machine."""
PATIENT = Deadlines(compile_s=PATIENCE_S, least_compile_s=PATIENCE_S)

# Test files are not importable by name, and what crosses the border must be.
COMPILER = """
import dataclasses, os, signal, time
from pathlib import Path

from warpsmith.devices.compiler import Binary, BinaryKind, Compiler
from warpsmith.errors import CompileError


@dataclasses.dataclass(frozen=True)
class Scripted(Compiler):
    '''Does what a program's source says, and notes each program that it begins.'''

    notes: Path

    @property
    def identity(self):
        return "scripted"

    def compile(self, unit):
        with (self.notes / f"{os.getpid()}").open("a") as note:
            note.write(unit.source + "\\n")
        word, _, rest = unit.source.partition(" ")
        match word:
            case "refuse":
                raise CompileError("error: " + rest)
            case "crash":
                signal.raise_signal(signal.SIGSEGV)
            case "exit":
                os._exit(int(rest))
            case "hang":
                time.sleep(600)
            case "sleep":
                time.sleep(float(rest))
            case "take":
                bytearray(int(rest) << 20)
            case "nice":
                rest = str(os.nice(0))
            case "meet":  # another program that compiles at the same time
                (self.notes / rest).touch()
                give_up = time.monotonic() + 60
                while len([*self.notes.glob("meeting *")]) < 2:
                    assert time.monotonic() < give_up, "nobody else compiles"
                    time.sleep(0.01)
        return Binary(BinaryKind.LIBRARY, rest.encode(), "host", str(os.getpid()))
"""


@pytest.fixture(scope="module")
def scripted(importable: Callable[[str, str], ModuleType]) -> ModuleType:
    return importable("compiler_of_tests", COMPILER)


@pytest.fixture(scope="module")
def folder(scripted: ModuleType) -> Path:
    """Folder to put on the PYTHONPATH of processes that import the scripted module."""
    return Path(str(scripted.__file__)).parent


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def pool_of(
    folder: Path, scripted: ModuleType, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., CompilePool]]:
    """Makes pools with the given number of processes."""
    made: list[CompilePool] = []
    monkeypatch.setenv("PYTHONPATH", str(folder))

    def make(processes: int, deadlines: Deadlines = PATIENT) -> CompilePool:
        monkeypatch.setattr(compile_pool, "cores", lambda: processes)
        made.append(CompilePool(scripted.Scripted(notes), deadlines))
        return made[-1]

    yield make
    for pool in made:
        pool.close()


def compiled(pool: CompilePool, source: str) -> Any:
    return pool.submit(program(source)).result(PATIENCE_S)


def image(pool: CompilePool, source: str) -> str:
    outcome = compiled(pool, source)
    assert isinstance(outcome, Compiled), outcome
    return outcome.binaries[""].image.decode()


def begun(notes: Path) -> dict[int, list[str]]:
    """Sources whose compilation each process began."""
    return {int(note.name): note.read_text().splitlines() for note in notes.iterdir() if note.name.isdigit()}


def await_that(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


class TestCompiling:
    def test_gives_the_binary_and_how_long_it_took(self, pool_of: Callable[..., CompilePool]) -> None:
        outcome = compiled(pool_of(1), "sleep 0.2")
        assert isinstance(outcome, Compiled)
        assert outcome.binaries[""].image == b"0.2"
        assert 200 <= outcome.compile_ms < PATIENCE_S * 1e3

    def test_has_a_process_for_each_core_at_work_at_once(self, pool_of: Callable[..., CompilePool]) -> None:
        pool = pool_of(2)
        assert pool.processes == 2
        meeting = [pool.submit(program(f"meet meeting {number}")) for number in range(2)]
        outcomes = [each.result(PATIENCE_S) for each in meeting]
        assert len({outcome.binaries[""].compiler for outcome in outcomes if isinstance(outcome, Compiled)}) == 2

    def test_one_process_serves_program_after_program(self, pool_of: Callable[..., CompilePool], notes: Path) -> None:
        pool = pool_of(1)
        futures = [pool.submit(program(f"a {number}")) for number in range(5)]
        for future in futures:
            assert isinstance(future.result(PATIENCE_S), Compiled)
        assert list(begun(notes).values()) == [[f"a {number}" for number in range(5)]]

    def test_what_is_refused_is_told(self, pool_of: Callable[..., CompilePool], notes: Path) -> None:
        pool = pool_of(1)
        assert compiled(pool, "refuse no such name") == Failure(FailureKind.COMPILE, "error: no such name")
        assert image(pool, "a b") == "b"
        assert len(begun(notes)) == 1

    def test_in_no_hurry(self, pool_of: Callable[..., CompilePool]) -> None:
        pool = pool_of(1)
        assert image(pool, "nice") == str(min(os.nice(0) + compile_pool.NICENESS, 19))


class TestTrouble:
    @pytest.mark.parametrize(
        ("source", "told"),
        [
            ("crash", "compiling: the worker process was killed by SIGSEGV"),
            ("exit 3", "compiling: the worker process ended with exit code 3"),
        ],
    )
    def test_a_compiler_that_dies_costs_one_program(
        self, pool_of: Callable[..., CompilePool], source: str, told: str
    ) -> None:
        pool = pool_of(1)
        for _ in range(2):
            assert compiled(pool, source) == Failure(FailureKind.COMPILE, told)
            assert image(pool, "a b") == "b"

    def test_one_that_hangs_is_ended_at_its_deadline(self, pool_of: Callable[..., CompilePool], notes: Path) -> None:
        pool = pool_of(1, Deadlines(compile_s=2.0))
        start = time.monotonic()
        assert compiled(pool, "hang") == Failure(FailureKind.COMPILE, "the compiler gave no answer within 2 s")
        assert 2.0 <= time.monotonic() - start < PATIENCE_S
        assert not any(is_running(pid) for pid in begun(notes))
        pool.close()

    def test_one_that_takes_too_much_memory_costs_one_program(
        self, pool_of: Callable[..., CompilePool], notes: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(compile_pool, "COMPILER_MEMORY_BYTES", 1 << 30)
        pool = pool_of(1)
        told = "compiling: the worker process may take 1,024 MiB, and wanted more"
        assert compiled(pool, "take 1100") == Failure(FailureKind.OUT_OF_MEMORY, told)
        assert image(pool, "take 100") == "100"
        (greedy,) = (pid for pid, sources in begun(notes).items() if "take 1100" in sources)
        assert not is_running(greedy)  # what it holds is of no use

    def test_the_usual_bound_is_below_what_this_takes(self, pool_of: Callable[..., CompilePool]) -> None:
        too_much = (COMPILER_MEMORY_BYTES >> 20) + 1
        assert compiled(pool_of(1), f"take {too_much}").kind is FailureKind.OUT_OF_MEMORY


class TestDeadlines:
    def test_follow_the_best_so_far(self, pool_of: Callable[..., CompilePool]) -> None:
        pool = pool_of(1, Deadlines(compile_s=PATIENCE_S, least_compile_s=0.5, compile_factor=5))
        image(pool, "sleep 0.01")  # the process is there
        pool.expect(100.0)
        assert compiled(pool, "hang") == Failure(FailureKind.COMPILE, "the compiler gave no answer within 1 s")

    @pytest.mark.parametrize("compile_ms", [None, 0.0])
    def test_a_best_that_was_not_compiled_says_nothing(
        self, pool_of: Callable[..., CompilePool], compile_ms: float | None
    ) -> None:
        pool = pool_of(1, Deadlines(compile_s=1.5, least_compile_s=0.01, compile_factor=1))
        pool.expect(compile_ms)
        assert compiled(pool, "hang") == Failure(FailureKind.COMPILE, "the compiler gave no answer within 1.5 s")


class TestEnds:
    def test_close_drops_what_has_not_begun_and_ends_what_has(
        self, pool_of: Callable[..., CompilePool], notes: Path
    ) -> None:
        pool = pool_of(2)
        hanging = [pool.submit(program("hang")) for _ in range(2)]
        waiting = [pool.submit(program(f"a {number}")) for number in range(5)]
        await_that(lambda: list(begun(notes).values()) == [["hang"], ["hang"]])
        start = time.monotonic()
        pool.close()
        assert time.monotonic() - start < PATIENCE_S / 2
        assert all(future.cancelled() for future in waiting)
        assert all(future.done() for future in hanging)
        assert list(begun(notes).values()) == [["hang"], ["hang"]]  # and nothing after these
        assert not any(is_running(pid) for pid in begun(notes))

    def test_an_interrupt_ends_what_compiles_now_alone(self, pool_of: Callable[..., CompilePool], notes: Path) -> None:
        pool = pool_of(1)
        hanging = pool.submit(program("hang"))
        await_that(lambda: list(begun(notes).values()) == [["hang"]])
        pool.interrupt()
        outcome = hanging.result(PATIENCE_S)
        assert outcome == Failure(FailureKind.COMPILE, "compiling: the worker process was killed by SIGKILL")
        assert image(pool, "a b") == "b"

    def test_what_is_submitted_right_after_an_interrupt_is_not_harmed(
        self, pool_of: Callable[..., CompilePool]
    ) -> None:
        """A search ends, and the finalists are compiled at once."""
        pool = pool_of(1)
        image(pool, "a b")
        pool.interrupt()
        assert image(pool, "a c") == "c"

    def test_close_without_anything_begun_ends_at_once(self, pool_of: Callable[..., CompilePool]) -> None:
        pool_of(3).close()
