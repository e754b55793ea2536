"""Generated CUDA of states, decoding and packed sequences: a person has reviewed each text; NVRTC compiles it without
warnings or spills.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import exhaustive
from golden_files import GoldenFiles
from machine_code import NOTHING, frames_of
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.channels_family import Filter1dChannels
from warpsmith.generator.filter1d.plain_family import Filter1dPlain
from warpsmith.generator.filter1d.registers_family import Filter1dRegisters
from warpsmith.generator.filter1d.step_family import Filter1dStep
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program

HALF: dict[str, Any] = {"mode": "causal", "dtype": "bfloat16", "taps_dtype": "bfloat16", "bias": True}
MIXER: dict[str, Any] = {**HALF, "activation": "silu", "channels": 4096, "filters": 4096}
DECODER: dict[str, Any] = {**HALF, "activation": "silu", "channels": 10240, "filters": 10240, "state": "carried"}
CASES: dict[str, tuple[Family, Filter1d]] = {
    "plain_packed": (Filter1dPlain(), Filter1d(65536, 4, **MIXER, packed=64, state="both")),
    "plain_ring": (
        Filter1dPlain(),
        Filter1d(20, 4, 3, **DECODER, layout="btc", circular=True, state_width=32, state_rows=9),
    ),
    "registers_both": (Filter1dRegisters(), Filter1d(8192, 4, 8, **MIXER, state="both")),
    "registers_packed": (Filter1dRegisters(), Filter1d(65536, 4, **MIXER, packed=64, state="both")),
    "registers_carried": (Filter1dRegisters(), Filter1d(480, 129, mode="causal", state="carried")),
    "channels_before": (Filter1dChannels(), Filter1d(8192, 4, 8, **MIXER, layout="btc", state="before")),
    "channels_packed": (Filter1dChannels(), Filter1d(65536, 4, **MIXER, layout="btc", packed=64, state="both")),
    "step": (Filter1dStep(), Filter1d(1, 4, 256, **DECODER)),
    "step_indices": (Filter1dStep(), Filter1d(1, 4, 256, **DECODER, state_width=4, state_rows=300)),
    "step_channels": (Filter1dStep(), Filter1d(4, 4, 64, **DECODER, layout="btc")),
    "step_ring": (Filter1dStep(), Filter1d(2, 4, 64, **DECODER, layout="btc", circular=True, state_width=16)),
}


def program(name: str) -> Program:
    family, problem = CASES[name]
    return family.program(problem, family.default(problem, H200))


GOLDEN = GoldenFiles(Path(__file__).parent / "filter1d" / "states", CASES, lambda name: program(name).source)


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


def features(name: str) -> exhaustive.Features:
    return frozenset((CASES[name][0].name, "packed" if CASES[name][1].packed else "one"))


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(GOLDEN.generated(name))) == {NOTHING}
