"""Convolutions between gates as an operator of PyTorch on CPU tensors: results, gradients and refusals."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import warpsmith.torch as wt
from torch_signals import assert_close, causal, seeded, signals
from warpsmith.errors import BadArgument

pytestmark = pytest.mark.usefixtures("compile_quickest")


def gated(x: Any, w: Any, before: Any, after: Any, b: Any = None, activation: str | None = None) -> Any:
    """The convolution by its definition."""
    w = w.repeat_interleave(x.shape[1] // len(w), 0)
    y = causal(x if before is None else x * before, w, b, activation)
    return y if after is None else y * after


def operands(layout: str = "bct") -> list[Any]:
    """x, w, before, after and bias."""
    return [
        signals(layout, 2, 6, 70),
        seeded(3, 4),
        signals(layout, 2, 6, 70).roll(1, 0),
        signals(layout, 2, 6, 70).roll(9, 2),
        seeded(6),
    ]


@pytest.mark.parametrize("layout", ["bct", "btc"])
@pytest.mark.parametrize("missing", [None, 2, 3])
def test_results_and_gradients_are_those_of_its_definition(layout: str, missing: int | None) -> None:
    given = operands(layout)
    if missing is not None:
        given[missing] = None
    there = [each.requires_grad_() for each in given if each is not None]
    y, expected = wt.gated_conv1d(*given, "silu"), gated(*given, "silu")
    assert y.stride() == given[0].stride()
    assert_close(y, expected)
    with torch.no_grad():
        assert_close(wt.gated_conv1d(*given, "silu"), expected)
    exact = torch.autograd.grad(expected.square().sum(), there)
    for found, gradient in zip(torch.autograd.grad(y.square().sum(), there), exact, strict=True):
        assert_close(found, gradient, 1e-4)


@pytest.mark.parametrize("layout", ["bct", "btc"])
@pytest.mark.parametrize("recorded", [False, True])
def test_projections_filter_all_three_first(layout: str, recorded: bool) -> None:
    x, w, before, after, b = operands(layout)
    given = [each.requires_grad_(recorded) for each in (x, w, before, after, b, seeded(3, 6, 3))]
    projected = [causal(each, own, None, None) for each, own in zip((x, before, after), given[5], strict=True)]
    y = wt.gated_conv1d(*given[:5], "silu", projections=given[5])
    expected = gated(projected[0], w, *projected[1:], b, "silu")
    assert_close(y, expected)
    if recorded:
        exact = torch.autograd.grad(expected.square().sum(), given)
        for found, gradient in zip(torch.autograd.grad(y.square().sum(), given), exact, strict=True):
            assert_close(found, gradient, 1e-4)


def test_gradients_have_gradients_and_only_needed_ones_are_computed() -> None:
    def second(function: Any) -> Any:
        given = operands()
        some = [given[place].requires_grad_() for place in (0, 1, 3)]
        first = torch.autograd.grad(function(*given).square().sum(), some, create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in first), some)

    for found, exact in zip(second(wt.gated_conv1d), second(gated), strict=True):
        assert_close(found, exact, 1e-4)


def test_operators_are_traced() -> None:
    given = [each.requires_grad_() for each in operands()]
    compiled = torch.compile(lambda *given: wt.gated_conv1d(*given), backend="aot_eager", fullgraph=True)
    y, expected = compiled(*given), gated(*given)
    assert_close(y, expected)
    exact = torch.autograd.grad(expected.sum(), given)
    for found, gradient in zip(torch.autograd.grad(y.sum(), given), exact, strict=True):
        assert_close(found, gradient, 1e-4)


def test_parts_of_one_projection_are_read_in_place() -> None:
    """Three parts of one tensor (batch, length, 3 dim), as a layer projects them."""
    projected, w = seeded(2, 70, 18), seeded(6, 4)
    x, before, after = (each.mT for each in projected.split(6, 2))
    assert_close(wt.gated_conv1d(x, w, before, after), gated(x, w, before, after))
    assert_close(wt.gated_conv1d(x, w, before.contiguous()), gated(x, w, before, None))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"projections": seeded(3, 5, 3)}, r"projections: takes \(3, 6, 1 to 64\), got \(3, 5, 3\)"),
        ({"projections": seeded(3, 6, 3).half()}, "projections: takes torch.float32 on cpu, got torch.float16"),
        ({"projections": seeded(3, 6, 3), "after": None}, "give both gates"),
    ],
)
def test_projections_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    names = ("x", "weight", "before", "after", "bias")
    with pytest.raises(BadArgument, match=message):
        wt.gated_conv1d(**{**dict(zip(names, operands(), strict=True)), **change})


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (1, seeded(4, 4), "x has 6 channels; got 4 filters"),
        (2, seeded(2, 6, 71), r"before: takes \(2, 6, 70\) of torch.float32 on cpu"),
        (3, seeded(2, 6, 70).half(), r"after: takes \(2, 6, 70\) of torch.float32"),
        (0, seeded(2, 6, 70, dtype=torch.complex64), "gates are for float32, float16 and bfloat16 signals"),
    ],
)
def test_bad_operands_are_refused_in_one_line(place: int, value: Any, message: str) -> None:
    given = operands()
    given[place] = value
    with pytest.raises(BadArgument, match=message):
        wt.gated_conv1d(*given)
