"""Generated CUDA of filters with gates and projections: a person has reviewed each text; NVRTC compiles it without
warnings or spills.

`golden_files.py` says how the reviewed texts are stored and updated.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import exhaustive
from golden_files import GoldenFiles
from machine_code import NOTHING, frames_of
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config

FAMILIES = {each.name.removeprefix("filter1d_"): each for each in FILTER1D.families}
EVO2: dict[str, Any] = {
    "mode": "causal",
    "channels": 8192,
    "filters": 512,
    "dtype": "bfloat16",
    "taps_dtype": "bfloat16",
    "gates": "both",
}
EPILOGUE: dict[str, Any] = {"bias": True, "activation": "silu"}
CASES: dict[str, tuple[str, Filter1d, dict[str, Any]]] = {
    "plain": ("plain", Filter1d(8192, 7, **EVO2), {}),
    "plain_projection": ("plain", Filter1d(8192, 7, 2, layout="btc", projection=3, **EVO2), {}),
    "registers": ("registers", Filter1d(8192, 7, **EVO2), {}),
    "registers_tile": ("registers", Filter1d(1 << 20, 65, gates="after", **EPILOGUE), {}),
    "channels": ("channels", Filter1d(8192, 7, layout="btc", **EVO2), {}),
    "toeplitz": ("toeplitz", Filter1d(8192, 128, **EVO2), {}),
    "toeplitz_split": ("toeplitz", Filter1d(1001, 40, batch=3, gates="both", **EPILOGUE), {}),
    "toeplitz_projection": ("toeplitz", Filter1d(8192, 7, projection=3, **EVO2), {"row_blocks": 0}),
    "toeplitz_projection_looped": ("toeplitz", Filter1d(8191, 128, projection=4, **EVO2), {}),
    "toeplitz_channels": ("toeplitz_channels", Filter1d(8192, 128, layout="btc", **EVO2), {}),
    "fft": ("fft", Filter1d(4096, 1024, channels=64, dtype="float16", gates="both", **EPILOGUE), {}),
}
"""Family, problem, and changes to the family's default config for an H200."""


def program_of(name: str) -> Program:
    family, problem, wanted = CASES[name]
    own = FAMILIES[family]
    config = Config.of({**own.default(problem, H200).values(), **wanted})
    assert own.space(problem, H200).why_not(config) is None, config
    return own.program(problem, config)


GOLDEN = GoldenFiles(Path(__file__).parent / "filter1d_gates", CASES, lambda name: program_of(name).source)


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), lambda name: frozenset({CASES[name][0]})))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(GOLDEN.generated(name))) == {NOTHING}
