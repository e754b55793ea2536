"""Layers on the CPU whose batch has an image unlike the others: products of 16-bit parts, slices, minimal filtering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sanitized
from host.test_conv2d_im2col import SHAPES as IM2COL_SHAPES
from host.test_conv2d_warpgroup import CHANNELS_LAST, SHAPES
from joined import plan_of
from unequal_images import check_apart, laid_out
from warpsmith.devices.base import Runtime
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.halves import maximum
from warpsmith.generator.conv2d.mma.family import Conv2dMma
from warpsmith.generator.conv2d.slices.family import Conv2dSlices
from warpsmith.generator.conv2d.warpgroup.family import Conv2dWarpgroup
from warpsmith.generator.conv2d.warpgroup.im2col_family import Conv2dWarpgroupIm2col
from warpsmith.generator.conv2d.winograd.family import Conv2dWinograd
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value
from warpsmith.tuner.operations.answers import random_operands
from warpsmith.tuner.operations.conv2d.oracle import reference

DEVICE = DeviceRef(DeviceKind.HOST).device()
SMALL: dict[str, Any] = {"input": (3, 7, 5, 5), "weight": (9, 7, 3, 3), "padding": 1}
"""Images of which a tile has several, of a number of elements that is no multiple of four."""
LAST: dict[str, Any] = {"input": (3, 16, 5, 4), "weight": (10, 16, 3, 2), "padding": 1, "layout": "nhwc"}
STRIDED: dict[str, Any] = {"input": (3, 3, 9, 8), "weight": (10, 3, 4, 3), "stride": 2, "padding": 1}
"""Layers of few channels, whose rows and columns are channels."""
PIXELS: dict[str, Any] = {"input": (40, 20, 1, 1), "weight": (12, 20, 1, 1)}
"""Images of one pixel: a block has many."""
BIASED: dict[str, Any] = {**LAST, "bias": True, "relu": True}
LARGER: dict[str, Any] = {"input": (2, 8, 70, 67), "weight": (3, 8, 1, 1)}
"""Images of which more blocks look for the largest number than a thread reads by itself."""
BFLOATS: dict[str, Any] = {"input": (3, 40, 6, 5), "weight": (40, 40, 3, 3), "padding": 1, "dtype": "bfloat16"}
LINES = {"small": SMALL, "last": BIASED, "strided": STRIDED, "pixels": PIXELS}
CASES: list[tuple[Family, dict[str, Any], dict[str, Value]]] = [
    *((family, layer, {}) for family in (Conv2dWarpgroup(), Conv2dMma()) for layer in LINES.values()),
    (Conv2dMma(), LARGER, {}),
    (Conv2dMma(), {**SMALL, "precision": "tf32"}, {}),
    (Conv2dMma(), BFLOATS, {}),
    *((Conv2dSlices(), layer, {}) for layer in (SMALL, BIASED)),
    (Conv2dWarpgroupIm2col(), {**BFLOATS, "layout": "nhwc"}, {}),
    (Conv2dWinograd(), {**SMALL, "bias": True, "relu": True}, {"parts": 1}),
    (Conv2dWinograd(), SMALL, {"parts": 3}),
    (Conv2dWinograd(), {**SMALL, "input": (4, 7, 6, 6)}, {"parts": 2}),
]


def sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has small images sampled."""
    for name, value in (("SAMPLED_SIZE", 64), ("SAMPLE", 8), ("LEAST_SAMPLE", 4), ("LEAST_STEP", 2)):
        monkeypatch.setattr(maximum, name, value)


def check(
    host: Runtime, compiler: HostCompiler, family: Family, problem: Conv2d, wanted: dict[str, Value] | None = None
) -> None:
    config = Config.of({**family.default(problem, DEVICE).values(), **(wanted or {})})
    assert family.space(problem, DEVICE).why_not(config) is None
    plan = plan_of(host, compiler, problem, family.program(problem, config))
    check_apart(problem, lambda given: np.array(plan(*(laid_out(given[each.name], each) for each in problem.inputs))))


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_no_image_reaches_another(host: Runtime, quickest: HostCompiler, case: int, pass_: Pass) -> None:
    family, layer, wanted = CASES[case]
    check(host, quickest, family, Conv2d(**layer, pass_=pass_), wanted)


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("layer", [SMALL, BIASED, STRIDED], ids=["small", "last", "strided"])
def test_nor_does_one_that_is_sampled(
    host: Runtime, quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch, layer: dict[str, Any], pass_: Pass
) -> None:
    """An image of which no sample has the largest numbers is laid out again, and no other."""
    sample(monkeypatch)
    problem, family = Conv2d(**layer, pass_=pass_), Conv2dMma()
    program = family.program(problem, family.default(problem, DEVICE))
    assert any(step.entry.endswith("again") for step in program.launches)
    check(host, quickest, family, problem)


# Layers of few channels whose steps are channels are not among them: their filters have taps of zero where the stride
# does not divide the rows, and a NaN meets these.
WINDOWS: list[tuple[Family, dict[str, Any]]] = [
    (Conv2dWarpgroup(), SHAPES["padded"]),
    (Conv2dMma(), {**SHAPES["strides"], "input": (2, 20, 11, 9), "weight": (10, 20, 3, 5)}),
    (Conv2dMma(), SHAPES["dilation"]),
    (Conv2dMma(), SHAPES["groups"]),
    (Conv2dMma(), {**CHANNELS_LAST[2], "dtype": "float16"}),
    (Conv2dSlices(), SHAPES["both"]),
    (Conv2dWarpgroupIm2col(), {**BFLOATS, "layout": "nhwc"}),
    (Conv2dWarpgroupIm2col(), {**IM2COL_SHAPES["groups within copies"], "dtype": "float16", "layout": "nhwc"}),
]


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("case", range(len(WINDOWS)))
def test_a_nan_stays_in_its_windows(host: Runtime, quickest: HostCompiler, case: int, pass_: Pass) -> None:
    """It reaches the results whose sum has it, of its own group, and no others."""
    family, layer = WINDOWS[case]
    problem = Conv2d(**layer, pass_=pass_)
    plan = plan_of(host, quickest, problem, family.program(problem, family.default(problem, DEVICE)))
    source, weights = problem.inputs[:2]
    given = random_operands(problem, 3)
    for place in ((0, 0, 0, 0), (0, 1, -1, -1), (0, -1, source.shape[2] // 2, source.shape[3] // 2)):
        changed, alone = given[source.name].copy(), np.zeros(source.shape)
        changed[place], alone[place] = np.nan, 1.0
        expected, _ = reference(problem, {source.name: alone, weights.name: np.ones(weights.shape)})
        operands = {**given, source.name: changed}
        found = np.array(plan(*(laid_out(operands[each.name], each) for each in problem.inputs)))
        assert np.array_equal(np.isnan(found.astype(np.float32)), expected != 0), place


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Images that begin anywhere, of one pixel, and in parts of a batch; sampled or read whole."""
    cases: list[tuple[Conv2d, Program]] = []
    for family, layer, wanted in (CASES[4], CASES[7], CASES[11], CASES[-2]):
        problem = Conv2d(**layer)
        config = Config.of({**family.default(problem, DEVICE).values(), **wanted})
        cases.append((problem, family.program(problem, config)))
    sample(monkeypatch)
    problem = Conv2d(**SMALL, pass_=Pass.DGRAD)
    cases.append((problem, Conv2dMma().program(problem, Conv2dMma().default(problem, DEVICE))))
    sanitized.check(cases, tmp_path)
