"""Layers on the CPU with one unusual image in the batch: split 16-bit operands, slices, minimal filtering."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import exhaustive
import sanitized
from host.test_conv2d_im2col import SHAPES as IM2COL_SHAPES
from host.test_conv2d_warpgroup import CHANNELS_LAST, SHAPES
from joined import plan_of
from unequal_images import check_apart, laid_out
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.mma.mma_family import Conv2dMma
from warpsmith.generator.conv2d.products.mma.mma_image import LEAST_IMAGE
from warpsmith.generator.conv2d.products.ozaki.ozaki_family import Conv2dSlices
from warpsmith.generator.conv2d.products.split16 import split16_maximum
from warpsmith.generator.conv2d.products.wgmma.im2col_family import Conv2dWarpgroupIm2col
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.conv2d.products.winograd.winograd_family import Conv2dWinograd
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

DEVICE = DeviceRef(DeviceKind.HOST).device()
SMALL: dict[str, Any] = {"input": (3, 7, 5, 5), "weight": (9, 7, 3, 3), "padding": 1}
"""A tile covers several images, and an image's element count is no multiple of four."""
LAST: dict[str, Any] = {"input": (3, 16, 5, 4), "weight": (10, 16, 3, 2), "padding": 1, "layout": "nhwc"}
STRIDED: dict[str, Any] = {"input": (3, 3, 9, 8), "weight": (10, 3, 4, 3), "stride": 2, "padding": 1}
"""Layers of few channels, which treat rows and columns of the filter as channels."""
PIXELS: dict[str, Any] = {"input": (40, 20, 1, 1), "weight": (12, 20, 1, 1)}
"""Images of one pixel, so that a block covers many."""
BIASED: dict[str, Any] = {**LAST, "bias": True, "relu": True}
LARGER: dict[str, Any] = {"input": (2, 8, 70, 67), "weight": (3, 8, 1, 1)}
"""Images so large that the blocks with partial maxima outnumber those that one thread reads."""
BFLOATS: dict[str, Any] = {"input": (3, 40, 6, 5), "weight": (40, 40, 3, 3), "padding": 1, "dtype": "bfloat16"}
LINES = {"small": SMALL, "last": BIASED, "strided": STRIDED, "pixels": PIXELS}
FPROP, DGRAD = Pass.FPROP, Pass.DGRAD


class Case(NamedTuple):
    """A family on a layer, with the values that differ from its default config."""

    family: Family
    layer: dict[str, Any]
    pass_: Pass
    wanted: dict[str, Value] = {}  # noqa: RUF012 - nobody changes it


# Both families have the same kernels before and behind their products: of a layer each has one pass, so that both
# passes of each layer are met.
CASES = [
    *(Case(Conv2dWarpgroup(), *each) for each in zip(LINES.values(), (FPROP, DGRAD, FPROP, DGRAD), strict=True)),
    *(Case(Conv2dMma(), *each) for each in zip(LINES.values(), (DGRAD, FPROP, DGRAD, FPROP), strict=True)),
    Case(Conv2dMma(), LARGER, FPROP, {**LEAST_IMAGE}),
    Case(Conv2dMma(), {**SMALL, "precision": "tf32"}, FPROP),
    Case(Conv2dMma(), BFLOATS, DGRAD, {**LEAST_IMAGE}),
    Case(Conv2dSlices(), SMALL, DGRAD),
    Case(Conv2dSlices(), BIASED, FPROP),
    *(Case(Conv2dWarpgroupIm2col(), {**BFLOATS, "layout": "nhwc"}, pass_) for pass_ in (FPROP, DGRAD)),
    Case(Conv2dWinograd(), {**SMALL, "bias": True, "relu": True}, FPROP, {"parts": 1}),
    Case(Conv2dWinograd(), SMALL, DGRAD, {"parts": 3}),
    *(Case(Conv2dWinograd(), {**SMALL, "input": (4, 7, 6, 6)}, pass_, {"parts": 2}) for pass_ in (FPROP, DGRAD)),
]


def sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the maximum kernel sample small images."""
    for name, value in (("SAMPLED_SIZE", 64), ("SAMPLE", 8), ("LEAST_SAMPLE", 4), ("LEAST_STEP", 2)):
        monkeypatch.setattr(split16_maximum, name, value)


def check(
    host: Runtime, compiler: HostCompiler, family: Family, problem: Conv2d, wanted: dict[str, Value] | None = None
) -> None:
    config = Config.of({**family.default(problem, DEVICE).values(), **(wanted or {})})
    assert family.space(problem, DEVICE).why_not(config) is None
    plan = plan_of(host, compiler, problem, family.program(problem, config))
    check_apart(problem, lambda given: np.array(plan(*(laid_out(given[each.name], each) for each in problem.inputs))))


@exhaustive.one_in(2)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.family.name}-{case.pass_}")
def test_no_image_reaches_another(host: Runtime, quick: HostCompiler, case: Case) -> None:
    check(host, quick, case.family, Conv2d(**case.layer, pass_=case.pass_), case.wanted)


def test_every_family_has_both_passes_and_so_has_every_layer() -> None:
    for family in {case.family.name for case in CASES}:
        assert {case.pass_ for case in CASES if case.family.name == family} == {FPROP, DGRAD}
    for layer in LINES.values():
        assert {case.pass_ for case in CASES if case.layer == layer} == {FPROP, DGRAD}


@pytest.mark.parametrize(("layer", "pass_"), [(SMALL, FPROP), (BIASED, DGRAD), (STRIDED, FPROP), (SMALL, DGRAD)])
def test_nor_does_one_that_is_sampled(
    host: Runtime, quickest: HostCompiler, monkeypatch: pytest.MonkeyPatch, layer: dict[str, Any], pass_: Pass
) -> None:
    """If the sample of an image misses its largest numbers, that image alone is split again."""
    sample(monkeypatch)
    problem, family = Conv2d(**layer, pass_=pass_), Conv2dMma()
    program = family.program(problem, family.default(problem, DEVICE))
    assert any(step.entry.endswith("again") for step in program.launches)
    check(host, quickest, family, problem)


# Layers of few channels whose steps are channels are not among them: their filters have taps of zero where the stride
# does not divide the rows, and a NaN meets these.
_GROUPS = {**IM2COL_SHAPES["groups within copies"], "dtype": "float16", "layout": "nhwc"}
WINDOWS = [
    *(Case(Conv2dWarpgroup(), SMALL, pass_) for pass_ in (FPROP, DGRAD)),
    Case(Conv2dMma(), {**SHAPES["strides"], "input": (2, 20, 11, 9), "weight": (10, 20, 3, 5)}, DGRAD),
    Case(Conv2dMma(), SHAPES["dilation"], FPROP),
    Case(Conv2dMma(), SHAPES["groups"], DGRAD),
    Case(Conv2dMma(), {**CHANNELS_LAST[2], "dtype": "float16"}, FPROP),
    *(Case(Conv2dSlices(), SHAPES["both"], pass_) for pass_ in (FPROP, DGRAD)),
    *(Case(Conv2dWarpgroupIm2col(), {**BFLOATS, "layout": "nhwc"}, pass_) for pass_ in (FPROP, DGRAD)),
    *(Case(Conv2dWarpgroupIm2col(), _GROUPS, pass_) for pass_ in (FPROP, DGRAD)),
]


@exhaustive.one_in(2)
@pytest.mark.parametrize("case", WINDOWS, ids=lambda case: f"{case.family.name}-{case.pass_}")
def test_a_nan_stays_in_its_windows(host: Runtime, quickest: HostCompiler, case: Case) -> None:
    """A NaN reaches only the results of its own group whose sums contain it."""
    family, problem = case.family, Conv2d(**case.layer, pass_=case.pass_)
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
    """Images of any alignment, of one pixel, and in parts of a batch, with sampled or complete maxima."""
    cases: list[tuple[Conv2d, Program]] = []
    for family, layer, wanted in (
        (Conv2dMma(), PIXELS, {}),
        (Conv2dSlices(), SMALL, {}),
        (Conv2dWinograd(), SMALL, {"parts": 3}),
    ):
        problem = Conv2d(**layer)
        config = Config.of({**family.default(problem, DEVICE).values(), **wanted})
        cases.append((problem, family.program(problem, config)))
    sample(monkeypatch)
    problem = Conv2d(**SMALL, pass_=Pass.DGRAD)
    cases.append((problem, Conv2dMma().program(problem, Conv2dMma().default(problem, DEVICE))))
    sanitized.check(cases, tmp_path)
