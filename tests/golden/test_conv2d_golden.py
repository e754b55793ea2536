"""Generated CUDA of conv2d: a person has reviewed each text; NVRTC compiles it without warnings or spills.

`golden_files.py` says how the reviewed texts are stored and updated.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import exhaustive
from golden_files import GoldenFiles
from machine_code import NOTHING, Frame, frames_of
from warpsmith.generator.conv2d import Conv2d, PaddingMode, Pass
from warpsmith.generator.conv2d.fourier.circular_family import Conv2dCircular
from warpsmith.generator.conv2d.fourier.cufft import Conv2dCufft
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.conv2d.plain_family import Conv2dPlain
from warpsmith.generator.conv2d.products.mma.mma_family import Conv2dMma
from warpsmith.generator.conv2d.products.ozaki.ozaki_family import Conv2dSlices
from warpsmith.generator.conv2d.products.pointwise.gather_family import Conv2dGather
from warpsmith.generator.conv2d.products.pointwise.pointwise_family import Conv2dPointwise
from warpsmith.generator.conv2d.products.wgmma.groups_family import Conv2dWarpgroupGroups
from warpsmith.generator.conv2d.products.wgmma.im2col_family import Conv2dWarpgroupIm2col
from warpsmith.generator.conv2d.products.wgmma.pixels_family import Conv2dWarpgroupPixels
from warpsmith.generator.conv2d.products.wgmma.tf32_family import Conv2dWarpgroupTf32
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.conv2d.products.winograd.winograd_family import Conv2dWinograd
from warpsmith.generator.conv2d.sums.dense.dense_family import Conv2dDense
from warpsmith.generator.conv2d.sums.depthwise.depthwise_family import Conv2dDepthwise
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_family import Conv2dDepthwiseLast
from warpsmith.generator.conv2d.sums.direct_family import Conv2dDirect
from warpsmith.generator.family import Family
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Value

FFT, SPLIT16 = FOURIER["conv2d_fft"], FOURIER["conv2d_fft_halves"]
LAYER: dict[str, Any] = {"input": (32, 64, 56, 56), "weight": (64, 64, 3, 3), "padding": 1}
"""A ResNet layer."""
DEEP: dict[str, Any] = {"input": (64, 512, 28, 28), "weight": (512, 512, 3, 3), "padding": 1}
"""A VGG layer."""
WIDE: dict[str, Any] = {"input": (64, 1024, 12, 12), "weight": (1024, 1024, 3, 3), "padding": 1}
"""An OverFeat layer."""
STRIDED: dict[str, Any] = {"input": (32, 64, 56, 56), "weight": (128, 64, 3, 3), "padding": 1, "stride": 2}
ALEXNET: dict[str, Any] = {"input": (128, 3, 227, 227), "weight": (96, 3, 11, 11), "stride": 4}
DEPTHWISE: dict[str, Any] = {"input": (32, 192, 28, 28), "weight": (192, 1, 7, 7), "groups": 192, "padding": 3}
THIN: dict[str, Any] = {"input": (128, 3, 128, 128), "weight": (96, 3, 11, 11)}
PLANES: dict[str, Any] = {"input": (128, 384, 13, 13), "weight": (384, 384, 3, 3)}
"""Layer L5 of the fbfft paper."""
LARGE: dict[str, Any] = {"input": (1, 8, 16384, 16400), "weight": (4, 8, 3, 3)}
"""A layer whose x has at least 2^31 elements."""
STEM: dict[str, Any] = {"input": (24, 3, 224, 224), "weight": (64, 3, 7, 7), "stride": 2, "padding": 3}
POINTWISE: dict[str, Any] = {"input": (24, 64, 56, 56), "weight": (256, 64, 1, 1)}
"""A layer that expands the channels of a ResNet's block."""
GROUPED: dict[str, Any] = {"input": (32, 256, 28, 28), "weight": (256, 8, 3, 3), "groups": 32, "padding": 1}
LAST: dict[str, Any] = {"layout": "nhwc", "dtype": "bfloat16"}
LARGE_DEPTHWISE: dict[str, Any] = {"input": (16, 128, 56, 56), "weight": (128, 1, 31, 31), "groups": 128, "padding": 15}
STRIDED_DEPTHWISE: dict[str, Any] = {
    "input": (32, 96, 112, 112),
    "weight": (96, 1, 3, 3),
    "groups": 96,
    "padding": 1,
    "stride": 2,
}
PIXEL: dict[str, Any] = {"input": (24, 888, 1, 1), "weight": (222, 888, 1, 1)}
SHUFFLED: dict[str, Any] = {"input": (24, 58, 28, 28), "weight": (58, 58, 1, 1)}
FOURS: dict[str, Any] = {"input": (32, 128, 28, 28), "weight": (128, 4, 3, 3), "groups": 32, "padding": 1}


