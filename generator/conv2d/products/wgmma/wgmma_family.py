"""Implicit GEMM on Hopper's tensor cores with each float32 split into two fp16 parts: as accurate as float32 sums.

One launch finds the largest number of each operand. Another scales the operand by a power of two and writes it as fp16
parts: images on a line of positions where a tap is a shift (`split16_lattice.py`), weights tile by tile. In the GEMM
kernel, one producer warp copies stages of both operands into shared memory with bulk copies, and the consumer
warpgroups multiply them. A product of two float32 numbers takes three fp16 products (fp16x3). The result of each stage
is added up outside of the tensor cores, which truncate sums. Under `tf32` only the high parts are multiplied, because
fp16 has as many mantissa bits.

wgrad sums along the line. wgmma also reads fp16 operands that are contiguous along channels (M, N), so wgrad reads the
same 16-bit images as the other passes. Its sums are split over blocks and added up in a fixed order, so the same inputs
give the same bits.

Source: Chetlur et al. 2014, "cuDNN: Efficient Primitives for Deep Learning", section 3 (implicit GEMM); Ootomo and
Yokota 2022, "Recovering single precision accuracy from Tensor Cores", section 3; wgmma and mbarrier in the PTX manual.
"""

from __future__ import annotations

from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide, SidedFamily
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import why_not_split16, why_not_within_windows
from warpsmith.generator.conv2d.products.wgmma.wgmma_image import WgmmaImages
from warpsmith.generator.conv2d.products.wgmma.wgmma_tiles import NAME
from warpsmith.generator.conv2d.products.wgmma.wgmma_weight import WgmmaWeights
from warpsmith.generator.conv2d.sums.direct_model import is_expected_before_direct
from warpsmith.generator.device import Device
from warpsmith.generator.family import Subject
from warpsmith.generator.space import Config
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType


class Conv2dWarpgroup(SidedFamily):
    """`conv2d` by wgmma instructions, with three fp16 products for each float32 product."""

    name = NAME
    image: ClassVar[LayerSide] = WgmmaImages()
    weight: ClassVar[LayerSide] = WgmmaWeights()

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return self.why_no_products(problem, device) or super().why_not(problem, device)

    def why_no_products(self, problem: Conv2d, device: Device) -> str | None:
        """Why 16-bit products do not solve the layer whatever its sizes are, in one line; None if they do."""
        return (
            device.why_no_tensor_instruction(TensorType.F16, WARPGROUP)
            or why_not_split16(problem)
            or why_not_within_windows(problem)
        )

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        return is_expected_before_direct(self, problem, device)

    def carried(self, config: Config, home: Subject[Conv2d], problem: Conv2d, device: Device) -> Config | None:
        """The default for another problem.

        Defaults took 1.003 times the best of 159 short searches. Winners carried over from up to 3 octaves away took
        1.17 times the default in 52 pairs, and 1.69 times in the worst (H200), because tiles have to fit channels and
        SMs.
        """
        carried = super().carried(config, home, problem, device)
        return carried if carried is None or home.problem == problem else self.default(problem, device)
