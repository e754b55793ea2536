"""States, decoding, packed sequences and streams of filters on a GPU: all families, sanitizers, graphs, plans."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from filter1d_states import STATES
from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.plans.match import MatchKind
from warpsmith.tuner.operations.registry import random_operands, references

pytestmark = pytest.mark.gpu

CheckConfigs = Callable[..., None]
torch = pytest.importorskip("torch")
HALF: dict[str, Any] = {"dtype": "bfloat16", "taps_dtype": "bfloat16", "bias": True, "activation": "silu"}


def some_configs(family: Family, problem: Problem, device: Device, count: int = 4) -> list[Config]:
    """The default config and up to `count` random ones, the same in every run."""
    space, rng = family.space(problem, device), random.Random(problem.key())
    drawn = (space.drawn(rng) for _ in range(count))
    return list(dict.fromkeys(filter(None, (family.default(problem, device), *drawn))))


def filter1d(signal: int, taps: int = 4, **fields: Any) -> Filter1d:
    return Filter1d(signal, taps, **{"mode": "causal", **fields})


LARGER = (
    filter1d(5000, 4, batch=3, channels=96, filters=96, state="both", **HALF),
    filter1d(5000, 4, batch=3, channels=96, filters=96, state="carried", layout="btc", **HALF),
    filter1d(9000, 4, channels=256, filters=256, layout="btc", state="both", packed=40, **HALF),
    filter1d(9000, 7, channels=50, filters=50, layout="btc", packed=700, dtype="float16"),
    filter1d(3000, 31, channels=20, filters=20, state="both", packed=9),
    filter1d(20_000, 257, batch=2, channels=3, state="both"),
    filter1d(1, 4, batch=40, channels=1024, filters=1024, state="carried", state_rows=50, state_width=4, **HALF),
    filter1d(3, 4, batch=17, channels=1024, filters=1024, state="carried", circular=True, state_width=9, **HALF),
)


def test_configs_of_every_family(check_configs: CheckConfigs) -> None:
    check_configs(STATES, some_configs)


def test_larger_problems(check_configs: CheckConfigs) -> None:
    check_configs(LARGER, some_configs)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
def test_every_family_under_compute_sanitizer(check_under_sanitizer: Callable[..., None], tool: str) -> None:
    device = cuda_device(0)
    cases = [
        (problem, family.program(problem, config))
        for problem in (*STATES[::2], *LARGER)
        for family in FILTER1D.families
        if family.why_not(problem, device) is None
        for config in some_configs(family, problem, device, 1)
    ]
    check_under_sanitizer(tool, device, cases)


def on_gpu(array: Any) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16).cuda()
    return torch.from_numpy(array.copy()).cuda()


def given(problem: Filter1d, seed: int = 1) -> tuple[Any, list[Any]]:
    """Random operands on the host, and on the GPU in the order of a plan's arguments."""
    operands = random_operands(problem, seed)
    return operands, [on_gpu(operands[each.name]) for each in problem.inputs]