@dataclasses.dataclass(frozen=True)
class Case:
    """Problem, family and config of one golden file; `wanted` changes the family's default config for an H200."""

    family: Family
    problem: Conv2d
    wanted: tuple[tuple[str, Value], ...] = ()
    unit: str = ""
    """Name of the compilation unit, if the program has several."""

    @property
    def text(self) -> str:
        (found,) = (unit.source for unit in self.program().units if unit.name == self.unit)
        return found

    def program(self) -> Program:
        config = Config.of({**self.family.default(self.problem, H200).values(), **dict(self.wanted)})
        assert self.family.space(self.problem, H200).why_not(config) is None, config
        return self.family.program(self.problem, config)


def direct(layer: dict[str, Any], pass_: Pass, *, relu: bool = False, bias: bool = False, **wanted: Value) -> Case:
    return Case(Conv2dDirect(), Conv2d(**layer, pass_=pass_, bias=bias, relu=relu), tuple(wanted.items()))


def depthwise(layer: dict[str, Any], pass_: Pass, *, bias: bool = False, **wanted: Value) -> Case:
    return Case(Conv2dDepthwise(), Conv2d(**layer, pass_=pass_, bias=bias, relu=bias), tuple(wanted.items()))


def warpgroup(layer: dict[str, Any], pass_: Pass, unit: str, *, bias: bool = False) -> Case:
    return Case(Conv2dWarpgroup(), Conv2d(**layer, pass_=pass_, bias=bias, relu=bias), (), unit)


def winograd(layer: dict[str, Any], pass_: Pass, unit: str, *, bias: bool = False) -> Case:
    return Case(Conv2dWinograd(), Conv2d(**layer, pass_=pass_, bias=bias, relu=bias), (), unit)


def mma(layer: dict[str, Any], pass_: Pass, *, bias: bool = False, **wanted: Value) -> Case:
    """The implicit-GEMM kernel of `conv2d_mma`; its other kernels are the ones of `conv2d_warpgroup`."""
    problem = Conv2d(**layer, pass_=pass_, bias=bias, relu=bias)
    return Case(Conv2dMma(), problem, tuple(wanted.items()), "multiply")


def pointwise(layer: dict[str, Any], pass_: Pass, unit: str = "", *, bias: bool = False, **wanted: Value) -> Case:
    problem = Conv2d(**layer, pass_=pass_, bias=bias, relu=bias)
    return Case(Conv2dPointwise(), problem, tuple(wanted.items()), unit)


def im2col(layer: dict[str, Any], pass_: Pass, *, bias: bool = False, **wanted: Value) -> Case:
    """The implicit-GEMM kernel of `conv2d_warpgroup_im2col`."""
    problem = Conv2d(**{**LAST, **layer}, pass_=pass_, bias=bias, relu=bias)
    return Case(Conv2dWarpgroupIm2col(), problem, tuple(wanted.items()), "multiply")


def tf32(layer: dict[str, Any], unit: str, **wanted: Value) -> Case:
    """A kernel of `conv2d_warpgroup_tf32`."""
    problem = Conv2d(**{**layer, "layout": "nhwc", "precision": "tf32"})
    return Case(Conv2dWarpgroupTf32(), problem, tuple(wanted.items()), unit)


