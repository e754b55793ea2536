"""`filter1d_channels`: threads that cover channels and outputs, vectors that are aligned, defaults and their limits."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.channels_family import (
    LIKELY_STRAIGHT,
    Filter1dChannels,
    Filter1dChannelsGeometry,
)
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.presets import H200, PRESETS
from warpsmith.generator.program import ByValue, Pointer
from warpsmith.generator.space import Config

FAMILY = Filter1dChannels()


def btc(signal: int, taps: int, channels: int, **fields: Any) -> Filter1d:
    return Filter1d(signal, taps, channels=channels, layout="btc", **fields)  # type: ignore[arg-type]


PROBLEMS = (
    btc(17, 4, 8, batch=3, filters=8, mode="causal", dtype="bfloat16"),
    btc(64, 4, 100, filters=100, mode="causal"),
    btc(100, 7, 510, filters=170, dtype="float16", mode="same"),
    btc(50, 33, 6, down=3),
    btc(40, 5, 2, batch=2, dtype="complex64", taps_dtype="complex64", filters=2),
    btc(9, 20, 64, lags=(-3, 2), dtype="uint8"),
    btc(31, 3, 12, pitch=4 * 20, result_pitch=4 * 14),
    btc(64, 4, 100, filters=100, mode="causal", dtype="float16", taps_dtype="float16", bias=True, activation="silu"),
)


def configs_of(problem: Filter1d, count: int = 12) -> list[Config]:
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    drawn = (space.drawn(rng) for _ in range(count))
    return [FAMILY.default(problem, H200), *(each for each in drawn if each is not None)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_threads_cover_each_output_of_each_channel_once(problem: Filter1d) -> None:
    for config in configs_of(problem):
        geometry = Filter1dChannelsGeometry.of(problem, config)
        (launch,) = FAMILY.program(problem, config).launches
        assert launch.grid[0] == geometry.blocks
        assert launch.block == (geometry.columns, geometry.rows, 1)
        covered: Counter[tuple[int, int, int]] = Counter()
        for block in range(geometry.blocks):
            channel_block, rest = block % geometry.channel_blocks, block // geometry.channel_blocks
            time_block, batch = rest % geometry.time_blocks, rest // geometry.time_blocks
            for x in range(geometry.columns):
                channel = (channel_block * geometry.columns + x) * geometry.vector
                if channel >= problem.channels:
                    assert not geometry.are_all_channels
                    continue
                for y in range(geometry.rows):
                    first = (time_block * geometry.rows + y) * geometry.outputs
                    last = min(first + geometry.outputs, problem.result_length)
                    covered.update(
                        (batch, output, channel + lane)
                        for output in range(first, last)
                        for lane in range(geometry.vector)
                    )
        assert len(covered) == problem.output.size
        assert set(covered.values()) == {1}


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_vectors_are_aligned_and_whole(problem: Filter1d) -> None:
    signal, result = problem.inputs[0], problem.output
    pitch, result_pitch = pitches(problem)
    for config in configs_of(problem):
        vector, store = config.integer("vector"), config.integer("store_vector")
        assert problem.channels % vector == pitch % vector == 0
        assert vector % store == result_pitch % store == 0
        assert vector * signal.dtype.itemsize <= 16
        assert store * result.dtype.itemsize <= 16


@pytest.mark.parametrize("weights", [None, range(4)])
@pytest.mark.parametrize("fields", [{"bias": True}, {"activation": "silu"}, {"bias": True, "activation": "silu"}])
def test_the_bias_is_the_last_argument(fields: dict[str, Any], weights: range | None) -> None:
    problem = btc(64, 4, 8, weights=weights, **fields)
    for config in configs_of(problem):
        program = FAMILY.program(problem, config)
        (launch,) = program.launches
        weights_ = {"argument": [ByValue("weights")], "shared": [Pointer("weights")], "global": [Pointer("weights")]}
        given = weights_.get(config.text("weights"), []) if weights is None else []
        bias = [Pointer("bias")] if problem.bias else []
        assert list(launch.arguments) == [Pointer("signal"), Pointer("result"), *given, *bias]
        assert ("const Tap* __restrict__ bias) {" in program.source) == problem.bias
        assert ("to_weight(" in program.source) == (problem.bias or weights is None)


def test_channels_of_other_layouts_are_for_other_families() -> None:
    why = FAMILY.why_not(Filter1d(100, 4, channels=8), H200)
    assert why is not None
    assert "btc" in why


def test_a_filter_too_long_to_be_unrolled_is_refused() -> None:
    assert FAMILY.why_not(btc(10_000, 257, 8), H200) == "is for filters of 256 taps at the most; this one has 257"
    assert FAMILY.why_not(btc(10_000, 256, 8), H200) is None


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_defaults_are_legal_on_every_gpu_and_compile_fast(problem: Filter1d, preset: Any) -> None:
    config = FAMILY.default(problem, preset)
    assert FAMILY.space(problem, preset).why_not(config) is None
    assert FAMILY.unrolled(problem, config) <= LIKELY_STRAIGHT
    expected = FAMILY.expected_ns(problem, preset)
    assert expected is not None
    assert 1000 < expected < 1e7


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (btc(8192, 4, 2048, batch=8, filters=2048, mode="causal", dtype="bfloat16"), ("global", 4, 8, 2)),
        (btc(8192, 7, 2048, batch=8, filters=2048, mode="causal", dtype="bfloat16"), ("global", 4, 16, 2)),
        (btc(4096, 15, 768, batch=16, filters=768, mode="same"), ("shared", 2, 16, 0)),
        (btc(4096, 31, 768, batch=16, filters=768, mode="same"), ("shared", 2, 32, 0)),
        (btc(4096, 64, 768, batch=16, filters=768, mode="same"), ("shared", 1, 32, 0)),
        (btc(8193, 7, 510, batch=4, filters=510, mode="causal", dtype="bfloat16"), ("global", 2, 16, 2)),
        (btc(64, 4, 8, filters=8, mode="causal"), ("global", 4, 1, 2)),
    ],
    ids=lambda value: value.key() if isinstance(value, Filter1d) else "",
)
def test_defaults_are_those_that_were_fastest(problem: Filter1d, expected: tuple[str, int, int, int]) -> None:
    config = FAMILY.default(problem, H200)
    integers = (config.integer(name) for name in ("vector", "outputs", "min_blocks"))
    assert (config.text("weights"), *integers) == expected
    assert config.text("walk") == "samples"
