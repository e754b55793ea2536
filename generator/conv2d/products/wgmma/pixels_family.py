"""Layers of one tap whose channels no copy by TMA can address, on Hopper's tensor cores: neighbouring pixels are one.

The channels of neighbouring pixels are contiguous, so that a layer of one tap is one of fewer pixels and more channels,
whose filters lie once for each pixel on the diagonal, with zeros beside them; see `merged_side.py`. Two pixels of 116
channels, or four of 58, have whole vectors of 8 channels. It multiplies two to eight times as often as the layer
needs. Beside it, `conv2d_warpgroup` lays both operands out before its GEMM, and stores results 4 bytes a lane.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.conv2d.products.wgmma.im2col_family import Conv2dWarpgroupIm2col, why_no_lines, why_no_pixels
from warpsmith.generator.conv2d.products.wgmma.im2col_image import Im2colImageGeometry
from warpsmith.generator.conv2d.products.wgmma.merged_side import (
    MergedImages,
    MergedWeightGeometry,
    MergedWeights,
    Merging,
)
from warpsmith.generator.device import Device
from warpsmith.generator.problem import NonFinite

NAME = "conv2d_warpgroup_pixels"
COUNTS = (2, 4, 8)
"""Pixels that may become one."""


@functools.lru_cache(maxsize=256)
def merged(problem: Conv2d) -> Conv2d | None:
    """The layer that merges fewest pixels and has whole vectors of channels and filters; None if there is none."""
    layers = (_merged(problem, count) for count in COUNTS)
    return next((each for each in layers if each is not None and why_no_lines(each) is None), None)


def _merged(problem: Conv2d, count: int) -> Conv2d | None:
    """Pixels of one image become one, so that none meets another image's."""
    images, channels, rows, columns = problem.input
    filters = problem.weight[0]
    if rows * columns % count or channels * count % CHUNK or filters * count % CHUNK:
        return None
    plane = (rows, columns // count) if columns % count == 0 else (1, rows * columns // count)
    return dataclasses.replace(
        problem, input=(images, channels * count, *plane), weight=(filters * count, channels * count, 1, 1)
    )


def _why_none(problem: Conv2d) -> str:
    return (
        f"makes one of {COUNTS[0]} to {COUNTS[-1]} pixels of an image, with multiples of {CHUNK} channels, unlike "
        f"{problem.input[2]}x{problem.input[3]} of {problem.input[1]} and {problem.weight[0]} channels"
    )


@dataclasses.dataclass(frozen=True)
class PixelsImageGeometry(Im2colImageGeometry):
    """One config of fprop or dgrad, of the layer of fewer pixels."""

    name: ClassVar[str] = NAME


@dataclasses.dataclass(frozen=True)
class PixelsWeightGeometry(MergedWeightGeometry):
    """One config of wgrad, of the layer of fewer pixels."""

    name: ClassVar[str] = NAME


MERGING = Merging(PixelsImageGeometry, PixelsWeightGeometry, merged, _why_none, shares_filters=True)


class Conv2dWarpgroupPixels(Conv2dWarpgroupIm2col):
    """`conv2d` of one tap by wgmma instructions, on 16-bit pixels that TMA loads several at a time."""

    name = NAME
    image: ClassVar[LayerSide] = MergedImages(MERGING)
    weight: ClassVar[LayerSide] = MergedWeights(MERGING)

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if (why := why_no_pixels(problem)) is not None:
            return why
        has_steps = problem.stride != (1, 1) or problem.padding != ((0, 0), (0, 0))
        if problem.weight[2:] != (1, 1) or has_steps or problem.groups > 1:
            return "solves layers of one tap in one group, without strides and padding"
        if problem.nonfinite is NonFinite.WINDOW:
            return "multiplies channels of other pixels by zero, and a NaN among them: needs nonfinite any"
        if problem.input[1] % CHUNK == 0 and problem.weight[0] % CHUNK == 0:
            return f"leaves channels that are multiples of {CHUNK} to conv2d_warpgroup_im2col"
        return self.why_no_products(problem, device) or self.side(problem).why_not(problem, device)
