"""Generated CUDA of `filter1d_fft`: a person has reviewed each text; NVRTC compiles it without warnings or spills.

`golden_files.py` says how the reviewed texts are stored and updated.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

import exhaustive
from golden_files import GoldenFiles
from machine_code import NOTHING, frames_of
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.fft_family import Filter1dFft
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value

FAMILY = Filter1dFft()


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


OWN: dict[str, Any] = {"batch": 64, "channels": 768, "filters": 768, "mode": "causal"}

CASES = {
    "pairs": case(Filter1d(1 << 24, 257)),
    "half": case(Filter1d(1 << 24, 4097, nonfinite="any")),
    "half_own_filters": case(Filter1d(1024, 1024, dtype="bfloat16", **OWN)),
    "half_odd": case(
        Filter1d(10_000_019, 200, mode="same", dtype="int16", convolve=True), packing="half", radices="16x8x8", lines=2
    ),
    "complex_down": case(Filter1d(10**8, 129, dtype="complex64", taps_dtype="complex64", down=8)),
    "btc_silu": case(Filter1d(4096, 128, layout="btc", dtype="float16", bias=True, activation="silu", **OWN)),
    "pairs_ragged": case(
        Filter1d(3001, 100, 3, channels=6, filters=2, weights=tuple(range(200))),
        packing="pair", radices="8x8x16", lines=2, threads=64, twiddles="powers", store="streaming", min_blocks=4,
    ),
}  # fmt: skip

GOLDEN = GoldenFiles(Path(__file__).parent / "filter1d" / "fft", CASES, lambda name: CASES[name].program().source)
every_case = pytest.mark.parametrize("name", CASES)


def features(name: str) -> exhaustive.Features:
    """Packing of a case, and its element type."""
    config = CASES[name].config()
    return frozenset((config.text("packing"), CASES[name].problem.dtype))


@every_case
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(GOLDEN.generated(name))) == {NOTHING}