def groups(pass_: Pass, unit: str) -> Case:
    """A kernel of `conv2d_warpgroup_groups`; its GEMM is that of `conv2d_warpgroup_im2col`."""
    return Case(Conv2dWarpgroupGroups(), Conv2d(**FOURS, **LAST, pass_=pass_), (), unit)


def pixels(pass_: Pass, unit: str, **ends: bool) -> Case:
    """A kernel of `conv2d_warpgroup_pixels`."""
    return Case(Conv2dWarpgroupPixels(), Conv2d(**SHUFFLED, **LAST, pass_=pass_, **ends), (), unit)


CASES = {
    "plain_fprop": Case(Conv2dPlain(), Conv2d(**LAYER, bias=True, relu=True)),
    "plain_dgrad_strided": Case(Conv2dPlain(), Conv2d(**STRIDED, pass_=Pass.DGRAD)),
    "plain_wgrad": Case(Conv2dPlain(), Conv2d(**LAYER, pass_=Pass.WGRAD)),
    "plain_fprop_large": Case(Conv2dPlain(), Conv2d(**LARGE)),
    "plain_fprop_channels_last": Case(Conv2dPlain(), Conv2d(**LAYER, **LAST, bias=True, relu=True)),
    "plain_dgrad_channels_last": Case(
        Conv2dPlain(), Conv2d(**GROUPED, **LAST, pass_=Pass.DGRAD, padding_mode=PaddingMode.REFLECT, bias=True)
    ),
    "plain_wgrad_channels_last": Case(Conv2dPlain(), Conv2d(**LAYER, **LAST, pass_=Pass.WGRAD)),
    "direct_fprop_channels_last": direct({**LAYER, **LAST}, Pass.FPROP, bias=True, relu=True),
    "direct_wgrad_channels_last": direct({**DEPTHWISE, **LAST}, Pass.WGRAD),
    "direct_dgrad_float16_reflected": direct(
        {**LAYER, "dtype": "float16", "padding_mode": PaddingMode.REFLECT}, Pass.DGRAD, bias=True, relu=True
    ),
    "direct_fprop": direct(LAYER, Pass.FPROP, bias=True, relu=True),
    "direct_dgrad": direct(LAYER, Pass.DGRAD),
    "direct_wgrad": direct(LAYER, Pass.WGRAD),
    "direct_dgrad_strided": direct(STRIDED, Pass.DGRAD, pixels="shared", channels=1),
    "direct_fprop_alexnet": direct(ALEXNET, Pass.FPROP),
    "direct_wgrad_alexnet": direct(ALEXNET, Pass.WGRAD, columns=1, filters=4, threads=128),
    "direct_fprop_depthwise": direct(DEPTHWISE, Pass.FPROP, spacing="adjacent", weights="global", min_blocks=2),
    "direct_dgrad_depthwise_tile": direct(DEPTHWISE, Pass.DGRAD, pixels="shared"),
    "direct_wgrad_runs": direct(LAYER, Pass.WGRAD, columns=4, unroll=2),
    "depthwise_fprop": depthwise(DEPTHWISE, Pass.FPROP),
    "depthwise_fprop_grouped": depthwise(FOURS, Pass.FPROP, bias=True, stages=2, channels=2, stores="staged"),
    "depthwise_dgrad_strided": depthwise(STRIDED_DEPTHWISE, Pass.DGRAD),
    "depthwise_wgrad": depthwise(DEPTHWISE, Pass.WGRAD),
    "depthwise_wgrad_large": depthwise(LARGE_DEPTHWISE, Pass.WGRAD, stages=2, rows=4),
    "depthwise_last_fprop": Case(Conv2dDepthwiseLast(), Conv2d(**DEPTHWISE, **LAST, bias=True, relu=True)),
    "depthwise_last_wgrad": Case(
        Conv2dDepthwiseLast(), Conv2d(**{**STRIDED_DEPTHWISE, "layout": "nhwc"}, pass_=Pass.WGRAD)
    ),
    "warpgroup_fprop": warpgroup(LAYER, Pass.FPROP, "multiply", bias=True),
    "warpgroup_fprop_pixels": warpgroup(LAYER, Pass.FPROP, "conv2d_warpgroup_pack_x"),
    "warpgroup_fprop_largest": warpgroup(LAYER, Pass.FPROP, "conv2d_warpgroup_largest_x"),
    "warpgroup_fprop_folded_pixels": warpgroup(ALEXNET, Pass.FPROP, "conv2d_warpgroup_pack_x"),
    "warpgroup_fprop_folded_filters": warpgroup(ALEXNET, Pass.FPROP, "conv2d_warpgroup_pack_w"),
    "warpgroup_wgrad_folded_sum": warpgroup(ALEXNET, Pass.WGRAD, "conv2d_warpgroup_sum"),
    "warpgroup_dgrad_filters": warpgroup(LAYER, Pass.DGRAD, "conv2d_warpgroup_pack_w"),
    "warpgroup_dgrad_channels_last": warpgroup({**STRIDED, **LAST, "precision": "bf16"}, Pass.DGRAD, "multiply"),
    "warpgroup_wgrad": warpgroup(LAYER, Pass.WGRAD, "multiply"),
    "warpgroup_wgrad_gradients": warpgroup(STRIDED, Pass.WGRAD, "conv2d_warpgroup_pack_dy"),
    "warpgroup_wgrad_sum": warpgroup(LAYER, Pass.WGRAD, "conv2d_warpgroup_sum"),
    "im2col_fprop": im2col({**LAYER, "dtype": "float16", "precision": "f16"}, Pass.FPROP, bias=True),
    "im2col_fprop_cluster": im2col({**DEEP, "precision": "bf16"}, Pass.FPROP, bias=True, columns=64, blocks=3),
    "im2col_dgrad": im2col({**STRIDED, "dtype": "float16"}, Pass.DGRAD),
    "im2col_wgrad": im2col({**DEEP, "precision": "bf16"}, Pass.WGRAD, columns=64, splits=10),
    "im2col_wgrad_cluster": im2col({**DEEP, "precision": "bf16"}, Pass.WGRAD, columns=64, splits=4),
    "im2col_wgrad_weights": im2col({**DEEP, "precision": "bf16"}, Pass.WGRAD, columns=64, splits=1),
    "tf32_fprop": tf32({**DEEP, "bias": True, "relu": True}, "multiply"),
    "tf32_fprop_cluster": tf32({**DEEP, "bias": True}, "multiply", columns=64, blocks=3),
    "tf32_dgrad": tf32({**STRIDED, "pass_": Pass.DGRAD}, "multiply"),
    "tf32_wgrad": tf32({**STRIDED, "pass_": Pass.WGRAD}, "multiply", splits=2),
    "tf32_wgrad_sum": tf32({**STRIDED, "pass_": Pass.WGRAD}, "sum", splits=2),
    "tf32_dgrad_filters": tf32({**STRIDED, "pass_": Pass.DGRAD}, "conv2d_warpgroup_tf32_pack_w"),
    "dense_fprop": Case(Conv2dDense(), Conv2d(**PIXEL, **LAST, bias=True, relu=True)),
    "dense_dgrad": Case(Conv2dDense(), Conv2d(**PIXEL, **LAST, bias=True, relu=True, pass_=Pass.DGRAD)),
    "dense_wgrad": Case(Conv2dDense(), Conv2d(**PIXEL, pass_=Pass.WGRAD)),
    "groups_fprop_filters": groups(Pass.FPROP, "wide"),
    "groups_wgrad_sum": groups(Pass.WGRAD, "sum"),
    "pixels_fprop": pixels(Pass.FPROP, "multiply", bias=True),
    "pixels_fprop_filters": pixels(Pass.FPROP, "wide"),
    "pixels_wgrad_sum": pixels(Pass.WGRAD, "sum"),
    "winograd_fprop_tiles": winograd(WIDE, Pass.FPROP, "conv2d_winograd_tiles_x"),
    "winograd_fprop_weights": winograd(LAYER, Pass.FPROP, "conv2d_winograd_weights"),
    "winograd_fprop_multiply": winograd(WIDE, Pass.FPROP, "multiply"),
    "winograd_fprop_results": winograd(WIDE, Pass.FPROP, "conv2d_winograd_results", bias=True),
    "winograd_dgrad_tiles": winograd(LAYER, Pass.DGRAD, "conv2d_winograd_tiles_dy"),
    "winograd_dgrad_weights": winograd(WIDE, Pass.DGRAD, "conv2d_winograd_weights"),
    "winograd_dgrad_results": winograd(LAYER, Pass.DGRAD, "conv2d_winograd_results"),
    "winograd_wgrad_tiles": winograd(DEEP, Pass.WGRAD, "conv2d_winograd_tiles_dy"),
    "winograd_wgrad_sum": winograd(DEEP, Pass.WGRAD, "conv2d_winograd_sum"),
    "mma_fprop": mma(LAYER, Pass.FPROP, bias=True),
    "mma_dgrad_channels_last": mma({**STRIDED, **LAST, "precision": "bf16"}, Pass.DGRAD, reach="filter", stages=2),
    "mma_wgrad": mma(LAYER, Pass.WGRAD),
    "pointwise_fprop": pointwise(POINTWISE, Pass.FPROP, bias=True),
    "pointwise_fprop_warps": pointwise(POINTWISE, Pass.FPROP, warps=1, rows=32, columns=32, down=4, across=2),
    "pointwise_dgrad": pointwise({**POINTWISE, "stride": 2}, Pass.DGRAD),
    "pointwise_dgrad_warps": pointwise(
        {**POINTWISE, "stride": 2, "precision": "tf32"}, Pass.DGRAD, warps=1, rows=16, columns=32, down=4, across=2
    ),
    "pointwise_wgrad": pointwise(POINTWISE, Pass.WGRAD, "multiply"),
    "pointwise_wgrad_sum": pointwise(POINTWISE, Pass.WGRAD, "sum"),
    "pointwise_wgrad_last": pointwise(
        {**POINTWISE, "layout": "nhwc", "precision": "tf32", "stride": 2}, Pass.WGRAD, "multiply"
    ),
    "gather_wgrad": Case(Conv2dGather(), Conv2d(**STEM, pass_=Pass.WGRAD), (), "multiply"),
    "gather_wgrad_sum": Case(Conv2dGather(), Conv2d(**STEM, pass_=Pass.WGRAD), (), "sum"),
    "slices_fprop": Case(Conv2dSlices(), Conv2d(**LAYER, bias=True, relu=True), (), "multiply"),
    "slices_fprop_measure": Case(Conv2dSlices(), Conv2d(**LAYER), (), "conv2d_slices_measure_x"),
    "slices_fprop_range": Case(Conv2dSlices(), Conv2d(**LAYER), (), "conv2d_slices_range"),
    "slices_fprop_digits": Case(Conv2dSlices(), Conv2d(**LAYER), (), "conv2d_slices_pack_x"),
    "slices_dgrad_exact": Case(Conv2dSlices(), Conv2d(**STRIDED, pass_=Pass.DGRAD), (), "conv2d_slices_exact"),
    "circular_fprop": Case(Conv2dCircular(), Conv2d(**LARGE_DEPTHWISE)),
    "circular_wgrad": Case(Conv2dCircular(), Conv2d(**LARGE_DEPTHWISE, pass_=Pass.WGRAD)),
    "cufft_pad": Case(Conv2dCufft(), Conv2d(**LAYER), (), "pad_second"),
    "cufft_transpose": Case(Conv2dCufft(), Conv2d(**LAYER), (), "transpose_first"),
    "cufft_clip": Case(Conv2dCufft(), Conv2d(**LAYER, pass_=Pass.WGRAD), (), "clip"),
    "fft_ends": Case(FFT, Conv2d(**LAYER, bias=True, relu=True), (), "ends"),
    "fft_image_reflect": Case(FFT, Conv2d(**LAYER, padding_mode=PaddingMode.REFLECT), (), "first"),
    "fft_fold_reflect": Case(FFT, Conv2d(**LAYER, pass_=Pass.DGRAD, padding_mode=PaddingMode.REFLECT), (), "fold"),
    "fft_filters": Case(FFT, Conv2d(**LAYER), (), "second"),
    "fft_halves_first": Case(SPLIT16, Conv2d(**PLANES), (), "first"),
    "fft_halves_product": Case(SPLIT16, Conv2d(**PLANES), (), "product"),
    "fft_halves_wgrad_product": Case(SPLIT16, Conv2d(**PLANES, pass_=Pass.WGRAD), (), "product"),
    "fft_tiled_sum": Case(
        FOURIER["conv2d_fft_tiled"], Conv2d(**THIN, pass_=Pass.WGRAD, workspace=600 << 20), (), "sum"
    ),
}

