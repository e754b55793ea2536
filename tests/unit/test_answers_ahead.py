"""Answers that other processes find and compile into the cache before a process asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unit.test_answers import STATE, Counting
from warpsmith.devices.binary_cache import CachedCompiler
from warpsmith.devices.cuda import nvrtc_file
from warpsmith.devices.select import DeviceRef, cuda_compiler
from warpsmith.errors import CompileError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.plans import answer_cache, answers_ahead
from warpsmith.plans.answer_cache import Circumstances, cached_answer
from warpsmith.plans.answers_ahead import ANSWERS_EACH, LookUp, answer_ahead
from warpsmith.plans.first_use.kernels import references_to_load
from warpsmith.store.changes import state_of
from warpsmith.workers.job import WorkerState
from warpsmith.workers.worker import DeadlinePassed, Worker, WorkerDied
from warpsmith.workers.worker_pool import COMPILER_MEMORY_BYTES

PROBLEMS = [Filter2d(image=(64 + number, 64), filter=(1, 2)) for number in range(2 * ANSWERS_EACH)]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and a machine with one H200 as far as facts and compilers are concerned."""
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(DeviceRef, "device", lambda ref: H200 if ref.kind is DeviceKind.CUDA else HOST)
    monkeypatch.setattr(DeviceRef, "compiler", lambda *_: cuda_compiler(H200.arch))


def are_cached() -> list[bool]:
    state = state_of(None)
    return [cached_answer(Circumstances(each, H200, None, state)) is not None for each in PROBLEMS]


def test_processes_leave_answers_that_plans_find() -> None:
    assert answer_ahead([*PROBLEMS, *PROBLEMS], "cuda:0", None, processes=2) == len(PROBLEMS)
    assert all(are_cached())
    assert answer_ahead(PROBLEMS, "cuda:0", None, processes=2) == 0


def test_kernels_that_verify_answers_are_compiled_once_beside_them() -> None:
    answer_ahead(PROBLEMS, "cuda:0", None, processes=2)
    compiler = DeviceRef.parse("cuda:0").compiler()
    (unit,) = {each for problem in PROBLEMS for each in references_to_load(problem, H200)}
    assert compiler.cached(unit) is not None


def test_a_look_up_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "libnvrtc.so.13"
    library.write_bytes(b"library")
    monkeypatch.setattr(answer_cache, "loaded_nvrtc", lambda: nvrtc_file.file_state(str(library)))
    counting = Counting()
    job = LookUp(Circumstances(PROBLEMS[0], H200, None, STATE), CachedCompiler(counting))
    for _ in range(2):
        job.run(WorkerState())
        assert len(counting.compiled) == 1


@pytest.mark.parametrize(
    ("problems", "device", "processes"),
    [(PROBLEMS[:-1], "cuda:0", 2), (PROBLEMS, "host", 2), (PROBLEMS, "cuda:0", 1), ([], "cuda:0", 2)],
)
def test_few_answers_are_left_to_the_process_itself(problems: Any, device: str, processes: int) -> None:
    assert answer_ahead(problems, device, None, processes) == 0


def test_a_process_has_enough_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    workers: list[Worker] = []

    def call(worker: Worker, *_: Any) -> None:
        workers.append(worker)

    monkeypatch.setattr(Worker, "call", call)
    answer_ahead(PROBLEMS, "cuda:0", None, processes=64)
    assert len(set(map(id, workers))) <= len(PROBLEMS) // ANSWERS_EACH
    assert {worker.memory_bytes for worker in workers} == {COMPILER_MEMORY_BYTES}


@pytest.mark.parametrize("error", [WorkerDied(-9, ""), DeadlinePassed(1.0), CompileError("no compiler")])
def test_what_a_process_cannot_do_is_left_to_the_caller(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def call(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Worker, "call", call)
    assert answer_ahead(PROBLEMS, "cuda:0", None, processes=2) == len(PROBLEMS)
    assert not any(are_cached())


def test_answers_of_an_older_version_are_found_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(Worker, "call", lambda _, job, __: asked.append(job))
    monkeypatch.setattr(answers_ahead, "is_named_in_cache", lambda _: True)
    monkeypatch.setattr(answers_ahead, "cached_answer", lambda _: None)
    answer_ahead(PROBLEMS, "cuda:0", None, processes=2)
    looked_up = [each.circumstances.problem.key() for each in asked if isinstance(each, LookUp)]
    assert sorted(looked_up) == sorted(each.key() for each in PROBLEMS)
