"""Layers with one tap as products of float32 matrices, on any GPU from compute capability 8.0 on.

The families with split operands write fp16 parts of an image in a pass of their own and read them again, which costs
more than the products where a pixel has few channels. Here a block reads float32 pixels once. Its warps scale and split
them on their way from shared memory to the tensor cores, each pixel of 32 channels by a power of two of its own. The
weights of a block stay in shared memory as fp16 parts for all its tiles. A product takes three fp16 products; sums of
32 terms leave the tensor cores, which truncate. Where there is wgmma, pixels go from registers into it.

The gradient of the weights sums over pixels, in either layout of the images. No pixel of it has a scale, so that a
number becomes the sum of two TF32 numbers instead.

Source: Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", section 3 (split operands);
Chetlur et al. 2014, "cuDNN: Efficient Primitives for Deep Learning", section 3 (layers as matrix products); mma,
ldmatrix and cp.async in the PTX manual.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import ImageLayout
from warpsmith.generator.conv2d.products.pointwise.pointwise_image import PointwiseImages
from warpsmith.generator.conv2d.products.pointwise.pointwise_products import PointwiseProducts
from warpsmith.generator.conv2d.products.pointwise.pointwise_tiles import NAME
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight import PointwiseWeights
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_model import pointwise_weight_ns
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Accuracy


class Conv2dPointwise(PointwiseProducts):
    """`conv2d` with one tap on tensor cores (mma or wgmma), from float32 images."""

    name = NAME
    image, weight = PointwiseImages(), PointwiseWeights(NAME, pointwise_weight_ns)

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if problem.weight[2:] != (1, 1) or problem.groups > 1 or any(map(any, problem.padding)):
            return "solves layers of one tap, without groups and padding"
        if problem.accuracy is not Accuracy.NORMWISE and not problem.pass_.sums_images:
            return 'splits numbers relative to the largest of a sum: needs accuracy="normwise"'
        return super().why_not(problem, device)

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        # The models have seen no image of one pixel, which `conv2d_dense` solves in one launch of 2 to 5 us.
        return problem.input[2:] != (1, 1) and super().is_likely(problem, device)

    def layouts(self, problem: Conv2d) -> tuple[ImageLayout, ...]:
        return tuple(ImageLayout) if problem.pass_.sums_images else super().layouts(problem)
