"""Models of all families on all presets: legal defaults, and times that follow how fast a device is."""

from __future__ import annotations

import dataclasses
import math

import pytest

import exhaustive
from warpsmith.generator.device import Device
from warpsmith.generator.presets import A100, H200, HOST, PRESETS, T4
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.registry import OPERATIONS

from .test_adding_a_gpu import PROBLEMS

EVERY = pytest.mark.parametrize("problem", PROBLEMS, ids=Problem.key)


def expected(problem: Problem, device: Device) -> dict[str, float]:
    """Nanoseconds that each family with a model expects, for those that solve the problem."""
    able = (each for each in OPERATIONS[problem.operation].families if each.why_not(problem, device) is None)
    times = {each.name: each.expected_ns(problem, device) for each in able}
    return {name: time_ns for name, time_ns in times.items() if time_ns is not None}


@EVERY
def test_defaults_are_legal_and_times_are_positive(problem: Problem) -> None:
    """Each problem is on every third device by default, and each device has every third problem."""
    for device in exhaustive.share((*PRESETS.values(), HOST), PROBLEMS.index(problem), 3):
        for family in OPERATIONS[problem.operation].families:
            if family.why_not(problem, device) is None:
                config = family.default(problem, device)
                assert family.space(problem, device).why_not(config) is None, (device.name, family.name)
        assert all(0 < time_ns < math.inf for time_ns in expected(problem, device).values())
        assert default_answer(problem, device)


@EVERY
def test_an_older_gpu_takes_longer(problem: Problem) -> None:
    """A T4 has a fifteenth of an H200's memory rate and an eighth of its float32 rate, an A100 two fifths of both."""
    t4, a100, h200 = (expected(problem, device) for device in (T4, A100, H200))
    for name in a100.keys() & h200.keys():
        assert h200[name] < a100[name], name
    for name in t4.keys() & a100.keys():
        assert a100[name] < t4[name], name


@EVERY
def test_a_slower_clock_and_a_slower_memory_take_longer(problem: Problem) -> None:
    slower = dataclasses.replace(H200, name="slower", clock_mhz=H200.clock_mhz // 2, memory_clock_mhz=1600)
    before, after = expected(problem, H200), expected(problem, slower)
    assert before.keys() == after.keys()
    for name, time_ns in before.items():
        assert time_ns < after[name] < 2.1 * time_ns, name
