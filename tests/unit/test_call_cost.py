"""What a call costs, in bytecodes and calls of C functions: counted, since times depend on the machine and its load.

The path is that of a GPU: PyTorch's tensors, a prepared launch and its blocks of arguments. Only the driver's function
and the handle of the current stream are others, and the tensors are on the CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest

from builders import binary as made_binary
from warpsmith.devices.base import Binary, BoundLaunch, Module
from warpsmith.devices.cuda.prepared import PreparedLaunches
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.launches import Launches
from warpsmith.devices.torch_calls import torch_calls
from warpsmith.generator.device import H200
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.registry import answering
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

torch = pytest.importorskip("torch")

FILTER = Filter2d(image=(256, 256), filter=(3, 3))
TRANSFORM = Fft(size=(64, 64), batch=2)

MOST_BYTECODES = {"out": 450, "new": 405}
"""A quarter more than the 360 and 324 of today on Python 3.11; other versions have other bytecodes."""
MOST_C_CALLS = 20
"""A quarter more than the 16 of today. Getters of attributes, such as a tensor's shape, are no calls here."""


class OnPaper(Module):
    """A module on a device whose driver does nothing."""

    def bind(self, launch: Launch, addresses: Mapping[str, int], values: Mapping[str, bytes]) -> BoundLaunch:  # noqa: ARG002
        raise AssertionError("such a program is not bound")

    def prepared(self, program: Program, buffers: tuple[str, ...], operands: tuple[str, ...]) -> Launches:
        def launch_kernel(*_: object) -> int:
            return 0

        context: Any = None
        return PreparedLaunches(context, program, buffers, operands, lambda *_: 1, launch_kernel)

    def close(self) -> None:
        pass


class Gpu(HostRuntime):
    """A GPU that runs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.device = H200

    def load(self, binary: Binary) -> Any:  # noqa: ARG002
        return OnPaper()


def plan_of(problem: Problem) -> Plan:
    family, config = answering(problem, H200)
    match = Match(MatchKind.DEFAULT, family.program(problem, config), None, ())
    plan = Plan(problem, match, {"": made_binary()}, Gpu())
    plan._quick[torch.Tensor] = torch_calls(torch, plan._signature, torch.device("cpu"), lambda: 0)
    return plan


def cost(work: Callable[[], object]) -> tuple[int, int]:
    """Bytecodes, and calls of C functions, of the second time that `work` is done."""
    work()
    bytecodes = calls = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal bytecodes
        frame.f_trace_opcodes = True
        bytecodes += event == "opcode"
        return trace

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "c_call"

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return bytecodes, calls - 1  # without that which ends it


def given(problem: Problem) -> tuple[Any, ...]:
    arrays = [torch.zeros(each.shape, dtype=getattr(torch, each.dtype.value)) for each in problem.inputs]
    return (arrays[0], *(each.numpy() for each in arrays[1:]))


@pytest.mark.parametrize("problem", [FILTER, TRANSFORM], ids=["filter2d", "fft"])
@pytest.mark.parametrize("kind", MOST_BYTECODES)
def test_a_call_with_tensors(problem: Problem, kind: str) -> None:
    plan, arrays = plan_of(problem), given(problem)
    out = torch.empty(problem.output.shape, dtype=getattr(torch, problem.output.dtype.value)) if kind == "out" else None
    bytecodes, calls = cost(lambda: plan(*arrays, out=out))
    assert bytecodes <= MOST_BYTECODES[kind]
    assert calls <= MOST_C_CALLS


def test_a_call_with_care_would_be_seen() -> None:
    """Which shows that the test above can fail."""
    plan, arrays = plan_of(FILTER), given(FILTER)
    plan._quick.clear()
    plan._any._on_host = True  # for tensors on the CPU
    bytecodes, _ = cost(lambda: (plan(*arrays), plan._quick.clear()))
    assert bytecodes > 4 * MOST_BYTECODES["new"]


def test_weights_that_are_changed_in_place_are_seen() -> None:
    plan, (image, weights) = plan_of(FILTER), given(FILTER)
    prepared: Any = plan._launches
    for changed in (7, 8):
        weights[1, 1] = changed
        plan(image, weights)
        assert prepared._free[0].values == (weights.tobytes(),)
