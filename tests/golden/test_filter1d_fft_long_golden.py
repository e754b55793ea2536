"""Generated CUDA of `filter1d_fft_long`: a person has reviewed each text; NVRTC compiles it without warnings or spills.

`golden_files.py` says how the reviewed texts are stored and updated.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import exhaustive
from golden_files import GoldenFiles
from machine_code import NOTHING, frames_of
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.fft_long_family import Filter1dFftLong
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value

FAMILY = Filter1dFftLong()


@dataclasses.dataclass(frozen=True)
class Case:
    """Problem and config of one golden file; `wanted` changes the default config for an H200."""

    problem: Filter1d
    wanted: tuple[tuple[str, Value], ...] = ()

    def config(self) -> Config:
        return Config.of({**FAMILY.default(self.problem, H200).values(), **dict(self.wanted)})

    def program(self) -> Program:
        config = self.config()
        assert FAMILY.space(self.problem, H200).why_not(config) is None, config
        return FAMILY.program(self.problem, config)


def case(problem: Filter1d, **wanted: Value) -> Case:
    return Case(problem, tuple(wanted.items()))


CASES = {
    "rooms": case(Filter1d(5_760_000, 192_000, channels=16, filters=16)),
    "own_filters": case(
        Filter1d(1 << 17, 1 << 17, channels=4096, filters=4096, mode="causal", dtype="bfloat16", bias=True)
    ),
    "two_signals": case(Filter1d(1 << 20, 1 << 20, nonfinite="any")),
    "complex_btc": case(
        Filter1d(9000, 700, 2, channels=6, filters=3, layout="btc", dtype="complex64", taps_dtype="complex64", down=3),
        columns="12x8", rows="16x8", height=8, threads=64, twiddles="table", store="plain",
    ),
    "known": case(Filter1d(3001, 1000, channels=6, weights=tuple(k % 5 - 2 for k in range(1000)), activation="silu")),
}  # fmt: skip

GOLDEN = GoldenFiles(Path(__file__).parent / "filter1d" / "fft_long", CASES, lambda name: CASES[name].program().source)
every_case = pytest.mark.parametrize("name", CASES)


def features(name: str) -> exhaustive.Features:
    """Spectra of a case, and its element type."""
    config = CASES[name].config()
    return frozenset((config.text("spectra"), CASES[name].problem.dtype))


@every_case
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(GOLDEN.generated(name))) == {NOTHING}
