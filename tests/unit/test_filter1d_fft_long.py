"""Blocks and jobs of `filter1d_fft_long`: each output once, none from wrapped samples, and jobs in order."""

from __future__ import annotations

import random

import numpy as np
import pytest

from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.fft_geometry import span_of
from warpsmith.generator.filter1d.fft_long_family import Filter1dFftLong
from warpsmith.generator.filter1d.fft_long_geometry import Filter1dFftLongGeometry, LongBlocks
from warpsmith.generator.filter1d.fft_long_parameters import Spectra
from warpsmith.generator.filter1d.fft_long_space import WORK_BYTES
from warpsmith.generator.filter1d.fft_long_text import Filter1dFftLongText
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.ranking import default_answer, likely
from warpsmith.generator.space import Config

FAMILY = Filter1dFftLong()
ROOMS = Filter1d(5_760_000, 192_000, channels=16, filters=16)
PROBLEMS = (
    Filter1d(5000, 133),
    Filter1d(1001, 257, 3, channels=4, filters=2, mode="same"),
    Filter1d(1024, 1024, 2, channels=6, filters=6, mode="causal", dtype="bfloat16"),
    Filter1d(700, 5000, lags=(-2000, 300), down=7),
    Filter1d(3000, 129, dtype="complex64", down=8),
    Filter1d(2000, 164, 2, channels=10, filters=10, layout="btc", mode="valid"),
    Filter1d(1 << 20, 1 << 20),
    ROOMS,
)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())


def sample(problem: Filter1d) -> list[Config]:
    """The default, the starts and some random configs."""
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    drawn = [config for _ in range(10) if (config := space.drawn(rng)) is not None]
    return [FAMILY.default(problem, H200), *FAMILY.starts(problem, H200), *drawn]


@every_problem
def test_blocks_have_every_output_and_no_wrapped_sample(problem: Filter1d) -> None:
    """Output o of a block, at sample o + ahead of it, needs samples up to o + ahead + taps - 1. Samples that wrap are
    those from `wrapped` on; in the only block of a channel they may be zeros beyond the signal.
    """
    for config in sample(problem):
        blocks = Filter1dFftLongGeometry.of(problem, config).blocks
        assert blocks.step % problem.down == 0 or blocks.count == 1
        assert (blocks.count - 1) * blocks.step < span_of(problem) <= blocks.count * blocks.step
        reach = blocks.step - 1 + blocks.ahead + problem.taps
        if blocks.count > 1:
            assert reach <= blocks.samples, config
        elif reach > blocks.samples:
            first = problem.first_lag - blocks.ahead
            assert first + blocks.samples >= min(problem.signal, first + reach), config
            assert blocks.step <= blocks.samples, config
            assert reach - blocks.samples <= -first, config  # as many zeros are before the signal


def test_two_signals_take_one_block_of_their_full_result() -> None:
    """2^21 - 1 results of 2^20 samples and 2^20 taps fit 2^21 places: overlap-discard alone would need 3 * 2^20."""
    assert LongBlocks.of(Filter1d(1 << 20, 1 << 20), 1 << 20) == LongBlocks(1 << 21, 1, (1 << 21) - 1, 1)
    assert LongBlocks.of(Filter1d(1 << 20, (1 << 20) + 1), 1 << 20) == LongBlocks(1 << 21, 0, 1 << 21, 1)
    assert LongBlocks.of(Filter1d(1 << 20, 1 << 20, mode="causal"), 1 << 20) == LongBlocks(1 << 21, 1, 1 << 20, 1)
    assert LongBlocks.of(Filter1d(1 << 24, 5000), 2048) is None


def test_loads_begin_where_channels_do_if_that_costs_no_block() -> None:
    at = Filter1dFftLongGeometry.of(ROOMS, FAMILY.default(ROOMS, H200))
    assert (at.blocks.ahead, at.first % 64, at.blocks.step % 64) == (1, 0, 0)


def jobs_of(at: Filter1dFftLongGeometry) -> list[tuple[int, int, int]]:
    """Step of each job (columns, rows, results), its block and its number there, as the kernel finds them."""
    found = []
    stretches = Filter1dFftLongText(at).stretches
    for job in range(at.jobs):
        each = next(each for each in stretches if job < each.end)
        turn, part = each.round + (job - each.start) // each.jobs, each.skipped + (job - each.start) % each.jobs
        if part < at.forward_jobs:
            found.append((0, turn, part))
        elif part < at.forward_jobs + at.row_jobs:
            found.append((1, turn - at.lag, part - at.forward_jobs))
        else:
            found.append((2, turn - 2 * at.lag, part - at.forward_jobs - at.row_jobs))
    return found