class TestDecoding:
    PROBLEM = filter1d(1, 4, batch=3, channels=64, filters=64, state="carried")

    def test_steps_give_the_whole_signal(self) -> None:
        whole = filter1d(50, 4, batch=3, channels=64, filters=64)
        _, (x, w) = given(whole)
        expected, state = ws.plan(whole, "cuda:0")(x, w), torch.zeros(3, 64, 3, device="cuda")
        plan = ws.plan(self.PROBLEM, "cuda:0", verify="first")
        found = [plan(x[..., t : t + 1].contiguous(), w, state) for t in range(50)]
        assert torch.equal(torch.cat(found, dim=-1), expected)
        assert torch.equal(state, x[..., -3:])

    def test_a_graph_moves_the_state_on_with_each_replay(self) -> None:
        _, (x, w, state) = given(self.PROBLEM)
        plan, begin = ws.plan(self.PROBLEM, "cuda:0"), state.clone()
        expected = [plan(x, w, state).clone() for _ in range(5)]
        state.copy_(begin)
        out, graph = torch.empty_like(expected[0]), torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            plan(x, w, state, out=out)
        for right in expected:
            graph.replay()
            torch.cuda.synchronize()
            assert torch.equal(out, right)

    def test_indices_leave_other_rows_and_skipped_signals_alone(self) -> None:
        problem = dataclasses.replace(self.PROBLEM, state_rows=6)
        _, (x, w, state, _) = given(problem)
        before, indices = state.clone(), torch.tensor([4, -1, 0], dtype=torch.int32, device="cuda")
        y = ws.plan(problem, "cuda:0")(x, w, state, indices)
        assert not y[1].any()
        assert torch.equal(state[[1, 2, 3, 5]], before[[1, 2, 3, 5]])
        assert torch.equal(state[[4, 0]], torch.cat([before[[4, 0]], x[[0, 2]]], dim=-1)[..., 1:])

    def test_calls_tell_autograd_of_the_state(self) -> None:
        _, (x, w, state) = given(self.PROBLEM)
        plan = ws.plan(self.PROBLEM, "cuda:0")
        for count in (1, 2, 3):  # the compiled path takes all but the first call
            plan(x, w, state)
            assert state._version == count

    def test_what_does_not_fit_is_refused(self) -> None:
        _, (x, w, state) = given(self.PROBLEM)
        plan = ws.plan(self.PROBLEM, "cuda:0")
        plan(x, w, state)
        for wrong, says in (
            (state.cpu(), "state: is in host memory; move it to the GPU first"),
            (state[:, :, :2], r"state: expected float32 of shape \(3, 64, 3\); got float32 of shape \(3, 64, 2\)"),
            (state.half(), "state: expected float32"),
        ):
            with pytest.raises(BadArgument, match=says):
                plan(x, w, wrong)
        with pytest.raises(BadArgument, match="state: is written by each call, so that no plan holds it"):
            plan.hold(state=state)


@pytest.mark.parametrize("signal", [1, 300])
def test_a_search_verifies_states_in_graphs(signal: int, tmp_path: Path) -> None:
    problem, store = filter1d(signal, 4, batch=3, channels=64, filters=64, state="carried"), str(tmp_path / "a.db")
    ws.tune(problem, "cuda:0", trials=4, store=store)
    assert ws.plan(problem, "cuda:0", store=store).match.kind is MatchKind.EXACT


@pytest.mark.parametrize("layout", ["bct", "btc"])
@pytest.mark.parametrize("state", [None, "both", "carried"])
def test_a_plan_of_packed_sequences_is_right(layout: str, state: str | None) -> None:
    problem = filter1d(3000, 4, channels=64, filters=64, packed=30, layout=layout, state=state)
    operands, inputs = given(problem)
    found = ws.plan(problem, "cuda:0", verify="first")(*inputs)
    right = references(problem, operands)
    result = found[0] if isinstance(found, tuple) else found
    assert np.abs(result.cpu().numpy() - right["result"].expected).max() < 1e-4
    if state == "both":
        assert np.array_equal(found[1].cpu().numpy(), right["after"].expected)
    if state == "carried":
        assert np.array_equal(inputs[2].cpu().numpy(), right["state"].expected)


@pytest.mark.parametrize("fields", [{}, {"channels": 64, "filters": 64}, {"channels": 64, "layout": "btc"}])
def test_a_stream_of_chunks_gives_the_whole(fields: dict[str, Any]) -> None:
    chunks = (1, 7, 480, 4096, 7, 480, 480)
    whole = filter1d(sum(chunks), 9, **fields)
    _, (x, w) = given(whole)
    expected = ws.plan(whole, "cuda:0")(x, w)
    axis = 0 if fields.get("layout") == "btc" else x.ndim - 1
    stream = ws.plan(filter1d(480, 9, state="carried", **fields), "cuda:0").hold(weights=w).stream()
    assert torch.equal(torch.cat([stream(each) for each in torch.split(x, chunks, axis)], axis), expected)
    with pytest.raises(BadArgument, match="signal: is in host memory; move it to the GPU first"):
        stream(torch.split(x, chunks, axis)[2].cpu())
