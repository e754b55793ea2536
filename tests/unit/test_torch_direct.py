"""Calls of convolutions that were made before: compiled code finds them, and their results and derivatives are those of
the first call.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import pytest

import warpsmith.torch as wt
from reference_plans import by_reference
from torch_layers import LAYOUTS, ROUNDING, check, compiled, derivatives, exact, gradients, seeded
from warpsmith.generator.problem import Problem
from warpsmith.store.changes import OWN_WRITES
from warpsmith.torch import convolution, direct

torch = pytest.importorskip("torch")
pytest.importorskip("warpsmith.torch.native_layers")
functional, ad = torch.nn.functional, torch.autograd.forward_ad

FUNCTIONS = {
    "conv2d": (functools.partial(wt.conv2d, padding=1), functools.partial(functional.conv2d, padding=1)),
    "conv_transpose2d": (
        functools.partial(wt.conv_transpose2d, stride=2, padding=1, output_padding=(1, 0)),
        functools.partial(functional.conv_transpose2d, stride=2, padding=1, output_padding=(1, 0)),
    ),
}
every_function = pytest.mark.parametrize("name", FUNCTIONS)


@pytest.fixture(autouse=True)
def called(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Problems of the plans that computed a pass."""
    wt.forget()
    yield by_reference(monkeypatch)
    wt.forget()


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls that compiled code did not find."""
    calls: list[Any] = []
    found_layer = convolution.found_layer

    def noted(*given: Any) -> Any:
        calls.append(given)
        return found_layer(*given)

    monkeypatch.setattr(convolution, "found_layer", noted)
    return calls


def operands(layout: str = "nchw", dtype: Any = torch.float32) -> list[Any]:
    """x, w and b, each with a gradient."""
    images = [seeded(*shape).contiguous(memory_format=LAYOUTS[layout]) for shape in ((2, 4, 6, 5), (4, 4, 3, 3))]
    return [each.to(dtype).requires_grad_() for each in (*images, seeded(4))]


@pytest.mark.parametrize("layout", LAYOUTS)
@every_function
def test_derivatives_of_both_orders(name: str, layout: str, looked_up: list[Any]) -> None:
    (ours, theirs), given = FUNCTIONS[name], operands(layout)
    of_both, references = derivatives(theirs, exact(*given)), gradients(theirs, *exact(*given))
    for _ in range(3):
        check(derivatives(ours, given), of_both)
        results = gradients(ours, *given)
        check(results, references)
        assert all(each.is_contiguous(memory_format=LAYOUTS[layout]) for each in results if each.dim() == 4)
    assert len(looked_up) == 1


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)], ids=str)
@every_function
def test_gradients_of_some_operands(name: str, wanted: tuple[int, ...], called: list[Problem]) -> None:
    (ours, theirs), given = FUNCTIONS[name], operands()
    given = [each if place in wanted else each.detach() for place, each in enumerate(given)]
    asked, counts = [given[place] for place in wanted], []
    references = torch.autograd.grad(theirs(*given).square().sum(), asked)
    for _ in range(2):
        called.clear()
        found = torch.autograd.grad(ours(*given).square().sum(), asked)
        check(list(found), [each.double() for each in references], 1e-5)
        counts.append(len(called))
    assert counts == [1 + len({0, 1} & set(wanted))] * 2


def test_a_gradient_that_lies_otherwise(looked_up: list[Any]) -> None:
    (ours, theirs), given = FUNCTIONS["conv2d"], operands()
    for change in (lambda y: y.sum(), lambda y: y[:, :, ::2].square().sum(), lambda y: y.mT.contiguous().sum()):
        references = torch.autograd.grad(change(theirs(*given)), given)
        for _ in range(2):
            check(list(torch.autograd.grad(change(ours(*given)), given)), [each.double() for each in references], 1e-5)
    assert len(looked_up) == 1


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@every_function
def test_forward_mode_and_transforms_after_a_direct_call(name: str) -> None:
    (ours, theirs), (x, w, b) = FUNCTIONS[name], operands()
    ours(x, w, b)

    def tangent(function: Callable[..., Any]) -> Any:
        with ad.dual_level():
            return ad.unpack_dual(function(ad.make_dual(x, x.detach().cos()), w, b)).tangent.detach()

    check([tangent(ours)], [tangent(theirs).double()])
    check([torch.vmap(lambda each: ours(each[None], w, b))(x).detach()], [theirs(x, w, b)[:, None].detach().double()])
    of_x = torch.func.grad(lambda each: ours(each, w, b).square().sum())(x)
    check([of_x.detach()], [torch.autograd.grad(theirs(x, w, b).square().sum(), x)[0].double()], 1e-5)


@every_function
def test_autocast_has_calls_of_its_own(name: str, called: list[Problem], looked_up: list[Any]) -> None:
    (ours, theirs), given = FUNCTIONS[name], operands()
    for _ in range(2):
        check(gradients(ours, *given), gradients(theirs, *exact(*given)))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y, *found = gradients(ours, *given)
        assert y.dtype is torch.bfloat16
        assert [each.dtype for each in found] == [torch.float32] * 3
        check([y], [theirs(*exact(*given)).detach()], 3 * ROUNDING[torch.bfloat16])
    assert len(looked_up) == 2
    assert {str(each.dtype) for each in called} == {"float32", "bfloat16"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [True, 1.0, [1, 1], torch.tensor(1)], ids=str)
def test_equal_arguments_of_other_types_are_looked_up(value: Any, looked_up: list[Any]) -> None:
    x, w, _ = operands()
    for _ in range(2):
        wt.conv2d(x, w, stride=1)
    assert len(looked_up) == 1
    if value is True or isinstance(value, float):
        with pytest.raises(TypeError):
            wt.conv2d(x, w, stride=value)
    else:
        wt.conv2d(x, w, stride=value)
    assert len(looked_up) == 2


@pytest.mark.filterwarnings("ignore::warpsmith.torch.LeftToTorch")
def test_operands_that_lie_otherwise_are_looked_up(looked_up: list[Any]) -> None:
    x, w, b = operands()
    others = [
        (x.contiguous(memory_format=torch.channels_last), w, b),
        (x[:1], w, b),
        (x.double(), w.double(), b.double()),
        (x, w, None),
        (x[0], w, b),
        (x.as_subclass(type("Own", (torch.Tensor,), {})), w, b),
    ]
    wt.conv2d(x, w, b)
    for count, given in enumerate(others[:-1], 2):
        reference = functional.conv2d(*given)
        check([wt.conv2d(*given).detach()], [reference.detach().double()])
        assert len(looked_up) == count
    check([wt.conv2d(*others[-1]).detach()], [functional.conv2d(x, w, b).detach().double()])


def test_a_write_to_the_store_renews_the_plans(called: list[Problem], monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, b = operands()
    for _ in range(2):
        gradients(wt.conv2d, x, w, b)
    seen: list[Problem] = by_reference(monkeypatch)
    called.clear()
    gradients(wt.conv2d, x, w, b)
    assert (len(called), len(seen)) == (3, 0)
    OWN_WRITES.note()
    gradients(wt.conv2d, x, w, b)
    assert (len(called), len(seen)) == (3, 3)


def test_a_compiler_traces_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_TABLES", None)  # reading it would raise
    for ours, theirs in FUNCTIONS.values():
        given = operands()
        check(gradients(compiled(ours), *given), gradients(theirs, *exact(*given)))


@pytest.mark.filterwarnings("ignore:(?s).*Dynamo does not know how to trace")
@every_function
def test_a_backward_pass_that_a_compiler_traces(name: str, looked_up: list[Any]) -> None:
    (ours, theirs), given = FUNCTIONS[name], operands()
    expected = torch.autograd.grad(theirs(*given).square().sum(), given)
    tracing = importlib.import_module("torch._dynamo.compiled_autograd")
    for _ in range(2):
        loss = ours(*given).square().sum()
        with (getattr(tracing, "_enable", None) or tracing.enable)(torch.compile(backend="eager")):
            loss.backward()
        check([each.grad for each in given], [each.double() for each in expected], 1e-5)
        for each in given:
            each.grad = None
    assert len(looked_up) == 1


def test_everything_works_without_compiled_code(monkeypatch: pytest.MonkeyPatch, looked_up: list[Any]) -> None:
    monkeypatch.setattr(direct, "_TABLES", (None, None))
    for ours, theirs in FUNCTIONS.values():
        given = operands()
        for _ in range(2):
            check(derivatives(ours, given), derivatives(theirs, exact(*given)))
    assert len(looked_up) == 4


def test_a_weight_that_is_changed_in_place_raises_pytorch_s_error() -> None:
    x, w, b = operands()
    for _ in range(2):
        y = wt.conv2d(x, w, b)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
