"""Implicit GEMM on Hopper's tensor cores with float32 pixels that TMA loads in im2col mode and TF32 products.

The family works like `conv2d_warpgroup_im2col`. TF32 is the upper 19 bits of a float32 number, so that pixels need no
launch that scales them. The tensor cores cut the other bits off; here numbers are rounded to the nearest one before,
which halves the largest error. Consumer warps load the pixels of a product to registers and round them, while the
products before are under way. A launch before the GEMM rounds the weights and lays them out tile by tile; plans with
bound weights launch it once.

Gradients of weights are products by mma.sync (`tf32_weight.py`).

Source: as of `conv2d_warpgroup`; wgmma with TF32 operands, ldmatrix and cp.async.bulk.tensor in the PTX manual.
"""

from __future__ import annotations

import math
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import why_not_split16, why_not_within_windows
from warpsmith.generator.conv2d.products.split16.split16_folding import Folding
from warpsmith.generator.conv2d.products.wgmma.tf32_image import NAME, Tf32Arithmetic, Tf32Images
from warpsmith.generator.conv2d.products.wgmma.tf32_weight import Tf32Weights
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.device import Device
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import DType
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType

MOST_TERMS = 1 << 17
"""Most terms of a sum. Tensor cores truncate it after every eight, 16,384 times then, by 2^-25 of it in the mean:
4.9e-4, where TF32 allows 1e-3 and roundings take 2e-4.
"""


class Conv2dWarpgroupTf32(Conv2dWarpgroup):
    """`conv2d` in TF32, images by wgmma and weights by mma, from float32 pixels that TMA loads as they lie."""

    name = NAME
    image: ClassVar[LayerSide] = Tf32Images()
    weight: ClassVar[LayerSide] = Tf32Weights()

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return _why_no_copies(problem) or super().why_not(problem, device)

    def why_no_products(self, problem: Conv2d, device: Device) -> str | None:
        return (
            device.why_no_tensor_instruction(TensorType.TF32, WARPGROUP)
            or why_not_split16(problem)
            or why_not_within_windows(problem)
        )


def _why_no_copies(problem: Conv2d) -> str | None:
    """Why the family's copies and products do not suit the operands, in one line; None if they do."""
    if problem.dtype is not DType.FLOAT32 or problem.precision is not Precision.TF32:
        return "rounds float32 numbers to TF32"
    if problem.layout is not ImageLayout.NHWC or problem.groups > 1:
        return "reads images with channels last, in one group"
    if Folding.of(problem) is not None:
        return "leaves layers of few channels, whose rows and columns become channels, to conv2d_warpgroup"
    sums_images, chunk = problem.pass_.sums_images, Tf32Arithmetic.chunk
    read = problem.weight[:2] if sums_images else (problem.summed_channels,)
    if any(channels % chunk for channels in read):
        return f"reads {chunk} channels at once"
    if sums_images:
        return None
    if (terms := problem.summed_channels * math.prod(problem.weight[2:])) > MOST_TERMS:
        return f"truncates sums of more than {MOST_TERMS} terms too often, such as {terms}"
    return None
