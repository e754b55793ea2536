"""Layers of many small groups on Hopper's tensor cores: neighbouring groups are multiplied as one.

A group of 4 to 32 channels fills neither a product nor a copy. Here `merged` neighbouring groups are one, whose filters
are zero where they would read channels of another; see `merged_side.py`. It multiplies `merged` times as often as the
layer needs. Beside it, sums over taps read pixels of 4 channels, 8 bytes, from 128-byte lines, and 64 results of
`conv2d_mma` have pixels of their own group each.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.products.wgmma.im2col_family import Conv2dWarpgroupIm2col, why_no_lines, why_no_pixels
from warpsmith.generator.conv2d.products.wgmma.im2col_image import Im2colImageGeometry
from warpsmith.generator.conv2d.products.wgmma.im2col_window import CHANNELS, PRODUCT_CHANNELS
from warpsmith.generator.conv2d.products.wgmma.merged_side import (
    MergedImages,
    MergedWeightGeometry,
    MergedWeights,
    Merging,
)
from warpsmith.generator.device import Device
from warpsmith.generator.problem import NonFinite

NAME = "conv2d_warpgroup_groups"


@functools.lru_cache(maxsize=256)
def merged(problem: Conv2d) -> Conv2d | None:
    """The layer whose groups are those of `problem` merged so that least is copied and multiplied; None if no number
    of groups fits the copies of `conv2d_warpgroup_im2col`.
    """
    layers = [_merged(problem, count) for count in range(2, problem.groups + 1) if problem.groups % count == 0]
    return min((each for each in layers if why_no_lines(each) is None), key=_work, default=None)


def _merged(problem: Conv2d, count: int) -> Conv2d:
    filters, channels, rows, columns = problem.weight
    weight = (filters, channels * count, rows, columns)
    return dataclasses.replace(problem, groups=problem.groups // count, weight=weight)


def _work(layer: Conv2d) -> tuple[int, int, int]:
    """Copies of 64 channels by all tiles of one pixel, the products of these tiles, and the tiles."""
    tiles = layer.groups * -(-layer.group_filters // CHANNELS)
    copies = tiles * -(-layer.group_channels // CHANNELS)
    return copies, tiles * -(-layer.group_channels // PRODUCT_CHANNELS), tiles


def _why_none(problem: Conv2d) -> str:
    sizes = f"{problem.groups} groups of {problem.group_channels} and {problem.group_filters} channels"
    return f"merges groups to multiples of {PRODUCT_CHANNELS} channels, unlike {sizes}"


@dataclasses.dataclass(frozen=True)
class GroupsImageGeometry(Im2colImageGeometry):
    """One config of fprop or dgrad, of the merged layer."""

    name: ClassVar[str] = NAME


@dataclasses.dataclass(frozen=True)
class GroupsWeightGeometry(MergedWeightGeometry):
    """One config of wgrad, of the merged layer."""

    name: ClassVar[str] = NAME


MERGING = Merging(GroupsImageGeometry, GroupsWeightGeometry, merged, _why_none)


class Conv2dWarpgroupGroups(Conv2dWarpgroupIm2col):
    """`conv2d` of small groups by wgmma instructions, on 16-bit pixels that TMA loads from the operand's own layout."""

    name = NAME
    image: ClassVar[LayerSide] = MergedImages(MERGING)
    weight: ClassVar[LayerSide] = MergedWeights(MERGING)

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if (why := why_no_pixels(problem)) is not None:
            return why
        if problem.nonfinite is NonFinite.WINDOW:
            return "multiplies channels of other groups by zero, and a NaN among them: needs nonfinite any"
        if problem.groups == 1 or min(problem.group_channels, problem.group_filters) >= CHANNELS:
            return f"solves layers of groups of less than {CHANNELS} channels"
        return self.why_no_products(problem, device) or self.side(problem).why_not(problem, device)
