"""`filter1d_partitioned`: partitions that have each tap once, bytes and blocks of a chunk, defaults, limits."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.partitioned_family import Filter1dPartitioned
from warpsmith.generator.filter1d.partitioned_geometry import PartitionedGeometry, writes_ring
from warpsmith.generator.filter1d.partitioned_model import chunk_ns
from warpsmith.generator.presets import A100, H200
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.lines import radices_of

FAMILY = Filter1dPartitioned()


def ring(signal: int, taps: int, **fields: Any) -> Filter1d:
    return Filter1d(signal, taps, **{"mode": "causal", "state": "carried", "circular": True, **fields})


PROBLEMS = (
    ring(480, 16384, state_width=1 << 15),
    ring(480, 16384, channels=64, filters=64, state_width=1 << 15),
    ring(32, 401_310, state_width=1 << 19),
    ring(32, 401_310, channels=64, filters=64, state_width=1 << 19),
    ring(1, 129),
    ring(4096, 1000, batch=3, channels=5),
    ring(100, 700, dtype="complex64"),
    Filter1d(48, 2000, mode="causal", state="carried", down=2),
)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=Filter1d.key)


def geometries(problem: Filter1d, count: int = 8) -> list[PartitionedGeometry]:
    """Geometries of the default config and of random ones, the same in every run."""
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    drawn = (space.drawn(rng) for _ in range(count))
    configs = dict.fromkeys(filter(None, (FAMILY.default(problem, H200), *drawn)))
    return [PartitionedGeometry.of(problem, each) for each in configs]


@every_problem
def test_thread_blocks_have_each_tap_once(problem: Filter1d) -> None:
    for at in geometries(problem):
        partitions = 1 if at.is_complex else 2
        taps = [
            tap
            for part in range(at.parts)
            for line in range(part * at.block_lines, min((part + 1) * at.block_lines, at.line_count))
            for partition in range(partitions)
            for tap in (line * at.line_taps + partition * at.part_taps,)
        ]
        assert taps == list(range(0, at.line_count * at.line_taps, at.part_taps))
        assert at.line_count * at.line_taps >= problem.taps > (at.line_count - 1) * at.line_taps
        assert at.part_taps + problem.signal - 1 == at.points  # no wrapped sample touches an output
        assert at.groups <= max(1, at.parts)
        assert at.row_blocks * at.columns >= problem.signal
        assert at.last_items <= at.lines.threads


def test_one_complex_product_filters_two_partitions() -> None:
    """The real part of (x1 + i x2) * (h1 - i h2) is x1 * h1 + x2 * h2."""
    rng = np.random.default_rng(1)
    x1, x2, h1, h2 = rng.standard_normal((4, 64))
    product = np.fft.ifft(np.fft.fft(x1 + 1j * x2) * np.fft.fft(h1 - 1j * h2)).real
    alone = np.fft.ifft(np.fft.fft(x1) * np.fft.fft(h1) + np.fft.fft(x2) * np.fft.fft(h2)).real
    assert np.abs(product - alone).max() < 1e-12


def test_bytes_of_a_chunk_are_near_those_of_taps_and_samples() -> None:
    """A delay line with blocks of 32 samples reads 12,541 spectra of the filter and as many of the signal, 33 complex
    numbers each: four times as much.
    """
    problem = PROBLEMS[2]
    at = PartitionedGeometry.of(problem, FAMILY.default(problem, H200))
    once = 4 * (problem.taps + problem.taps - 1 + problem.signal)
    assert once <= at.chunk_bytes <= 1.1 * once
    delay_line = 2 * 8 * 33 * -(-problem.taps // 32)
    assert delay_line == 6_621_648
    assert at.chunk_bytes < delay_line / 2


@pytest.mark.parametrize(
    ("problem", "is_written"),
    [
        (ring(32, 500), False),  # outputs that are not finite are made again of older samples
        (ring(32, 500, state_width=530), False),
        (ring(32, 500, state_width=531), True),
        (ring(32, 500, nonfinite="any"), True),
        (ring(32, 500, dtype="int16"), True),
        (Filter1d(32, 500, mode="causal", state="carried", nonfinite="any"), False),
    ],
)
def test_a_ring_with_room_takes_no_launch_of_its_own(problem: Filter1d, is_written: bool) -> None:
    assert writes_ring(problem) is is_written
    entries = [each.entry for each in FAMILY.program(problem, FAMILY.default(problem, H200)).launches]
    assert ("filter1d_partitioned_carry" not in entries) is is_written
    assert len(entries) == (3 if is_written else 4)


@every_problem
@pytest.mark.parametrize("device", [A100, H200], ids=["a100", "h200"])
def test_defaults_are_legal_and_answer(problem: Filter1d, device: Any) -> None:
    default = FAMILY.default(problem, device)
    assert FAMILY.space(problem, device).contains(default)
    assert all(FAMILY.space(problem, device).contains(each) for each in FAMILY.starts(problem, device))
    assert default not in FAMILY.starts(problem, device)
    assert default_answer(problem, device)[0].name == FAMILY.name or not problem.circular


def test_few_channels_spread_over_many_thread_blocks() -> None:
    """One channel's lines have a thread block each; those of many channels share some."""
    alone, many = (PartitionedGeometry.of(each, FAMILY.default(each, H200)) for each in PROBLEMS[2:4])
    assert alone.block_lines == 1
    assert alone.parts > H200.multiprocessors
    assert many.block_lines > 1


def test_the_time_of_a_chunk_grows_with_channels_taps_and_rounds_of_a_shift() -> None:
    def us(problem: Filter1d) -> float:
        config = Config.of({**FAMILY.default(PROBLEMS[0], H200).values()})
        return chunk_ns(problem, PartitionedGeometry.of(problem, config), 0.64, H200)

    some = ring(480, 16384, state_width=1 << 15)
    assert us(some) < us(ring(480, 16384, channels=64, state_width=1 << 15))
    assert us(some) < us(ring(480, 65536, state_width=1 << 17))
    assert us(some) < us(ring(480, 16384)) < us(Filter1d(480, 16384, mode="causal", state="carried"))


def test_each_transform_of_the_last_pass_needs_a_thread() -> None:
    problem = PROBLEMS[0]
    default = FAMILY.default(problem, H200)
    wrong = Config.of({**default.values(), "radices": "32x32x8", "threads": 128})
    assert 1024 // radices_of("8x8x16")[-1] <= default.integer("threads")
    reason = FAMILY.space(problem, H200).why_not(wrong)
    assert reason is not None
