"""Gates and projections of filters: canonical form, arrays, refusals, references, and what families can solve."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import warpsmith as ws
from filter1d_gates import GATED, PROJECTED
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter1d import Filter1d, Gates
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.ranking import default_answer
from warpsmith.tuner.operations.filter1d.cudnn_peers import gated_reason_to_leave_out
from warpsmith.tuner.operations.filter1d.norm_check import NormCheck
from warpsmith.tuner.operations.registry import judge_of, random_operands, reference, stress_operands

PROBLEM = Filter1d(40, 4, 3, "causal", 6, 2, "btc", "bfloat16", gates="both", projection=3)  # type: ignore[arg-type]
CHANGES: tuple[dict[str, Any], ...] = (
    {"projection": None},
    {"projection": 4},
    {"projection": None, "gates": "before"},
    {"projection": None, "gates": "after"},
    {"projection": None, "gates": None},
)


def test_is_exported() -> None:
    assert ws.Gates is Gates
    assert type(PROBLEM.gates) is Gates


@pytest.mark.parametrize("problem", [*GATED[::4], *PROJECTED], ids=lambda problem: problem.key())
def test_survives_json(problem: Filter1d) -> None:
    back = Problem.from_spec("filter1d", json.loads(json.dumps(problem.spec())))
    assert back == problem
    assert back.key() == problem.key()


@pytest.mark.parametrize("fields", CHANGES, ids=str)
def test_each_field_is_another_problem(fields: dict[str, Any]) -> None:
    other = dataclasses.replace(PROBLEM, **fields)
    assert other.key() != PROBLEM.key()
    assert other.spec() != PROBLEM.spec()
    assert PROBLEM.distance(other) == other.distance(PROBLEM)
    assert not PROBLEM.is_resized(other)


def test_operands_lie_as_signal_and_result() -> None:
    problem = Filter1d(40, 4, 3, channels=6, dtype="float16", result_dtype="float32", gates="both", pitch=96)
    signal, _, before, after, result = problem.operands
    assert (before.shape, before.strides, before.dtype) == (signal.shape, signal.strides, signal.dtype)
    assert (after.shape, after.strides, after.dtype) == (result.shape, result.strides, result.dtype)
    alone = dataclasses.replace(problem, gates=None)
    assert problem.bytes == alone.bytes + before.nbytes + after.nbytes
    assert problem.flops == alone.flops + before.size + after.size
    assert [each.name for each in PROBLEM.inputs] == ["signal", "weights", "gate_before", "gate_after", "projections"]
    assert PROBLEM.inputs[-1].shape == (3, 6, 3)
    assert PROBLEM.flops - dataclasses.replace(PROBLEM, projection=None).flops == 3 * 2 * 3 * 3 * 6 * 40


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"gates": "middle"}, "unknown gates 'middle'"),
        ({"gates": "both", "dtype": "complex64"}, "gates are for signals of float32, float16, bfloat16; this one is"),
        ({"gates": "both", "dtype": "int16"}, "this one is int16"),
        ({"gates": "both", "state": "both"}, "gates are for filters without a state"),
        ({"gates": "after", "packed": 2}, "of signals that are not packed"),
        (
            {"gates": "after", "pass_": "backward"},
            r"gates have no gradients \(pass backward\); take those of the filter",
        ),
        ({"projection": 3}, "a projection needs gates='both', a causal slice and down 1"),
        ({"projection": 3, "gates": "before"}, "needs gates='both'"),
        ({"projection": 3, "gates": "both", "mode": "full"}, "a causal slice"),
        ({"projection": 0, "gates": "both"}, "projection must be 1 to 64; got 0"),
        ({"projection": 65, "gates": "both"}, "projection must be 1 to 64; got 65"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        Filter1d(**{"signal": 40, "taps": 4, "mode": "causal", **fields})


def test_every_family_says_why_not_in_one_line() -> None:
    for problem in (*GATED, *PROJECTED):
        able = [each.name for each in FILTER1D.families if each.why_not(problem, H200) is None]
        assert "filter1d_plain" in able
        for family in FILTER1D.families:
            why = family.why_not(problem, H200)
            assert why is None or (why and "\n" not in why)
    with_projection = Filter1d(8192, 7, 1, "causal", 8192, 512, dtype="bfloat16", gates="both", projection=3)  # type: ignore[arg-type]
    able = [each.name for each in FILTER1D.families if each.why_not(with_projection, H200) is None]
    assert able == ["filter1d_toeplitz", "filter1d_plain"]


def test_tensor_cores_answer_for_every_projection() -> None:
    for dtype in ("float32", "float16", "bfloat16"):
        for taps in (2, 7, 128):
            problem = Filter1d(8192, taps, mode="causal", channels=512, dtype=dtype, gates="both", projection=3)  # type: ignore[arg-type]
            assert default_answer(problem, H200)[0].name == "filter1d_toeplitz", problem.key()


def convolved(x: Any, taps: Any) -> Any:
    """Causal filters of the last axis."""
    return np.stack([np.convolve(row, own)[: len(row)] for row, own in zip(x, taps, strict=True)])


def test_the_reference_is_a_projection_a_gate_a_filter_and_a_gate() -> None:
    problem = Filter1d(50, 4, 1, "causal", 3, 3, convolve=True, gates="both", projection=3, bias=True)  # type: ignore[arg-type]
    given = {name: each.astype(np.float64) for name, each in random_operands(problem, 1).items()}
    first, second, third = (
        convolved(given[name], taps)
        for name, taps in zip(("signal", "gate_before", "gate_after"), given["projections"], strict=True)
    )
    expected = third * (convolved(first * second, given["weights"]) + given["bias"][:, None])
    found = reference(problem, random_operands(problem, 1)).expected
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("problem", [*GATED[::3], *PROJECTED], ids=lambda problem: problem.key())
def test_samples_are_those_of_the_reference(problem: Filter1d) -> None:
    for given in (random_operands(problem, 1), stress_operands(problem, 1)):
        whole = reference(problem, given)
        indices = np.random.default_rng(0).integers(0, problem.output.size, 40)
        found = judge_of(problem).samples(problem, given, indices)
        right = whole.expected.reshape(-1)[indices]
        scale = whole.scale.reshape(-1)[indices]
        there = np.isfinite(right) & np.isfinite(scale)
        assert (np.abs(found.expected - right)[there] <= 1e-12 * scale[there]).all()
        assert (found.least_scale[there] <= scale[there] * (1 + 1e-9)).all()


def test_peers_are_checked_against_gated_results() -> None:
    problem = Filter1d(300, 20, mode="causal", channels=2, layout="btc", gates="both", activation="silu")  # type: ignore[arg-type]
    given = random_operands(problem, 1)
    right = reference(problem, given).expected.astype(np.float32)
    check = NormCheck.of(problem, given)
    check.checked(right)
    with pytest.raises(RuntimeError, match="relative to the norm"):
        check.checked(right * np.float32(1.01))


@pytest.mark.parametrize("problem", [GATED[3], GATED[10], *PROJECTED[:4]], ids=lambda problem: problem.key())
def test_pytorch_on_the_host_is_a_peer(problem: Filter1d) -> None:
    given = random_operands(problem, 1)
    (maker, *others) = judge_of(problem).peers(problem, given, DeviceKind.HOST, 1)
    assert not others
    peer = maker.make()
    peer.run()
    right = reference(problem, given)
    found = np.asarray(peer.result()).astype(np.float64).reshape(right.expected.shape)
    assert np.abs(found - right.expected).max() <= 2.0**-6 * np.abs(right.expected).max()


def test_cudnn_says_what_it_does_not_solve() -> None:
    fields: dict[str, Any] = {"mode": "causal", "channels": 4, "filters": 4, "gates": "both"}
    whole = Filter1d(64, 4, projection=3, **fields)
    assert gated_reason_to_leave_out(whole) is None
    for change, why in (
        ({"projection": None}, "computes projections, gates and a causal filter at once"),
        ({"layout": "btc"}, "has the layout bct"),
        ({"filters": 2}, "one filter for each channel"),
        ({"bias": True}, "has no bias"),
        ({"projection": 33}, "has projections of 2 to 32 taps and filters of 2 to 256"),
    ):
        assert why in str(gated_reason_to_leave_out(dataclasses.replace(whole, **change)))
    makers = judge_of(whole).peers(whole, random_operands(whole, 1), DeviceKind.CUDA, 1)
    assert [each.name for each in makers if each.why_not is None][-2:] == [
        "cuDNN b2b_causal_conv1d",
        "cuFFT through PyTorch",
    ]
