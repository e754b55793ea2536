"""Plans that hold some of their inputs: the same results, and what is made of these inputs alone is made once."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from warpsmith.devices.base import Runtime
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.circular.family import Conv2dCircular
from warpsmith.generator.conv2d.direct import Conv2dDirect
from warpsmith.generator.conv2d.fourier.family import SPECTRA, Conv2dFft
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.fft.family import Filter2dFft
from warpsmith.generator.filter2d.overlap.family import Filter2dOverlapSave
from warpsmith.generator.holding import held
from warpsmith.generator.problem import Problem
from warpsmith.generator.steps import Lifetime
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.answers import random_operands

DEVICE = DeviceRef(DeviceKind.HOST).device()
LAYER = Conv2d((2, 3, 9, 7), (4, 3, 3, 2), padding=1, bias=True)  # type: ignore[arg-type]
GRADIENT = Conv2d((2, 3, 9, 7), (4, 3, 3, 2), pass_=Pass.DGRAD)
DEPTHWISE = Conv2d((3, 2, 12, 11), (2, 1, 7, 7), padding=3, groups=2)  # type: ignore[arg-type]
FILTER = Filter2d((40, 37), (9, 8), accuracy="imagewise")
LARGE = Filter2d((90, 70), (19, 21), accuracy="imagewise", nonfinite="any")
CASES: tuple[tuple[Family, Problem, str], ...] = (
    (Conv2dFft(), LAYER, "w"),
    (Conv2dFft(), GRADIENT, "w"),
    (Conv2dCircular(), DEPTHWISE, "w"),
    (Filter2dOverlapSave(), FILTER, "weights"),
    (Filter2dFft(), LARGE, "weights"),
    (Conv2dDirect(), LAYER, "w"),
)
every_case = pytest.mark.parametrize(("family", "problem", "name"), CASES, ids=lambda each: getattr(each, "name", None))


def plan_of(host: Runtime, quick: HostCompiler, family: Family, problem: Problem) -> Plan:
    program = family.program(problem, family.default(problem, DEVICE))
    binaries = {name: quick.compile(each) for name, each in program.compilations().items()}
    return Plan(problem, Match(MatchKind.DEFAULT, program, None, ()), binaries, host)


def others(problem: Problem, operands: Any, name: str) -> list[NDArray[Any]]:
    return [operands[each.name] for each in problem.inputs if each.name != name]


@exhaustive.one_in(2)
@every_case
def test_has_the_same_results(host: Runtime, quick: HostCompiler, family: Family, problem: Problem, name: str) -> None:
    plan = plan_of(host, quick, family, problem)
    first, second = (random_operands(problem, seed) for seed in (1, 2))
    second[name] = first[name]  # type: ignore[index]
    holding = plan.hold(**{name: first[name].copy()})
    assert holding.asked == tuple(each.name for each in problem.inputs if each.name != name)
    assert (holding.problem, holding.match) == (plan.problem, plan.match)
    for operands in (first, second, first):
        whole = plan(*(operands[each.name] for each in problem.inputs))
        out = np.full(problem.output.shape, np.nan, np.float32)
        assert holding(*others(problem, operands, name), out=out) is out
        assert np.array_equal(out, whole)


@pytest.mark.parametrize("number", range(5))
def test_what_is_made_of_them_is_made_once(host: Runtime, quick: HostCompiler, number: int) -> None:
    """Otherwise another array of weights would show."""
    family, problem, name = CASES[number]
    operands = random_operands(problem, 1)
    held_array = operands[name].copy()
    holding = plan_of(host, quick, family, problem).hold(**{name: held_array})
    before = np.array(holding(*others(problem, operands, name)))
    held_array[...] = 0
    assert np.array_equal(holding(*others(problem, operands, name)), before)
    assert holding.workspace_bytes < plan_of(host, quick, family, problem).workspace_bytes


def test_two_plans_hold_apart(host: Runtime, quick: HostCompiler) -> None:
    plan = plan_of(host, quick, Conv2dFft(), LAYER)
    some, more = (random_operands(LAYER, seed) for seed in (1, 2))
    one, other = plan.hold(w=some["w"]), plan.hold(w=more["w"])
    assert np.array_equal(one(some["x"], some["b"]), plan(some["x"], some["w"], some["b"]))
    assert np.array_equal(other(some["x"], some["b"]), plan(some["x"], more["w"], some["b"]))
    both = plan.hold(w=some["w"], b=more["b"])
    assert both.asked == ("x",)
    assert np.array_equal(both(some["x"]), plan(some["x"], some["w"], more["b"]))


def test_what_is_not_finite_is_repaired_with_the_held_weights(host: Runtime, quick: HostCompiler) -> None:
    plan = plan_of(host, quick, Filter2dOverlapSave(), FILTER)
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
def test_what_it_cannot_hold_is_told(host: Runtime, quick: HostCompiler, names: tuple[str, ...], told: str) -> None:
    plan = plan_of(host, quick, Conv2dDirect(), LAYER)
    with pytest.raises(BadArgument, match=told):
        plan.hold(**dict.fromkeys(names, np.zeros(1, np.float32)))


@pytest.mark.parametrize("family", [Conv2dFft(), Conv2dDirect()], ids=lambda family: family.name)
def test_calls_and_arrays_are_checked(host: Runtime, quick: HostCompiler, family: Family) -> None:
    plan, operands = plan_of(host, quick, family, LAYER), random_operands(LAYER, 1)
    holding = plan.hold(w=operands["w"])
    with pytest.raises(BadArgument, match=r"call it with the x, b alone"):
        holding(operands["x"], operands["w"], operands["b"])
    with pytest.raises(BadArgument, match="x"):
        holding(operands["x"][:1], operands["b"])
    with pytest.raises(BadArgument, match="w"):
        plan.hold(w=operands["w"][:1])(operands["x"], operands["b"])


class TestParts:
    def test_are_the_steps_of_the_held_input_and_the_others(self) -> None:
        family = Conv2dFft()
        program = family.program(LAYER, family.default(LAYER, DEVICE))
        parts = held(program, {"w"})
        assert parts is not None
        assert [step.unit for step in parts.first.launches] == ["second"]
        assert [step.unit for step in parts.rest.launches] == ["first", "product", "ends", "result"]
        assert [(each.name, each.lifetime) for each in parts.first.workspaces] == [(SPECTRA[1], Lifetime.KEPT)]
        assert [each.lifetime for each in parts.rest.workspaces] == [Lifetime.CALL, Lifetime.KEPT, Lifetime.CALL]
        assert {unit.name for unit in parts.first.units} == {"second"}

    @pytest.mark.parametrize(
        ("family", "problem", "name"), [CASES[5], (Conv2dFft(), LAYER, "x"), (Conv2dFft(), LAYER, "b")]
    )
    def test_there_are_none_where_nothing_is_made_of_the_input_alone(
        self, family: Family, problem: Problem, name: str
    ) -> None:
        assert held(family.program(problem, family.default(problem, DEVICE)), {name}) is None


ORDERS = (("w", "b"), ("b", "w"))


@pytest.mark.parametrize("family", [Conv2dFft(), Conv2dDirect(), Conv2dCircular()], ids=lambda family: family.name)
@pytest.mark.parametrize("order", ORDERS)
def test_inputs_may_be_held_one_after_the_other(
    host: Runtime, quick: HostCompiler, family: Family, order: tuple[str, str]
) -> None:
    layer = dataclasses.replace(DEPTHWISE, bias=True) if isinstance(family, Conv2dCircular) else LAYER
    plan, operands = plan_of(host, quick, family, layer), random_operands(layer, 1)
    expected = plan(operands["x"], operands["w"], operands["b"])
    first, second = order
    one = plan.hold(**{first: operands[first]})
    both = one.hold(**{second: operands[second]})
    assert both.asked == ("x",)
    for each in (one, both):
        assert (each.problem, each.match, each.runtime) == (plan.problem, plan.match, plan.runtime)
        assert each.verified == plan.verified
        assert each.binaries == plan.binaries
    assert np.array_equal(both(operands["x"]), expected)
    assert np.array_equal(one(*others(layer, operands, first)), expected)
    made_once = held(plan.match.program, {"w"}) is not None
    assert (both.workspace_bytes < plan.workspace_bytes) == (made_once and plan.workspace_bytes > 0)
    with pytest.raises(BadArgument, match="holds some of its inputs x by name, and not all; got none"):
        both.hold()
    with pytest.raises(BadArgument, match="got w"):
        both.hold(w=operands["w"])
