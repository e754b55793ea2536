"""Answers of many problems, made by other processes ahead of the plans."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

import warpsmith as ws
from warpsmith.devices.binary_cache import CachedCompiler
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.cuda.compiler import why_no_nvrtc
from warpsmith.devices.select import cuda_compiler
from warpsmith.generator.presets import H200
from warpsmith.plans import ahead
from warpsmith.plans.ahead import Question, answer_all, make_ahead
from warpsmith.plans.make import Before, is_answered

LAYERS = [
    dataclasses.replace(ws.Conv2d((2, 8, 8, 8), (filters, 8, 1, 1)), pass_=pass_)
    for filters in (4, 8)
    for pass_ in (ws.Pass.FPROP, ws.Pass.DGRAD)
]
needs_nvrtc = pytest.mark.skipif(why_no_nvrtc() is not None, reason="answers are compiled by NVRTC")


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """A compiler for an H200, with caches in a folder of the test."""
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("WARPSMITH_STORE", str(tmp_path / "store.db"))
    return cuda_compiler(H200.arch)


def are_answered() -> list[bool]:
    return [is_answered(each, H200, None, Before.of(None)) for each in LAYERS]


@needs_nvrtc
def test_answers_are_in_the_cache_afterwards(compiler: Compiler) -> None:
    assert not any(are_answered())
    answer_all([Question(each, H200, compiler, None) for each in LAYERS], processes=2)
    assert all(are_answered())
    assert isinstance(compiler, CachedCompiler)
    assert len([*compiler.folder.iterdir()]) >= len(LAYERS)


@needs_nvrtc
def test_nothing_is_compiled_for_a_problem_without_a_stored_winner(compiler: Compiler) -> None:
    answer_all([Question(each, H200, compiler, None, is_stored=True) for each in LAYERS], processes=1)
    assert not any(are_answered())


@needs_nvrtc
def test_a_question_that_fails_costs_no_other_its_answer(compiler: Compiler) -> None:
    questions = [Question(each, H200, compiler, None) for each in LAYERS]
    broken = dataclasses.replace(questions[0], store="/no/such/folder/store.db")
    answer_all([broken, *questions], processes=1)
    assert all(are_answered())


def test_few_questions_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    question = Question(LAYERS[0], H200, cuda_compiler(H200.arch), None)
    answer_all([question] * (ahead.FEW - 1))


def test_a_process_that_does_not_start_leaves_all_to_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refused)
    answer_all([Question(each, H200, cuda_compiler(H200.arch), None) for each in LAYERS])


def test_the_host_device_makes_nothing_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    make_ahead(LAYERS, "host", None, is_stored=False)
