"""Cost of a call in bytecodes and calls of C functions; these are counted, since times depend on machine and load.

The path is a GPU's: PyTorch tensors and compiled launches. Only the driver function and the handle of the current
stream are stand-ins, and the tensors are on the CPU.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest

from builders import binary as made_binary
from warpsmith.devices import native_calls
from warpsmith.devices.compiler import Binary
from warpsmith.devices.cuda.compiled_launches import CompiledLaunches
from warpsmith.devices.fast_calls import calls_of
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import BoundLaunch, CallArguments, Launches, Module
from warpsmith.devices.torch_access import torch_access
from warpsmith.devices.workspaces import Workspaces
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import ByValue, Launch, Program
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.steps import Workspace
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan

torch = pytest.importorskip("torch")

FILTER = Filter2d(image=(256, 256), filter=(3, 3))
TRANSFORM = Fft(size=(64, 64), batch=2)

MOST_BYTECODES = {"out": 60, "new": 80}
"""Limits of bytecodes: a third more than the 43 and 57 of today on Python 3.11; other versions have other bytecodes."""
MOST_C_CALLS = 4
"""Limit of C calls: a third more than the 3 of today; attribute getters and calls of compiled code do not count."""

LaunchFunction = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
"""Type of `cuLaunchKernelEx`: configuration, function, table of arguments, null."""

QUEUES_ALWAYS = LaunchFunction(("sched_yield", ctypes.CDLL(None)))
"""A C function that does nothing; its result 0 is the driver's success."""


class OnPaper(Module):
    """A module on a device whose driver does nothing."""

    def bind(self, launch: Launch, addresses: Mapping[str, int], values: Mapping[str, bytes]) -> BoundLaunch:  # noqa: ARG002
        raise AssertionError("such a program is not bound")

    def close(self) -> None:
        pass


class Gpu(HostRuntime):
    """A GPU that runs nothing."""

    def __init__(self, launch_kernel: Any) -> None:
        super().__init__()
        self.device = H200
        self._launch_kernel = launch_kernel

    def load(self, binary: Binary) -> Any:  # noqa: ARG002
        return OnPaper()

    def compiled_launches(
        self,
        program: Program,
        modules: Mapping[str, Module],  # noqa: ARG002
        arguments: CallArguments,
        workspaces: tuple[Workspace, ...],
    ) -> Launches:
        context: Any = None
        address, memory = ctypes.cast(self._launch_kernel, ctypes.c_void_p).value or 0, Workspaces(self, workspaces)
        return CompiledLaunches(context, program, arguments, memory, lambda *_: 1, native_calls, address)


def plan_of(problem: Problem, launch_kernel: Any = QUEUES_ALWAYS) -> Plan:
    family, config = default_answer(problem, H200)
    match = Match(MatchKind.DEFAULT, family.program(problem, config), None, ())
    plan = Plan.load(problem, match, {"": made_binary()}, Gpu(launch_kernel))
    signature, launches = plan.loaded.signature, plan.loaded.launches
    access = torch_access(torch, signature, torch.device("cpu"), native_calls, lambda: 0)
    values = tuple(each.tobytes() for each in given(problem)[1:])
    plan.fast[torch.Tensor] = calls_of(access, signature, launches, values, native_calls)
    return plan


def cost(work: Callable[[], object]) -> tuple[int, int]:
    """Bytecodes and calls of C functions in the second run of `work`."""
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


def test_a_call_that_makes_every_check_would_be_seen() -> None:
    """Shows that the limits above can be exceeded."""
    plan, arrays = plan_of(FILTER), given(FILTER)
    plan.fast.clear()
    plan.loaded.calls._on_host = True  # for tensors on the CPU
    bytecodes, _ = cost(lambda: (plan(*arrays), plan.fast.clear()))
    assert bytecodes > 16 * MOST_BYTECODES["new"]


def test_weights_that_are_changed_in_place_are_seen() -> None:
    seen: list[list[float]] = []

    @LaunchFunction
    def launch_kernel(_configuration: int, _function: int, table: int, _null: int) -> int:
        places = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))
        argument = next(place for place, each in enumerate(launch.arguments) if isinstance(each, ByValue))
        seen.append(list((ctypes.c_float * 9).from_address(places[argument] or 0)))
        return 0

    plan, (image, weights) = plan_of(FILTER, launch_kernel), given(FILTER)
    (launch,) = plan.match.program.launches
    for changed in (7, 8):
        weights[1, 1] = changed
        plan(image, weights)
        assert seen.pop() == weights.ravel().tolist()
