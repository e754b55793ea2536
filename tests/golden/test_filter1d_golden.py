"""Generated CUDA of `filter1d_plain` and `filter1d_registers`: a person has reviewed each text; NVRTC compiles it
without warnings or spills.

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
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d, SignalLayout
from warpsmith.generator.filter1d.channels_family import Filter1dChannels
from warpsmith.generator.filter1d.fft_matrix_family import Filter1dFftMatrix
from warpsmith.generator.filter1d.plain_family import Filter1dPlain
from warpsmith.generator.filter1d.registers_family import Filter1dRegisters
from warpsmith.generator.filter1d.toeplitz_batch_family import Filter1dToeplitzBatch
from warpsmith.generator.filter1d.toeplitz_channels_family import Filter1dToeplitzChannels
from warpsmith.generator.filter1d.toeplitz_family import Filter1dToeplitz
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value


@dataclasses.dataclass(frozen=True)
class Case:
    """Problem, family and config of one golden file; `wanted` changes the family's default config for an H200."""

    family: Family
    problem: Filter1d
    wanted: tuple[tuple[str, Value], ...] = ()

    def program(self) -> Program:
        config = Config.of({**self.family.default(self.problem, H200).values(), **dict(self.wanted)})
        assert self.family.space(self.problem, H200).why_not(config) is None, config
        return self.family.program(self.problem, config)


def plain(taps: int, signal: int = 1 << 24, **fields: Any) -> Case:
    return Case(Filter1dPlain(), Filter1d(signal, taps, **fields))


def registers(problem: Filter1d, **wanted: Value) -> Case:
    return Case(Filter1dRegisters(), problem, tuple(wanted.items()))


HALVES: dict[str, Any] = {"mode": "causal", "batch": 8, "channels": 2048, "filters": 2048, "dtype": "bfloat16"}


def channels(problem: Filter1d, **wanted: Value) -> Case:
    return Case(Filter1dChannels(), problem, tuple(wanted.items()))


def toeplitz(problem: Filter1d, **wanted: Value) -> Case:
    family = Filter1dToeplitzChannels() if problem.layout is SignalLayout.BTC else Filter1dToeplitz()
    return Case(family, problem, tuple(wanted.items()))


def batch(problem: Filter1d, **wanted: Value) -> Case:
    return Case(Filter1dToeplitzBatch(), problem, tuple(wanted.items()))


def matrix(problem: Filter1d, **wanted: Value) -> Case:
    return Case(Filter1dFftMatrix(), problem, tuple(wanted.items()))


ROWS: dict[str, Any] = {"mode": "causal", "dtype": "bfloat16", "taps_dtype": "bfloat16"}
GROUPS: dict[str, Any] = {
    "mode": "causal",
    "channels": 8192,
    "filters": 512,
    "dtype": "bfloat16",
    "taps_dtype": "bfloat16",
}
EPILOGUE: dict[str, Any] = {"bias": True, "activation": "silu"}

CASES = {
    "plain": plain(33),
    "plain_halves_chained": plain(600, 8192, layout="btc", **{**HALVES, "filters": 512}),
    "registers": registers(Filter1d(1 << 24, 65)),
    "registers_global": registers(Filter1d(1 << 24, 5)),
    "registers_loop": registers(Filter1d(1 << 24, 257)),
    "registers_chains": registers(Filter1d(1 << 14, 600, dtype="complex64"), outputs=2, turn=0, exchange="direct"),
    "registers_halves": registers(Filter1d(8192, 4, **HALVES)),
    "registers_complex_down": registers(Filter1d(10**8, 129, dtype="complex64", down=8)),
    "registers_complex_taps": registers(Filter1d(4099, 33, dtype="complex64", taps_dtype="complex64", convolve=True)),
    "registers_int16_odd": registers(Filter1d(10_000_019, 31, mode="same", dtype="int16")),
    "registers_float16": registers(Filter1d(4096, 65, batch=64, dtype="float16", result_dtype="float32")),
    "registers_uint8_down": registers(Filter1d(1 << 24, 9, dtype="uint8", down=3, convolve=True)),
    "registers_literal": registers(Filter1d(1 << 24, 9, mode="same", weights=(1, 0, 0, 0, -2, 0, 0, 0, 1))),
    "registers_several_filters": registers(
        Filter1d(300, 31, batch=3, channels=77, filters=11, mode="same"), block_columns=32, block_rows=4
    ),
    "channels_halves": channels(Filter1d(8192, 4, layout="btc", **HALVES)),
    "channels_long": channels(Filter1d(4096, 31, 16, channels=768, filters=768, layout="btc", mode="same")),
    "channels_ragged": channels(Filter1d(1000, 7, 3, channels=510, filters=170, layout="btc", dtype="int16")),
    "channels_by_taps": channels(
        Filter1d(1 << 20, 33, channels=4, layout="btc", dtype="complex64", down=2, pitch=40), walk="taps", outputs=4
    ),
    "plain_silu": plain(33, 8192, batch=8, channels=64, **EPILOGUE),
    "registers_silu": registers(Filter1d(1 << 24, 65, **EPILOGUE)),
    "registers_silu_halves": registers(Filter1d(8192, 4, **HALVES, **EPILOGUE, taps_dtype="bfloat16")),
    "registers_literal_bias": registers(Filter1d(1 << 24, 3, mode="same", weights=(1, 0, -1), bias=True)),
    "channels_silu": channels(Filter1d(8192, 4, layout="btc", **HALVES, **EPILOGUE, taps_dtype="bfloat16")),
    "toeplitz": toeplitz(Filter1d(1 << 24, 129)),
    "toeplitz_short": toeplitz(Filter1d(1 << 24, 65, mode="same")),
    "toeplitz_elementwise": toeplitz(Filter1d(100_003, 33, accuracy="elementwise", weights=range(33))),
    "toeplitz_groups": toeplitz(Filter1d(8192, 128, **GROUPS)),
    "toeplitz_halves": toeplitz(Filter1d(1001, 40, batch=3, dtype="float16", convolve=True, **EPILOGUE), store="plain"),
    "toeplitz_channels": toeplitz(Filter1d(8192, 128, layout="btc", **GROUPS)),
    "toeplitz_channels_ragged": toeplitz(
        Filter1d(4099, 33, 2, channels=24, layout="btc", dtype="float16", **EPILOGUE), warps=2, chunk=2
    ),
    "toeplitz_batch": batch(Filter1d(1024, 1024, 64, channels=768, filters=768, **ROWS)),
    "toeplitz_batch_ragged": batch(
        Filter1d(4099, 300, 3, channels=64, filters=2, convolve=True, **ROWS, **EPILOGUE), groups=3, piece=32
    ),
    "fft_matrix": matrix(
        Filter1d(4096, 4096, 64, channels=768, filters=768, mode="causal", dtype="bfloat16", precision="f16")
    ),
    "fft_matrix_ragged": matrix(
        Filter1d(8760, 3001, 5, channels=6, filters=2, mode="same", dtype="float16", precision="f16", **EPILOGUE),
        fetch=2,
    ),
    "registers_far": registers(Filter1d(1 << 33, 17, convolve=True), weights="constant", store="plain"),
}

GOLDEN = GoldenFiles(Path(__file__).parent / "filter1d", CASES, lambda name: CASES[name].program().source)
every_case = pytest.mark.parametrize("name", CASES)


def features(name: str) -> exhaustive.Features:
    """Family of a case, and its element type."""
    return frozenset((CASES[name].family.name, CASES[name].problem.dtype))


@every_case
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    assert set(frames_of(GOLDEN.generated(name))) == {NOTHING}
