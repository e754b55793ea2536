"""`filter1d_partitioned` on the CPU: chunks, rings, channels that do not disturb each other, NaNs in their windows."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import verified
from filter1d_cases import DEVICE
from joined import plan_of, plans_of
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.host.runtime import HostRuntime
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.partitioned_family import Filter1dPartitioned
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.registry import random_operands, reference

FAMILY = Filter1dPartitioned()
SMALL: dict[str, Value] = {"radices": "16x16", "threads": 32, "block_lines": 2}
Numbers = np.ndarray[Any, np.dtype[Any]]


def chunks_of(signal: int, taps: int, **fields: Any) -> Filter1d:
    return Filter1d(signal, taps, **{"mode": "causal", "state": "carried", **fields})


def ring_of(signal: int, taps: int, **fields: Any) -> Filter1d:
    return chunks_of(signal, taps, circular=True, **fields)


def program_of(problem: Filter1d, **wanted: Value) -> Program:
    """Program of the default config with some other values."""
    config = Config.of({**FAMILY.default(problem, DEVICE).values(), **wanted})
    assert FAMILY.space(problem, DEVICE).why_not(config) is None, config
    return FAMILY.program(problem, config)


def test_rings_and_shifted_states_of_every_type(host: HostRuntime, quickest: HostCompiler) -> None:
    """Chunks longer and shorter than the state, rings with and without room, groups of channels, known taps."""
    rng = random.Random(7)
    problems = (
        ring_of(48, 400, state_width=512),
        ring_of(48, 400),
        ring_of(500, 130, nonfinite="any"),
        ring_of(33, 300, batch=2, channels=4, filters=2, convolve=True, dtype="float16", state_width=999, bias=True),
        ring_of(33, 300, dtype="complex64", taps_dtype="complex64"),
        ring_of(1, 129, dtype="int16", weights=tuple(range(129))),
        chunks_of(48, 1000, batch=2, channels=3, filters=3, bias=True, activation="silu", down=2),
        chunks_of(3, 270, channels=2, dtype="bfloat16", result_dtype="float32", pitch=64),
        chunks_of(200, 150, nonfinite="any"),
        ring_of(5, 300, channels=2, down=5, bias=True),  # one output of a chunk: the problem has no `down` then
    )
    cases = [(each, program_of(each)) for each in problems]
    drawn = [(each, FAMILY.space(each, DEVICE).drawn(rng)) for each in problems]
    verified.check(host, quickest, cases + [(each, FAMILY.program(each, config)) for each, config in drawn if config])


def outputs(plan: Plan, problem: Filter1d, signal: Numbers, weights: Numbers) -> Numbers:
    """Outputs of a signal in chunks, from a ring of zeros."""
    states = [np.zeros(each.shape, np.int32 if each.name == "positions" else np.float32) for each in problem.inputs[2:]]
    found = []
    for begin in range(0, signal.shape[-1], problem.signal):
        chunk = np.ascontiguousarray(signal[..., begin : begin + problem.signal])
        found.append(np.array(plan(chunk, weights, *states)))
        states[1] += problem.signal
    return np.concatenate(found, axis=-1)


def test_a_channel_does_not_see_the_scale_of_another(host: HostRuntime, quickest: HostCompiler) -> None:
    """Channels of 1e-6 and 1e6 side by side have the bits that each has alone."""
    problem, alone = ring_of(32, 150, channels=4), ring_of(32, 150)
    plan, single = plans_of(
        host, quickest, [(each, program_of(each, **{**SMALL, "block_lines": 1})) for each in (problem, alone)]
    )
    rng = np.random.default_rng(3)
    signal = rng.standard_normal((4, 320)).astype(np.float32) * np.float32([[1e-6], [1e6], [1.0], [1e-6]])
    weights = rng.standard_normal(150).astype(np.float32)
    result = outputs(plan, problem, signal, weights)
    for row, expected in zip(signal, result, strict=True):
        assert np.array_equal(outputs(single, alone, row, weights), expected)


@pytest.mark.parametrize("width", [None, 600])
def test_what_is_not_finite_reaches_its_windows_alone(
    width: int | None, host: HostRuntime, quickest: HostCompiler
) -> None:
    """A NaN of one chunk stays in the ring for later ones; outputs whose windows do not have it are right."""
    problem = ring_of(32, 500, channels=3, state_width=width)
    plan = plan_of(host, quickest, problem, program_of(problem, **SMALL))
    rng = np.random.default_rng(3)
    signal = rng.standard_normal((3, 640)).astype(np.float32)
    weights = rng.standard_normal(500).astype(np.float32)
    before = outputs(plan, problem, signal, weights)
    spoilt = signal.copy()
    spoilt[1, 47], spoilt[1, 50], spoilt[2, 100] = np.nan, np.inf, -np.inf
    after = outputs(plan, problem, spoilt, weights)
    reached = np.zeros(after.shape, bool)
    reached[1, 47:550], reached[2, 100:600] = True, True
    assert not np.isfinite(after[reached]).any()
    assert np.array_equal(after[0], before[0])
    assert np.abs(after - before)[~reached].max() < 1e-4


def test_without_windows_the_text_repairs_nothing() -> None:
    assert "sum_of_window" not in program_of(ring_of(32, 500, nonfinite="any")).source
    assert "sum_of_window" in program_of(ring_of(32, 500)).source


def test_bound_weights_make_their_spectra_once(host: HostRuntime, quickest: HostCompiler) -> None:
    problem = ring_of(32, 500, channels=3, filters=3, state_width=600)
    program = program_of(problem, **SMALL)
    assert [each.entry for each in program.launches] == [
        "filter1d_partitioned_spectra",
        "filter1d_partitioned",
        "filter1d_partitioned_finish",
    ]
    plan = plan_of(host, quickest, problem, program)
    operands = random_operands(problem, 1)
    signal, weights, state, positions = (np.array(operands[each.name]) for each in problem.inputs)
    expected = np.array(plan(signal, weights, state.copy(), positions))
    held = plan.hold(weights=weights.copy())
    assert np.array_equal(np.array(held(signal, state.copy(), positions)), expected)
    assert np.abs(expected - reference(problem, operands).expected).max() < 1e-4


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (Filter1d(480, 1000, mode="causal"), "filters chunks of a stream: state carried"),
        (Filter1d(480, 1000, mode="causal", state="both"), "filters chunks of a stream: state carried"),
        (ring_of(480, 1000, state_rows=2), "reads no rows of a state by indices"),
        (ring_of(480, 1000, channels=2, layout="btc"), "samples lie side by side: layout bct"),
        (ring_of(480, 1000, accuracy="elementwise"), "errors relative to the whole signal"),
        (ring_of(480, 128), "a filter of fewer than 129 taps costs less tap by tap"),
        (ring_of(1 << 20, 1000), "no line that fits shared memory has room for chunks of 1048576 samples"),
    ],
)
def test_problems_that_other_families_solve(problem: Filter1d, says: str) -> None:
    assert says in (FAMILY.why_not(problem, DEVICE) or "")