SPILLED = {"direct_fprop_alexnet": Frame(48, 48, 48)}
"""Local memory of the cases that ptxas 13.5 spills; ptxas 13.0 uses as many registers and does not spill."""
GOLDEN = GoldenFiles(Path(__file__).parent / "conv2d", CASES, lambda name: CASES[name].text)
every_case = pytest.mark.parametrize("name", CASES)


def features(name: str) -> exhaustive.Features:
    """Family, pass, type and layout of a case, and its kernel: each that multiplies, and each kind of the others."""
    problem, family = CASES[name].problem, CASES[name].family.name
    kind = re.sub("_(x|w|dy)$", "", CASES[name].unit.removeprefix(family))
    kernel = (family, kind) if kind in ("multiply", "product") else kind
    return frozenset((family, problem.pass_, problem.dtype, problem.layout, kernel))


@every_case
def test_the_text_is_the_one_that_was_reviewed(name: str) -> None:
    GOLDEN.check(name)


def test_no_file_is_left_over() -> None:
    GOLDEN.check_names()


def test_the_cases_cover_every_family_and_pass() -> None:
    assert {(case.family.name, case.problem.pass_) for case in CASES.values()} == {
        *(
            (family.name, pass_)
            for family in (
                *(Conv2dPlain(), Conv2dDirect(), Conv2dDepthwise()),
                *(Conv2dWarpgroup(), Conv2dWarpgroupIm2col(), Conv2dWinograd(), Conv2dMma(), Conv2dPointwise()),
                Conv2dDense(),
            )
            for pass_ in Pass
        ),
        ("conv2d_gather", Pass.WGRAD),
        # The missing pass is like one of these. Transforms and matrix products have golden files under fft and cgemm.
        *(
            (name, pass_)
            for name in (
                *("conv2d_cufft", "conv2d_circular", "conv2d_depthwise_last", "conv2d_fft_halves"),
                *("conv2d_warpgroup_groups", "conv2d_warpgroup_pixels"),
            )
            for pass_ in (Pass.FPROP, Pass.WGRAD)
        ),
        *(("conv2d_slices", pass_) for pass_ in (Pass.FPROP, Pass.DGRAD)),
        *(("conv2d_warpgroup_tf32", pass_) for pass_ in Pass),
        ("conv2d_fft", Pass.FPROP),
        ("conv2d_fft", Pass.DGRAD),
        ("conv2d_fft_tiled", Pass.WGRAD),
    }


@pytest.mark.parametrize("name", exhaustive.parameters(list(CASES), features))
def test_nvrtc_takes_it_without_a_warning_or_a_spill(name: str) -> None:
    frames = set(frames_of(GOLDEN.generated(name)))
    assert frames
    assert frames <= {NOTHING, SPILLED.get(name, NOTHING)}
