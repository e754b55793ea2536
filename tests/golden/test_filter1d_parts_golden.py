"""Generated CUDA of `filter1d_lags` and `filter1d_parts`: reviewed texts; NVRTC compiles each without a warning.

`golden_files.py` says how the reviewed texts are stored and updated.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import exhaustive
from golden_files import GoldenFiles
from machine_code import NOTHING, frames_of
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.lags_family import Filter1dLags
from warpsmith.generator.filter1d.parts_family import Filter1dParts
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value

LAGS, PARTS = Filter1dLags(), Filter1dParts()


@dataclasses.dataclass(frozen=True)
class Case:
    """Family, problem and config of one golden file; `wanted` changes the default config for an H200."""

    family: Family
    problem: Filter1d
    wanted: tuple[tuple[str, Value], ...] = ()

    def config(self) -> Config:
        return Config.of({**self.family.default(self.problem, H200).values(), **dict(self.wanted)})

    def program(self) -> Program:
        config = self.config()
        assert self.family.space(self.problem, H200).why_not(config) is None, config
        return self.family.program(self.problem, config)


def case(family: Family, problem: Filter1d, **wanted: Value) -> Case:
    return Case(family, problem, tuple(wanted.items()))


LONG = Filter1d(1 << 20, 1 << 20, nonfinite="any")
COMPLEX = Filter1d(
    36_000, 60_000, 2, "same", channels=4, filters=2, dtype="complex64", taps_dtype="complex64", down=3, nonfinite="any"
)
CASES = {
    "lags": case(LAGS, Filter1d(1 << 24, 1 << 24, lags=(-128, 128))),
    "lags_groups": case(
        LAGS,
        Filter1d(60_000, 50_000, 2, channels=4, filters=2, lags=(-7, 9000), convolve=True, bias=True, dtype="bfloat16"),
        shares=4, radices="8x8x8", prefetch="next",
    ),
    "lags_complex_down": case(
        LAGS,
        Filter1d(50_000, 50_000, lags=(-100, 156), dtype="complex64", down=4, nonfinite="any"),
        radices="16x8x8", shares=32,
    ),
    "blocks": case(
        PARTS, LONG, way="blocks", accumulation="registers", radices="none", signal_block=1024, taps_block=256
    ),
    "space": case(
        PARTS, LONG, way="space", accumulation="sequential", radices="none", signal_block=256, taps_block=512
    ),
    "pairs": case(
        PARTS, LONG, way="pairs", accumulation="buffers", radices="16x8x16", signal_block=1024, taps_block=1024
    ),
    "divisions": case(
        PARTS, LONG, way="divisions", accumulation="buffers", radices="8x8x8", signal_block=128, taps_block=256
    ),
    "divisions_complex": case(
        PARTS, COMPLEX, way="divisions", accumulation="sequential", radices="16x8x8", signal_block=512, taps_block=512
    ),
}  # fmt: skip

GOLDEN = GoldenFiles(Path(__file__).parent / "filter1d" / "parts", CASES, lambda name: CASES[name].program().source)
every_case = pytest.mark.parametrize("name", CASES)


def features(name: str) -> exhaustive.Features:
    """Family of a case, its way and its element type."""
    config = CASES[name].config()
    return frozenset((CASES[name].family.name, config.values().get("way"), CASES[name].problem.dtype))


@every_case
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(GOLDEN.generated(name))) == {NOTHING}
