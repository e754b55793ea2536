"""`filter1d_gradients_apart`: its stages, the memory that they share, and what it leaves to other families."""

from __future__ import annotations

import re
from typing import Any

import pytest

from warpsmith.generator.filter1d import Filter1d, Filter1dPass
from warpsmith.generator.filter1d.gradients_apart_family import (
    UNUSED,
    Filter1dGradientsApartBatch,
    Filter1dGradientsApartFft,
)
from warpsmith.generator.presets import A100, H200, HOST
from warpsmith.generator.program import Pointer
from warpsmith.generator.ranking import default_answer

APART, BATCH = Filter1dGradientsApartFft(), Filter1dGradientsApartBatch()
SIXTEEN: dict[str, Any] = {"dtype": "bfloat16", "taps_dtype": "bfloat16", "mode": "causal"}
LONG = Filter1d(8192, 128, channels=8192, filters=512, pass_="backward", **SIXTEEN)
WITH_BIAS = Filter1d(1024, 256, 64, channels=768, filters=768, pass_="backward", bias=True, **SIXTEEN)
OF_WEIGHTS = Filter1d(1024, 256, 64, channels=768, filters=768, pass_="wgrad", bias=True, **SIXTEEN)


def test_each_gradient_is_a_stage() -> None:
    names = {problem: [stage.name for stage in APART.stages(problem)] for problem in (LONG, WITH_BIAS, OF_WEIGHTS)}
    assert names == {LONG: ["dgrad", "wgrad"], WITH_BIAS: ["dgrad", "wgrad", "bias"], OF_WEIGHTS: ["wgrad", "bias"]}


def test_stages_are_the_problems_that_answer_alone() -> None:
    for stage in BATCH.stages(LONG):
        pass_ = Filter1dPass(stage.name)
        alone = Filter1d(8192, 128, channels=8192, filters=512, pass_=pass_, **SIXTEEN)
        assert stage.problem == alone
        assert default_answer(alone, H200)[0].name == stage.family.name


@pytest.mark.parametrize(
    ("taps", "dtype", "by_transforms", "by_warpgroups"),
    [
        (100, "float32", "filter1d_toeplitz", None),
        (300, "float32", "filter1d_fft", None),
        (300, "bfloat16", "filter1d_toeplitz", "filter1d_toeplitz"),
        (900, "bfloat16", "filter1d_fft", "filter1d_toeplitz_batch"),
        (30_000, "float32", "filter1d_fft_long", None),
    ],
)
def test_the_filter_of_the_signals_gradient_depends_on_its_taps(
    taps: int, dtype: str, by_transforms: str, by_warpgroups: str | None
) -> None:
    types: dict[str, Any] = {"dtype": dtype, "taps_dtype": dtype}
    problem = Filter1d(40_000, taps, 4, "causal", 8, 8, pass_="backward", **types)  # type: ignore[arg-type]
    assert APART.stages(problem)[0].family.name == by_transforms
    assert APART.why_not(problem, H200) is None
    if by_warpgroups is not None:
        assert BATCH.stages(problem)[0].family.name == by_warpgroups


def test_the_program_reads_every_input_and_writes_every_gradient() -> None:
    for problem in (LONG, WITH_BIAS, OF_WEIGHTS):
        program = APART.program(problem, APART.default(problem, H200))
        read = {
            argument.buffer
            for launch in program.launches
            for argument in launch.arguments
            if isinstance(argument, Pointer)
        }
        workspaces = {each.name for each in program.workspaces}
        assert read - workspaces == {each.name for each in problem.operands}
        assert (UNUSED in workspaces) == problem.bias


def test_the_gradient_of_a_bias_is_that_of_a_filter_of_one_tap() -> None:
    stage = APART.stages(WITH_BIAS)[-1]
    assert (stage.problem.taps, stage.problem.bias, stage.problem.pass_) == (1, True, Filter1dPass.WGRAD)
    assert [(each.name, each.shape) for each in stage.problem.outputs] == [
        ("weights_gradient", (768, 1)),
        ("bias_gradient", (768,)),
    ]
    assert stage.memory["signal"] == stage.memory["gradient"] == "gradient"


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (Filter1d(100, 40), r"computes gradients alone, no filter"),
        (Filter1d(100, 40, 2, pass_="wgrad"), r"several gradients at once .*; this is wgrad"),
        (Filter1d(100, 40, 2, pass_="backward", activation="silu"), r"slope of silu for each gradient again"),
        (
            Filter1d(
                100,
                40,
                2,
                "causal",
                dtype="bfloat16",
                taps_dtype="bfloat16",
                result_dtype="float32",
                bias=True,
                pass_="backward",
            ),
            r"of a bfloat16 bias in that type; they are float32",
        ),
    ],
)
def test_leaves_others_alone(problem: Filter1d, why: str) -> None:
    assert re.search(why, APART.why_not(problem, H200) or "")


def test_answers_long_filters_where_every_stage_is_solved() -> None:
    assert default_answer(LONG, H200)[0].name == BATCH.name
    assert default_answer(LONG, A100)[0].name == APART.name
    short = Filter1d(8192, 4, channels=64, filters=64, pass_="backward", **SIXTEEN)
    assert default_answer(short, H200)[0].name == "filter1d_gradients_warp"
    without_wgmma = BATCH.why_not(LONG, A100)
    assert without_wgmma is not None
    assert without_wgmma.startswith("wgrad (")
    assert not APART.is_likely(WITH_BIAS, HOST)
