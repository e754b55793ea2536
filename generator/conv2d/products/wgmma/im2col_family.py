"""Implicit GEMM on Hopper's tensor cores with 16-bit pixels that TMA loads in im2col mode.

The family works like `conv2d_warpgroup`, without the launches that lay operands out on a line of positions: see
`im2col_window.py`.

Source: as of `conv2d_warpgroup`. Blocks read pixels from the operand's own layout as in Chetlur et al. 2014, "cuDNN:
Efficient Primitives for Deep Learning", section 3.
"""

from __future__ import annotations

from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.conv2d.products.split16.split16_folding import Folding
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.conv2d.products.wgmma.im2col_image import Im2colImages
from warpsmith.generator.conv2d.products.wgmma.im2col_weight import Im2colWeights
from warpsmith.generator.conv2d.products.wgmma.im2col_window import NAME, PRODUCT_CHANNELS
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.device import Device
from warpsmith.generator.problem import DType


class Conv2dWarpgroupIm2col(Conv2dWarpgroup):
    """`conv2d` by wgmma instructions, on 16-bit pixels that TMA loads from the operand's own layout."""

    name = NAME
    image: ClassVar[LayerSide] = Im2colImages()
    weight: ClassVar[LayerSide] = Im2colWeights()

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return why_no_lines(problem) or super().why_not(problem, device)


def why_no_pixels(problem: Conv2d) -> str | None:
    """Why copies cannot bring pixels from the operand's own layout, whatever its sizes are; None if they can."""
    if problem.dtype is DType.FLOAT32 or problem.layout is not ImageLayout.NHWC:
        return "reads 16-bit numbers with channels last"
    return None


def why_no_lines(problem: Conv2d) -> str | None:
    """Why TMA copies cannot load the operands, in one line; None if they can."""
    if (why := why_no_pixels(problem)) is not None:
        return why
    if Folding.of(problem) is not None:
        return "leaves layers of few channels, whose rows and columns become channels, to conv2d_warpgroup"
    if problem.pass_.sums_images:
        of_group = problem.weight[1], problem.group_filters
        if problem.groups > 1 and any(channels % CHUNK for channels in of_group):
            return f"copies begin at multiples of {CHUNK} channels, unlike groups of {of_group[0]} and {of_group[1]}"
        read = problem.input[1], problem.weight[0]
    else:
        summed = problem.summed_channels
        if problem.groups > 1 and summed % PRODUCT_CHANNELS:
            return f"sums over {PRODUCT_CHANNELS} channels at once, of which a group has {summed}"
        read = summed, problem.group_channels
    if any(channels % CHUNK for channels in read):
        return f"reads {CHUNK} channels at once"
    return None
