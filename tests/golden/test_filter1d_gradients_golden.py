"""Generated CUDA of the gradients of filters: a person has reviewed each text; NVRTC compiles it without warnings or
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
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.gradients_batch_family import Filter1dGradientsBatch
from warpsmith.generator.filter1d.gradients_channels_family import Filter1dGradientsChannels
from warpsmith.generator.filter1d.gradients_fft_family import Filter1dGradientsFft
from warpsmith.generator.filter1d.gradients_plain_family import Filter1dGradientsPlain
from warpsmith.generator.filter1d.gradients_warp_family import Filter1dGradientsWarp
from warpsmith.generator.presets import H200

PLAIN, WARP, CHANNELS = Filter1dGradientsPlain(), Filter1dGradientsWarp(), Filter1dGradientsChannels()
BATCH, FFT = Filter1dGradientsBatch(), Filter1dGradientsFft()
EPILOGUE: dict[str, Any] = {"bias": True, "activation": "silu"}


def mixer(pass_: str, **fields: Any) -> Filter1d:
    """A gradient of the causal filters of a state-space model."""
    usual = {"batch": 8, "channels": 2048, "filters": 2048, "mode": "causal", "dtype": "bfloat16", "pass_": pass_}
    return Filter1d(8192, **{"taps": 4, **usual, **fields})


CASES: dict[str, tuple[Family, Filter1d]] = {
    "plain": (PLAIN, mixer("backward", **EPILOGUE)),
    "plain_long": (PLAIN, mixer("wgrad", taps=600, layout="btc", taps_dtype="bfloat16")),
    "warp": (WARP, mixer("backward", **EPILOGUE)),
    "warp_without_activation": (WARP, mixer("backward", taps_dtype="bfloat16", bias=True)),
    "warp_weights": (WARP, mixer("wgrad", taps=3, **EPILOGUE)),
    "warp_signal": (WARP, mixer("dgrad", taps=7, mode="same", dtype="float16", **EPILOGUE)),
    "warp_slice": (WARP, Filter1d(1027, 5, channels=6, lags=(3, 900), convolve=True, pass_="backward", **EPILOGUE)),
    "warp_odd": (WARP, Filter1d(4099, 4, 8, "causal", 96, 96, dtype="bfloat16", pass_="backward", **EPILOGUE)),
    "warp_one_filter": (WARP, Filter1d(1 << 24, 5, mode="same", pass_="backward")),
    "channels": (CHANNELS, mixer("backward", layout="btc", **EPILOGUE)),
    "channels_without_activation": (CHANNELS, mixer("backward", layout="btc", bias=True)),
    "channels_long": (CHANNELS, mixer("backward", taps=15, layout="btc", dtype="float32", filters=512)),
    "channels_weights": (CHANNELS, mixer("wgrad", taps=2, layout="btc", channels=510, filters=1, dtype="float16")),
    "batch": (BATCH, mixer("wgrad", taps=128, batch=64, channels=768, filters=768, taps_dtype="bfloat16")),
    "fft": (FFT, mixer("wgrad", taps=600, batch=64, channels=768, filters=768, taps_dtype="bfloat16")),
    "fft_slice": (FFT, Filter1d(700, 300, 3, channels=4, filters=2, lags=(-20, 600), convolve=True, pass_="wgrad")),
    "fft_any": (FFT, Filter1d(256, 256, 64, "causal", 768, 768, nonfinite="any", pass_="wgrad")),
    "batch_groups": (BATCH, mixer("wgrad", taps=65, batch=1, filters=128, convolve=True, dtype="float16")),
}
"""Families and problems of the golden files, with the families' default configs for an H200."""


def text_of(name: str) -> str:
    family, problem = CASES[name]
    return family.program(problem, family.default(problem, H200)).source


GOLDEN = GoldenFiles(Path(__file__).parent / "filter1d_gradients", CASES, text_of)


def features(name: str) -> exhaustive.Features:
    """Family of a case, and its pass."""
    family, problem = CASES[name]
    return frozenset((family.name, problem.pass_))


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(GOLDEN.generated(name))) == {NOTHING}
