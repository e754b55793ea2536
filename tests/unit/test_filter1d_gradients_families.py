"""Families of gradients of filters: what threads cover, neighbours that lanes take, partial sums, defaults."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from filter1d_gradient_problems import SPREAD
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d, SignalLayout
from warpsmith.generator.filter1d.gradients_channels_family import Filter1dGradientsChannels, GradientsChannelsGeometry
from warpsmith.generator.filter1d.gradients_plain_family import Filter1dGradientsPlain
from warpsmith.generator.filter1d.gradients_text import SUMS, Fold, pitches
from warpsmith.generator.filter1d.gradients_warp_family import WARP, Filter1dGradientsWarp, GradientsWarpGeometry
from warpsmith.generator.presets import H200, PRESETS
from warpsmith.generator.program import Pointer
from warpsmith.generator.space import Config

PLAIN, BY_WARPS, BY_CHANNELS = Filter1dGradientsPlain(), Filter1dGradientsWarp(), Filter1dGradientsChannels()
FAMILIES: tuple[Family, ...] = (PLAIN, BY_WARPS, BY_CHANNELS)
EPILOGUE: dict[str, Any] = {"bias": True, "activation": "silu"}


def configs_of(family: Family, problem: Filter1d, count: int = 6) -> list[Config]:
    space, rng = family.space(problem, H200), random.Random(problem.key())
    drawn = (space.drawn(rng) for _ in range(count))
    return [family.default(problem, H200), *(each for each in drawn if each is not None)]


def solved_by(family: Family) -> list[Filter1d]:
    found = [each for each in SPREAD if family.why_not(each, H200) is None]
    assert len(found) > 10
    return found


def test_warps_cover_each_sample_and_each_output_once() -> None:
    for problem in solved_by(BY_WARPS):
        for config in configs_of(BY_WARPS, problem):
            geometry = GradientsWarpGeometry.of(problem, config)
            groups = [
                geometry.first_group
                + ((block * geometry.tiles + tile) * geometry.warps + warp) * geometry.useful
                + lane
                for block in range(geometry.blocks_along)
                for tile in range(geometry.tiles)
                for warp in range(geometry.warps)
                for lane in range(geometry.useful)
            ]
            size, shift = geometry.samples, geometry.shift
            assert max(Counter(groups).values()) == 1
            for skew in range(geometry.vector if geometry.slides else 1):
                covered = {group * size - skew + i for group in groups for i in range(size)}
                assert covered >= set(range(problem.signal))
                assert {sample + shift for sample in covered} >= set(range(problem.result_length))


def test_lanes_take_gradients_of_lanes_of_their_warp() -> None:
    for problem in solved_by(BY_WARPS):
        geometry = GradientsWarpGeometry.of(problem, BY_WARPS.default(problem, H200))
        size, low, high = geometry.samples, geometry.low, geometry.high
        # Sample s reaches from output s - first lag - (taps - 1) to s - first lag; a lane has output s + shift.
        first = -problem.first_lag - (problem.taps - 1) - geometry.shift
        last = size - 1 - problem.first_lag - geometry.shift
        assert first == geometry.earliest
        assert (-low, high) == (first // size, max(0, last // size))
        if problem.pass_.gives_signal:
            assert low + geometry.useful + high == WARP
        # Windows of a lane's outputs lie in the groups that it loads.
        window = problem.first_lag + geometry.shift
        assert geometry.first == window + geometry.before * size
        assert geometry.first >= 0
        assert geometry.first + size + problem.taps - 1 <= (geometry.before + 1 + geometry.after) * size


def test_vectors_are_aligned() -> None:
    """Groups of a row that is not aligned begin before it; the ends of the row lie in some vectors in part."""
    kinds = set()
    for problem in solved_by(BY_WARPS):
        pitch, gradient_pitch = pitches(problem)
        for config in configs_of(BY_WARPS, problem):
            geometry = GradientsWarpGeometry.of(problem, config)
            vector, wide = geometry.vector, geometry.gradient_vector
            kinds.add(geometry.slides)
            assert geometry.samples % vector == geometry.shift % wide == geometry.samples % wide == 0
            assert vector * problem.dtype.itemsize <= 16
            assert wide * problem.output_dtype.itemsize <= 16
            for row in range(min(problem.rows, 9)):
                skew = row * pitch % vector if geometry.slides else 0
                assert (row * pitch - skew) % vector == (row * gradient_pitch - skew) % wide == 0
            if not geometry.slides:
                assert problem.signal % vector == problem.result_length % wide == 0
    assert kinds == {False, True}


def test_segments_cover_each_sample_of_each_channel_once() -> None:
    for problem in solved_by(BY_CHANNELS):
        for config in configs_of(BY_CHANNELS, problem):
            geometry = GradientsChannelsGeometry.of(problem, config)
            step = geometry.segment * geometry.rows
            assert (geometry.blocks_along - 1) * step < problem.signal <= geometry.blocks_along * step
            wide = geometry.vector * geometry.columns
            assert (geometry.channel_blocks - 1) * wide < problem.channels <= geometry.channel_blocks * wide
            assert geometry.blocks == geometry.blocks_along * geometry.channel_blocks * problem.batch
            assert geometry.segment % geometry.ahead == 0
            assert problem.channels % geometry.vector == 0


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_partial_sums_fit_their_memory_and_a_last_launch_reads_them(family: Family) -> None:
    for problem in solved_by(family):
        for config in configs_of(family, problem, 2):
            program = family.program(problem, config)
            sums = {each.name: each.nbytes for each in program.workspaces}
            assert (SUMS in sums) == problem.pass_.gives_weights
            if SUMS not in sums:
                continue
            *_, main, last = program.launches
            items, threads = problem.taps + problem.bias, last.grid[0] * last.block[0]
            parts = sums[SUMS] // (4 * items * problem.channels)
            assert main.arguments[-1] == last.arguments[0] == Pointer(SUMS)
            fold = Fold.of(problem, parts)
            assert sums[SUMS] == 4 * parts * items * problem.channels
            outputs = sum(each.size for each in problem.outputs if each.name != "signal_gradient")
            assert fold.outputs == outputs
            assert outputs * fold.lanes <= threads < outputs * fold.lanes + last.block[0]


def test_few_threads_add_up_few_partial_sums() -> None:
    problem = Filter1d(4096, 4, channels=8, filters=8, mode="causal", pass_="wgrad")
    assert [Fold.of(problem, parts).lanes for parts in (1, 32, 33, 1000, 10**6)] == [1, 1, 2, 32, 256]
    assert [Fold.of(problem, parts).is_chained for parts in (256, 10**4, 10**6)] == [False, False, True]


def test_outputs_are_cleared_where_a_sample_lies_in_no_other_window() -> None:
    """Only a slice lets a NaN reach an output that does not exist, and no other; see `GradientsText.clears`."""
    for fields, clears in (({"mode": "causal"}, False), ({"lags": (2, 30)}, True), ({"lags": (-3, 30)}, True)):
        problem = Filter1d(40, 4, channels=2, filters=2, pass_="dgrad", **EPILOGUE, **fields)  # type: ignore[arg-type]
        source = BY_WARPS.program(problem, BY_WARPS.default(problem, H200)).source
        assert ("sloped[i] = 0.0f;" in source) == clears


@pytest.mark.parametrize("device", PRESETS.values(), ids=list(PRESETS))
@pytest.mark.parametrize("layout", list(SignalLayout))
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_defaults_are_legal_and_short_filters_have_a_fast_family(device: Any, layout: SignalLayout, dtype: str) -> None:
    for taps in (1, 2, 4, 8, 17, 32, 33):
        for pass_ in ("wgrad", "backward"):
            for signal, channels in ((16384, 12288), (4099, 510), (5, 3), (1 << 24, 1)):
                for epilogue in ({}, EPILOGUE):
                    problem = Filter1d(
                        signal,
                        taps,
                        channels=channels,
                        filters=channels,
                        layout=layout,
                        dtype=dtype,
                        pass_=pass_,
                        **epilogue,
                    )  # type: ignore[arg-type]
                    fast = BY_CHANNELS if problem.layout is SignalLayout.BTC else BY_WARPS
                    assert (fast.why_not(problem, device) is None) == (taps <= 32), problem.key()
                    for family in (PLAIN, *([fast] if taps <= 32 else [])):
                        assert family.space(problem, device).contains(family.default(problem, device)), problem.key()
