"""Gradients of the weights of layers with few channels and several taps, on any GPU from compute capability 8.0 on.

The families with split operands write the fp16 parts of dy and of every tap's pixels before they multiply, which costs
several times the products where an image has three channels. Here a block reads float32 numbers once, as in the
gradient of `conv2d_pointwise`: rows of the product are filters, columns the taps of all channels, terms the pixels of
dy. Each thread copies the pixels that its taps meet straight to shared memory (cp.async), with zeros for padding, and
the numbers become sums of two TF32 numbers on their way to the tensor cores.

Source: Chetlur et al. 2014, "cuDNN: Efficient Primitives for Deep Learning", section 3.1 (tiles of the lowered matrix
are gathered in on-chip memory); Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores",
section 3 (split operands); mma and cp.async in the PTX manual.
"""

from __future__ import annotations

import math

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.pointwise.gather_model import gather_ns
from warpsmith.generator.conv2d.products.pointwise.pointwise_products import PointwiseProducts
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight import PointwiseWeights
from warpsmith.generator.device import Device
from warpsmith.generator.padding import PaddingMode

NAME = "conv2d_gather"
MOST_COLUMNS = 512
"""Most taps of all channels. A pixel of dy has as many copies; with more, operands that are split once are cheaper."""
MOST_ROWS = 1 << 13
"""Most rows of a padded image, and columns between taps, which kernels keep in 16 bits. They mark a tap that is in no
image by a row beyond."""


class Conv2dGather(PointwiseProducts):
    """wgrad of few channels on tensor cores (mma), from float32 images. It solves no other pass."""

    name = NAME
    image = weight = PointwiseWeights(NAME, gather_ns)

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if not problem.pass_.sums_images:
            return "computes gradients of weights only"
        taps = math.prod(problem.weight[2:])
        if taps == 1 or problem.groups > 1:
            return "solves layers of several taps, without groups"
        if (columns := taps * problem.input[1]) > MOST_COLUMNS:
            return f"copies each tap of a pixel: at most {MOST_COLUMNS} of all channels, unlike {columns}"
        if problem.padding_mode is not PaddingMode.ZEROS:
            return "pads images with zeros only"
        if problem.padded_size[0] > MOST_ROWS:
            return f"has at most {MOST_ROWS} rows in a padded image, unlike {problem.padded_size[0]}"
        if (problem.weight[3] - 1) * problem.dilation[1] >= MOST_ROWS:
            return f"has taps that lie less than {MOST_ROWS} columns apart"
        return super().why_not(problem, device)
