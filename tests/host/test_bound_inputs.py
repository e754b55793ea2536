"""Plans with bound operands: results stay the same, and steps that depend only on bound operands run once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from joined import plan_of as joined_plan_of
from unequal_images import laid_out
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.circular_family import Conv2dCircular
from warpsmith.generator.conv2d.fourier.product_stage import SPECTRA
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.fft.fft_family import Filter2dFft
from warpsmith.generator.filter2d.overlap_family import Filter2dOverlapSave
from warpsmith.generator.gate import Gate
from warpsmith.generator.prepacking import split_program
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import OPERATIONS
from warpsmith.generator.steps import Lifetime
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.registry import random_operands

DEVICE = DeviceRef(DeviceKind.HOST).device()
LAYER = Conv2d((2, 3, 9, 7), (4, 3, 3, 2), padding=1, bias=True)  # type: ignore[arg-type]
GRADIENT = Conv2d((2, 3, 9, 7), (4, 3, 3, 2), pass_=Pass.DGRAD)
DEPTHWISE = Conv2d((3, 2, 12, 11), (2, 1, 7, 7), padding=3, groups=2)  # type: ignore[arg-type]
FILTER = Filter2d((40, 37), (9, 8), accuracy="imagewise")
BYTES = Filter2d((20, 600), (3, 3), dtype="uint8")  # type: ignore[arg-type]
WIDE = Cgemm(batch=2, m=128, n=64, k=64, accuracy="normwise")
LARGE = Filter2d((90, 70), (19, 21), accuracy="imagewise", nonfinite="any")
CASES: tuple[tuple[Family, Problem, str], ...] = (
    (FOURIER["conv2d_fft"], LAYER, "w"),
    (FOURIER["conv2d_fft"], GRADIENT, "w"),
    (Conv2dCircular(), DEPTHWISE, "w"),
    (Filter2dOverlapSave(), FILTER, "weights"),
    (Filter2dFft(), LARGE, "weights"),
    (Conv2dDirect(), LAYER, "w"),
)
every_case = pytest.mark.parametrize(("family", "problem", "name"), CASES, ids=lambda each: getattr(each, "name", None))


def plan_of(host: Runtime, quickest: HostCompiler, family: Family, problem: Problem) -> Plan:
    return joined_plan_of(host, quickest, problem, family.program(problem, family.default(problem, DEVICE)))


def others(problem: Problem, operands: Any, name: str) -> list[NDArray[Any]]:
    return [operands[each.name] for each in problem.inputs if each.name != name]


@exhaustive.one_in(2)
@every_case
def test_has_the_same_results(
    host: Runtime, quickest: HostCompiler, family: Family, problem: Problem, name: str
) -> None:
    plan = plan_of(host, quickest, family, problem)
    first, second = (random_operands(problem, seed) for seed in (1, 2))
    second[name] = first[name]  # type: ignore[index]
    holding = plan.hold(**{name: first[name].copy()})
    assert holding.caller_inputs == tuple(each.name for each in problem.inputs if each.name != name)
    assert (holding.problem, holding.match) == (plan.problem, plan.match)
    for operands in (first, second, first):
        whole = plan(*(operands[each.name] for each in problem.inputs))
        out = np.full(problem.output.shape, np.nan, np.float32)
        assert holding(*others(problem, operands, name), out=out) is out
        assert np.array_equal(out, whole)


@pytest.mark.parametrize("number", range(5))
def test_what_is_made_of_them_is_made_once(host: Runtime, quickest: HostCompiler, number: int) -> None:
    """The array is overwritten after binding, so a step that ran again would change the result."""
    family, problem, name = CASES[number]
    operands = random_operands(problem, 1)
    held_array = operands[name].copy()
    holding = plan_of(host, quickest, family, problem).hold(**{name: held_array})
    before = np.array(holding(*others(problem, operands, name)))
    held_array[...] = 0
    assert np.array_equal(holding(*others(problem, operands, name)), before)
    assert holding.workspace_bytes < plan_of(host, quickest, family, problem).workspace_bytes


def test_two_plans_hold_apart(host: Runtime, quickest: HostCompiler) -> None:
    plan = plan_of(host, quickest, FOURIER["conv2d_fft"], LAYER)
    some, more = (random_operands(LAYER, seed) for seed in (1, 2))
    one, other = plan.hold(w=some["w"]), plan.hold(w=more["w"])
    assert np.array_equal(one(some["x"], some["b"]), plan(some["x"], some["w"], some["b"]))
    assert np.array_equal(other(some["x"], some["b"]), plan(some["x"], more["w"], some["b"]))
    both = plan.hold(w=some["w"], b=more["b"])
    assert both.caller_inputs == ("x",)
    assert np.array_equal(both(some["x"]), plan(some["x"], some["w"], more["b"]))


def test_what_is_not_finite_is_repaired_with_the_held_weights(host: Runtime, quickest: HostCompiler) -> None:
    plan = plan_of(host, quickest, Filter2dOverlapSave(), FILTER)
    operands = random_operands(FILTER, 1)
    image = operands["image"].copy()
    image[20, 20] = np.inf
    holding = plan.hold(weights=operands["weights"])
    whole, result = plan(image, operands["weights"]), holding(image)
    assert np.array_equal(result, whole, equal_nan=True)
    assert np.isfinite(result[0, 0])
    assert not np.isfinite(result).all()


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ((), "holds some of its inputs x, w, b by name, and not all; got none"),
        (("x", "w", "b"), "not all; got x, w, b"),
        (("weights",), "got weights"),
    ],
)
def test_what_it_cannot_hold_is_told(host: Runtime, quickest: HostCompiler, names: tuple[str, ...], told: str) -> None:
    plan = plan_of(host, quickest, Conv2dDirect(), LAYER)
    with pytest.raises(BadArgument, match=told):
        plan.hold(**dict.fromkeys(names, np.zeros(1, np.float32)))


@pytest.mark.parametrize("family", [FOURIER["conv2d_fft"], Conv2dDirect()], ids=lambda family: family.name)
def test_calls_and_arrays_are_checked(host: Runtime, quickest: HostCompiler, family: Family) -> None:
    plan, operands = plan_of(host, quickest, family, LAYER), random_operands(LAYER, 1)
    holding = plan.hold(w=operands["w"])
    with pytest.raises(BadArgument, match=r"call it with the x, b alone"):
        holding(operands["x"], operands["w"], operands["b"])
    with pytest.raises(BadArgument, match="x"):
        holding(operands["x"][:1], operands["b"])
    with pytest.raises(BadArgument, match="w"):
        plan.hold(w=operands["w"][:1])(operands["x"], operands["b"])


class TestParts:
    def test_are_the_steps_of_the_held_input_and_the_others(self) -> None:
        family = FOURIER["conv2d_fft"]
        program = family.program(LAYER, family.default(LAYER, DEVICE))
        parts = split_program(program, {"w"})
        assert parts is not None
        assert [step.unit for step in parts.first.launches] == ["second"]
        assert [step.unit for step in parts.rest.launches] == ["first", "product", "ends", "result"]
        assert [(each.name, each.lifetime) for each in parts.first.workspaces] == [(SPECTRA[1], Lifetime.KEPT)]
        assert [each.lifetime for each in parts.rest.workspaces] == [Lifetime.CALL, Lifetime.KEPT, Lifetime.CALL]
        assert {unit.name for unit in parts.first.units} == {"second"}

    @pytest.mark.parametrize(
        ("family", "problem", "name"),
        [CASES[5], (FOURIER["conv2d_fft"], LAYER, "x"), (FOURIER["conv2d_fft"], LAYER, "b")],
    )
    def test_there_are_none_where_nothing_is_made_of_the_input_alone(
        self, family: Family, problem: Problem, name: str
    ) -> None:
        assert split_program(family.program(problem, family.default(problem, DEVICE)), {name}) is None


LAYERS: tuple[Conv2d, ...] = (
    Conv2d((2, 3, 5, 4), (4, 3, 3, 2), padding=1, bias=True),  # type: ignore[arg-type]
    Conv2d((2, 3, 9, 7), (4, 3, 3, 2), padding=1, bias=True),  # type: ignore[arg-type]
    Conv2d((1, 4, 4, 4), (8, 4, 3, 3), padding=1, bias=True),  # type: ignore[arg-type]
    Conv2d((2, 8, 9, 7), (8, 1, 3, 3), padding=1, groups=8, bias=True, layout="nhwc"),  # type: ignore[arg-type]
    Conv2d((3, 2, 12, 11), (2, 1, 7, 7), padding=3, groups=2, bias=True),  # type: ignore[arg-type]
    Conv2d((1, 16, 8, 8), (16, 16, 3, 3), padding=1, bias=True, layout="nhwc", dtype="float16", precision="f16"),  # type: ignore[arg-type]
    Conv2d((4, 32, 3, 3), (32, 32, 2, 2), padding=1, bias=True),  # type: ignore[arg-type]
    Conv2d((2, 8, 6, 6), (8, 8, 1, 1), bias=True),
    Conv2d((3, 8, 1, 1), (4, 8, 1, 1), bias=True),
    Conv2d((2, 64, 4, 5), (64, 8, 3, 3), padding=1, groups=8, bias=True, layout="nhwc", dtype="float16"),  # type: ignore[arg-type]
    Conv2d((2, 20, 4, 5), (12, 20, 1, 1), bias=True, layout="nhwc", dtype="float16"),  # type: ignore[arg-type]
    Conv2d((2, 3, 9, 7), (4, 3, 3, 2), padding=1, pass_=Pass.WGRAD),  # type: ignore[arg-type]
    Conv2d((2, 16, 6, 6), (16, 16, 3, 3), padding=1, layout="nhwc", precision="tf32"),  # type: ignore[arg-type]
)
"""Layers such that each conv2d family that runs on the host solves one."""
TRANSFORMS = Cgemm(batch=6, m=5, n=4, k=3)
ON_GPUS_ONLY = {"conv2d_fft_cublas", "conv2d_cufft", "cgemm_cublas"}


def solved() -> Iterator[tuple[Family, Problem]]:
    """Every family of conv2d, filter2d and cgemm, each with the first problem that it solves."""
    problems = {"conv2d": LAYERS, "filter2d": (FILTER, LARGE, BYTES), "cgemm": (TRANSFORMS, WIDE)}
    for operation, listed in problems.items():
        for family in OPERATIONS[operation].families:
            if family.name not in ON_GPUS_ONLY:
                yield family, next(each for each in listed if Gate(each, DEVICE).why_unable(family) is None)


@exhaustive.one_in(2)
@pytest.mark.parametrize(("family", "problem"), list(solved()), ids=lambda each: getattr(each, "name", "it"))
def test_inputs_are_bound_in_any_order(host: Runtime, quickest: HostCompiler, family: Family, problem: Problem) -> None:
    program, drawn = family.program(problem, family.default(problem, DEVICE)), random_operands(problem, 1)
    operands = {each.name: laid_out(drawn[each.name], each) for each in problem.inputs}
    plan = joined_plan_of(host, quickest, problem, program)
    expected = plan(*(operands[each.name] for each in problem.inputs))
    first, *others = (each.name for each in problem.inputs)
    for order in itertools.permutations(others):
        bound = plan
        for name in order:
            bound = bound.hold(**{name: operands[name]})
            check_facts(bound, plan)
            passed = [operands[each] for each in bound.caller_inputs]
            for _ in range(2):
                assert np.array_equal(bound(*passed), expected)
        assert bound.caller_inputs == (first,)
    together = plan.hold(**{name: operands[name] for name in others})
    check_facts(together, plan)
    assert np.array_equal(together(operands[first]), expected)
    is_split = any(split_program(program, {name}) is not None for name in others)
    assert (together.workspace_bytes < plan.workspace_bytes) == (is_split and plan.workspace_bytes > 0)
    with pytest.raises(BadArgument, match=f"holds some of its inputs {first} by name, and not all; got none"):
        together.hold()
    with pytest.raises(BadArgument, match=f"got {others[0]}"):
        together.hold(**{others[0]: operands[others[0]]})


def check_facts(bound: Plan, plan: Plan) -> None:
    assert (bound.problem, bound.match, bound.runtime) == (plan.problem, plan.match, plan.runtime)
    assert (bound.verified, bound.binaries) == (plan.verified, plan.binaries)


@pytest.mark.parametrize("bound", ["x", "w", "b"])
def test_later_calls_with_bound_arrays_are_fast(
    host: Runtime, quickest: HostCompiler, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    tensors = {name: torch.from_numpy(array.copy()) for name, array in random_operands(LAYER, 1).items()}
    plan = plan_of(host, quickest, Conv2dDirect(), LAYER)
    expected = plan(*(tensors[each.name] for each in LAYER.inputs))
    binding = plan.hold(**{bound: tensors.pop(bound)})
    binding(*(tensors[name] for name in binding.caller_inputs))
    monkeypatch.setattr(plan.loaded.calls, "read", lambda *_: pytest.fail("all checks were made again"))
    out = torch.full_like(expected, float("nan"))
    assert binding(*(tensors[name] for name in binding.caller_inputs), out=out) is out
    assert torch.equal(out, expected)
    monkeypatch.undo()
    with pytest.raises(BadArgument, match=f"this plan holds {bound}: call it with the"):
        binding(*tensors.values(), out)
