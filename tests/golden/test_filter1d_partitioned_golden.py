"""Generated CUDA of `filter1d_partitioned`: a person has reviewed each text; NVRTC compiles it without warnings or
spills.

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
from warpsmith.generator.filter1d.partitioned_family import Filter1dPartitioned
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program

FAMILY = Filter1dPartitioned()
RING: dict[str, Any] = {"mode": "causal", "state": "carried", "circular": True}
CASES = {
    "ring": Filter1d(480, 16384, **RING, state_width=1 << 15),
    "channels": Filter1d(32, 401_310, channels=64, filters=64, **RING, state_width=1 << 19),
    "full_ring_half": Filter1d(
        100, 3000, 2, channels=6, filters=2, bias=True, activation="silu", dtype="float16", convolve=True, **RING
    ),
    "shifted_complex": Filter1d(
        48, 2000, mode="causal", state="carried", down=2, dtype="complex64", taps_dtype="complex64", nonfinite="any"
    ),
}


def program(name: str) -> Program:
    return FAMILY.program(CASES[name], FAMILY.default(CASES[name], H200))


GOLDEN = GoldenFiles(Path(__file__).parent / "filter1d" / "partitioned", CASES, lambda name: program(name).source)


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


def features(name: str) -> exhaustive.Features:
    return frozenset((CASES[name].dtype, program(name).config.integer("block_lines") > 1))


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(GOLDEN.generated(name))) == {NOTHING}
