"""Cost of a call in bytecodes and calls of C functions; these are counted, since times depend on machine and load.

The path is a GPU's: PyTorch tensors and compiled launches. Only the driver function and the handle of the current
stream are stand-ins, and the tensors are on the CPU.
"""

from __future__ import annotations

import ctypes
import dataclasses
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

import pytest

import warpsmith.torch as wt
from builders import binary as made_binary
from warpsmith.devices import native_calls
from warpsmith.devices.compiler import Binary
from warpsmith.devices.cuda.compiled_launches import CompiledLaunches
from warpsmith.devices.fast_calls import calls_of
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.devices.module import BoundLaunch, CallArguments, Launches, Module
from warpsmith.devices.torch_access import torch_access
from warpsmith.devices.workspaces import Workspaces
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import ByValue, Launch, Program
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.steps import Workspace
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store.changes import OWN_WRITES
from warpsmith.torch.answers import Answer
from warpsmith.torch.layers import found_layer

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
    return plan_from(problem, family.program(problem, config), launch_kernel)


def plan_from(problem: Problem, program: Program, launch_kernel: Any, memory: Any = None) -> Plan:
    """A plan whose fast calls allocate workspaces with `memory`."""
    match = Match(MatchKind.EXACT, program, None, ())
    plan = Plan.load(problem, match, {each.name: made_binary() for each in program.units}, Gpu(launch_kernel))
    signature, launches = plan.loaded.signature, plan.loaded.launches
    access = torch_access(torch, signature, torch.device("cpu"), native_calls, lambda: 0)
    access = dataclasses.replace(access, memory=memory)
    values = tuple(each.tobytes() for each in given(problem)[1:] if signature.by_value)
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


LAYER = Conv2d((2, 8, 8, 8), (8, 8, 3, 3), padding=1)  # type: ignore[arg-type]  # the same on both sides
MOST_OF_LAYERS = {"no gradient": (120, 3), "forward": (125, 3), "forward and backward": (200, 9)}
"""Limits of bytecodes and of C calls: about a third more than those of today."""


def use_of_plans(x: Any, w: Any) -> Callable[..., Any]:
    """`warpsmith.torch.conv2d` of `LAYER`, by plans on a GPU that runs nothing."""
    options: dict[str, Any] = {"padding": 1, "store": "/nowhere"}
    layer = found_layer(x, w, None, (1, 1, 1, 1, "zeros", "ieee", "torch", "/nowhere", "normwise", "any"))
    assert layer is not None
    for cached in layer._answers.values():
        plan = plan_of(cached.problem)
        cached._answer, cached._writes = Answer(cached.problem, plan, plan.match), OWN_WRITES.count
    return lambda *given: wt.conv2d(*given, **options)


@pytest.mark.parametrize("kind", MOST_OF_LAYERS)
def test_a_call_of_a_layer(kind: str) -> None:
    wt.forget()
    x, w = given_to_layer()
    conv2d, parameters = use_of_plans(x, w), [each.clone().requires_grad_() for each in (x, w)]
    run_backward = torch.autograd.variable.Variable._execution_engine.run_backward
    dy = torch.ones(2, 8, 8, 8)

    def step() -> None:
        run_backward((conv2d(*parameters),), (dy,), False, False, (), allow_unreachable=True, accumulate_grad=True)

    works: dict[str, Callable[[], object]] = {
        "no gradient": lambda: conv2d(x, w),
        "forward": lambda: conv2d(*parameters),
        "forward and backward": step,
    }
    conv2d(*parameters)  # the first call makes the entry that the others find
    bytecodes, calls = cost(works[kind])
    wt.forget()
    most_bytecodes, most_calls = MOST_OF_LAYERS[kind]
    assert bytecodes <= most_bytecodes
    assert calls <= most_calls


def given_to_layer() -> list[Any]:
    return [torch.zeros(each.shape) for each in LAYER.inputs]


def test_workspaces_of_new_results_are_the_library_s() -> None:
    """Each call gets one that overlaps no array, and gives it back."""
    family = Conv2dWarpgroup()
    program = family.program(LAYER, family.default(LAYER, H200))
    made: list[Any] = []

    def memory(nbytes: int) -> Callable[[], tuple[Any, int]]:
        def allocated() -> tuple[Any, int]:
            array = torch.empty(nbytes + 256, dtype=torch.uint8)
            made.append(array)
            return array, -(-array.data_ptr() // 256) * 256

        return allocated

    seen: list[int] = []

    @LaunchFunction
    def launch_kernel(_configuration: int, _function: int, table: int, _null: int) -> int:
        count = len(program.launches[len(seen) % len(program.launches)].arguments)
        places = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))
        addresses = [ctypes.c_uint64.from_address(places[place] or 0).value for place in range(count)]
        start = made[-1].data_ptr()
        seen.append(sum(start <= address < start + made[-1].numel() for address in addresses))
        return 0

    plan = plan_from(LAYER, program, launch_kernel, memory)
    assert plan.workspace_bytes
    x, w = given_to_layer()
    for count in (1, 2):
        y = plan.fast[torch.Tensor].new((x, w))  # type: ignore[union-attr]
        assert tuple(y.shape) == LAYER.output.shape
        assert len(made) == count
    assert sum(seen) >= 2