@pytest.mark.parametrize("problem", PROBLEMS[1:4], ids=lambda problem: problem.key())
def test_every_job_comes_once_and_after_the_jobs_that_it_waits_for(problem: Filter1d) -> None:
    """Blocks take jobs in this order and wait for earlier ones only, so that there is no deadlock."""
    for config in sample(problem):
        at = Filter1dFftLongGeometry.of(problem, config)
        jobs = jobs_of(at)
        counts = (at.forward_jobs, at.row_jobs, at.column_jobs)
        assert sorted(jobs) == [(s, n, j) for s in range(3) for n in range(at.lines) for j in range(counts[s])], config
        first, last = {}, {}
        for place, (step, block, _) in enumerate(jobs):
            first.setdefault((step, block), place)
            last[step, block] = place
        for block in range(at.lines):
            assert last[0, block] < first[1, block], config
            assert last[1, block] < first[2, block], config
            if block >= at.slots:
                assert last[2, block - at.slots] < first[0, block], config


@every_problem
def test_the_workspace_does_not_grow_with_the_channels(problem: Filter1d) -> None:
    for config in sample(problem):
        assert Filter1dFftLongGeometry.of(problem, config).work_bytes <= WORK_BYTES


def test_factors_of_frequencies_are_powers_of_one_ratio() -> None:
    """Each factor is made of one that comes before it; its exponent is the frequency's number."""
    for problem in (ROOMS, PROBLEMS[4]):
        text = Filter1dFftLongText(Filter1dFftLongGeometry.of(problem, FAMILY.default(problem, H200)))
        step = text.columns.steps[-1]
        known = {0: 0}
        for each in text.factors(step):
            known[each.number] = known[each.of] + each.power
        assert known == {number: number for number in range(step.first)}
        assert {each.power for each in text.factors(step)} <= set(text.ratios(step))


def test_the_twist_is_a_quarter_of_a_turn_at_the_end() -> None:
    text = Filter1dFftLongText(Filter1dFftLongGeometry.of(ROOMS, FAMILY.default(ROOMS, H200)))
    values = np.array([float(re.rstrip("f")) + 1j * float(im.rstrip("f")) for re, im in text.twist.values])
    n = len(values)
    assert np.abs(values - np.exp(-0.5j * np.pi * np.arange(n) / n)).max() < 1e-7


def test_spectra_are_made_first_where_several_blocks_share_them() -> None:
    own = Filter1d(1 << 17, 1 << 17, channels=4096, filters=4096, mode="causal")
    assert FAMILY.default(ROOMS, H200).text("spectra") == Spectra.FIRST
    assert FAMILY.default(own, H200).text("spectra") == Spectra.WITH
    program = FAMILY.program(ROOMS, FAMILY.default(ROOMS, H200))
    spectra, taps = program.workspaces[:2]
    assert (spectra.name, spectra.holds, spectra.nbytes) == ("spectra", ("weights",), 16 * 8 << 19)
    assert (taps.name, taps.holds, taps.nbytes) == ("taps", ("weights",), 16 * 4 * 192_000)
    assert [each.name for each in FAMILY.program(own, FAMILY.default(own, H200)).workspaces] == ["work", "progress"]


def test_it_says_which_problems_it_does_not_take() -> None:
    assert "signalwise" in str(FAMILY.why_not(Filter1d(1 << 20, 60_000, accuracy="elementwise"), H200))
    assert "needs no block" in str(FAMILY.why_not(Filter1d(1 << 20, 128), H200))
    assert "gradients" in str(FAMILY.why_not(Filter1d(1 << 20, 60_000, pass_="backward"), H200))
    assert "workspaces" in str(FAMILY.why_not(Filter1d(1 << 26, 1 << 26), H200))


@pytest.mark.parametrize(
    ("problem", "family"),
    [
        (Filter1d(1 << 24, 16385), "filter1d_fft"),
        (Filter1d(16384, 16384, 8, channels=768, filters=768, mode="causal"), "filter1d_fft"),
        (Filter1d(32768, 32768, 8, channels=768, filters=768, mode="causal"), "filter1d_fft"),
        (Filter1d(1 << 24, 32769), "filter1d_fft_long"),
        (Filter1d(1 << 22, 65536), "filter1d_fft_long"),
        (Filter1d(1 << 20, 1 << 20), "filter1d_fft_long"),
        (Filter1d(1 << 17, 1 << 17, channels=4096, filters=4096, mode="causal", dtype="bfloat16"), "filter1d_fft_long"),
        (ROOMS, "filter1d_fft_long"),
        (Filter1d(1 << 20, 60_000, accuracy="elementwise"), "filter1d_plain"),
    ],
    ids=str,
)
def test_it_answers_where_it_is_faster(problem: Filter1d, family: str) -> None:
    """Faster as an H200 measured it, beside filter1d_fft."""
    assert default_answer(problem, H200)[0].name == family
    assert "long" not in family or likely(FILTER1D.families, problem, H200)[0].name == family


def test_it_is_not_likely_on_a_host() -> None:
    assert not FAMILY.is_likely(Filter1d(1 << 24, 60_000), HOST)
