"""Untuned answers on a GPU: checked when a plan is made, beside captures and other streams, or at a first call."""

from __future__ import annotations

from typing import Any

import pytest

import warpsmith as ws
from warpsmith.generator.filter1d import Filter1d
from warpsmith.plans.first_use import check
from warpsmith.plans.loaded import Verified
from warpsmith.plans.make import forget_plans

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")

PROBLEM = ws.Conv2d(input=(2, 16, 30, 31), weight=(24, 16, 3, 3), padding=1)


@pytest.fixture(autouse=True)
def verified(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("WARPSMITH_VERIFY", "first")
    monkeypatch.setenv("WARPSMITH_CACHE_DIR", str(tmp_path / "cache"))
    from warpsmith.plans.first_use.verdicts import VERDICTS

    VERDICTS.forget()


def operands(problem: ws.Conv2d) -> tuple[Any, ...]:
    return tuple(torch.randn(operand.shape, device="cuda") for operand in problem.inputs)


@pytest.mark.parametrize(
    "problem",
    [
        PROBLEM,
        ws.Conv2d(input=(2, 16, 30, 31), weight=(24, 16, 3, 3), padding=1, pass_="dgrad", padding_mode="reflect"),
        ws.Conv2d(input=(2, 16, 30, 31), weight=(24, 16, 3, 3), padding=1, pass_="wgrad", stride=2),
        ws.Conv2d(input=(2, 16, 30, 32), weight=(24, 16, 3, 3), dtype="float16", precision="f16", layout="nhwc"),
        ws.Filter2d(image=(300, 411), filter=(5, 5), dtype="uint8", border="reflect"),
        ws.Filter2d(image=(300, 411), filter=(5, 5), dtype="float16", accuracy="imagewise"),
        ws.Filter2d(image=(300, 411), filter=(101, 101)),
        Filter1d(5000, 33, 2, channels=6, filters=6, layout="btc", dtype="bfloat16", taps_dtype="bfloat16"),
        Filter1d(5000, 33, dtype="complex64", taps_dtype="complex64", mode="causal"),
        Filter1d(5000, 33, dtype="int16", weights=range(33), down=4),
        ws.Fft(size=(64, 64), batch=5),
        ws.Fft(size=(64, 64), batch=5, kind="c2r", order="reversed", layout="frequency"),
        ws.Cgemm(batch=7, m=64, n=50, k=33, a="c", accuracy="normwise"),
    ],
    ids=lambda problem: problem.key(),
)
def test_a_new_plan_was_checked(problem: Any) -> None:
    plan = ws.plan(problem, "cuda:0")
    assert plan.verified.by is Verified.CHECKED, plan.verified
    assert plan.verified.largest_error is not None
    assert plan.verified.largest_error <= problem.error_bound


def test_a_plan_that_is_made_in_a_capture_is_checked_by_a_later_call() -> None:
    arrays = operands(PROBLEM)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    out = torch.empty(PROBLEM.output.shape, device="cuda")
    with torch.cuda.graph(graph):
        plan = ws.plan(PROBLEM, "cuda:0")
        plan(*arrays, out=out)
    assert plan.verified.by is Verified.PENDING
    graph.replay()
    torch.cuda.synchronize()
    expected = torch.nn.functional.conv2d(*(each.double() for each in arrays), padding=1)
    assert float((out - expected).abs().max()) < 1e-3
    plan(*arrays)
    assert plan.verified.by is Verified.CHECKED


def test_a_check_disturbs_no_capture_on_another_stream() -> None:
    arrays = operands(PROBLEM)
    first = ws.plan(PROBLEM, "cuda:0", verify="never")
    first(*arrays)
    torch.cuda.synchronize()
    graph, out = torch.cuda.CUDAGraph(), torch.empty(PROBLEM.output.shape, device="cuda")
    with torch.cuda.graph(graph):
        first(*arrays, out=out)
        with torch.cuda.stream(torch.cuda.Stream()):  # a stream that is not captured
            other = ws.plan(ws.Filter2d(image=(100, 101), filter=(3, 5)), "cuda:0")
    assert other.verified.by is Verified.CHECKED, other.verified
    graph.replay()
    torch.cuda.synchronize()
    expected = torch.nn.functional.conv2d(*(each.double() for each in arrays), padding=1)
    assert float((out - expected).abs().max()) < 1e-3


def test_a_first_call_on_a_stream_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "is_quick", lambda *_: False)
    forget_plans()
    plan = ws.plan(PROBLEM, "cuda:0")
    assert plan.verified.by is Verified.PENDING
    with torch.cuda.stream(torch.cuda.Stream()):
        plan(*operands(PROBLEM))
    assert plan.verified.by is Verified.CHECKED


def test_weights_of_any_size_may_be_in_host_memory() -> None:
    import numpy as np

    problem = ws.Filter2d(image=(300, 411), filter=(101, 101))
    plan = ws.plan(problem, "cuda:0")
    image, weights = torch.randn(problem.image, device="cuda"), torch.randn(problem.filter)
    expected = plan(image, weights.cuda())
    for given in (weights.numpy(), weights, weights.tolist()):
        assert torch.equal(plan(image, given), expected)
    changed = np.array(weights)
    changed[0, 0] += 1
    assert not torch.equal(plan(image, changed), expected)
