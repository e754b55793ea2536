"""Implicit GEMM by warp-level mma instructions, on any GPU from compute capability 8.0 on.

The family computes with mma what `conv2d_warpgroup` computes with wgmma, on the same 16-bit operands in global memory
(`split16_operand.py`). Each float32 is split into two fp16 parts, a product takes three fp16 products, and the
result of a stage is added up outside of the tensor cores, which truncate sums. All threads of a block copy the next
stages into shared memory while their warps multiply the stages that have arrived. A row in shared memory is a channel
vector of eight fp16 numbers, and ldmatrix loads eight such rows, 128 bytes, as one matrix. Whatever the tap, no two of
these rows lie in the same bank.

Source: Chetlur et al. 2014, "cuDNN: Efficient Primitives for Deep Learning", section 3 (implicit GEMM); Ootomo and
Yokota 2022, "Recovering single precision accuracy from Tensor Cores", section 3; mma, ldmatrix and cp.async in the PTX
manual.
"""

from __future__ import annotations

from warpsmith.generator.architectures import ASYNC_COPIES
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import SidedFamily
from warpsmith.generator.conv2d.products.mma.mma_image import MmaImages
from warpsmith.generator.conv2d.products.mma.mma_tiles import NAME
from warpsmith.generator.conv2d.products.mma.mma_weight import MmaWeights
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import why_not_split16, why_not_within_windows
from warpsmith.generator.conv2d.products.split16.split16_folding import MOST_CHANNELS
from warpsmith.generator.conv2d.sums.direct_model import is_expected_before_direct
from warpsmith.generator.device import Device
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType


class Conv2dMma(SidedFamily):
    """`conv2d` by mma instructions, with three fp16 products for each float32 product."""

    name = NAME
    image, weight = MmaImages(), MmaWeights()

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return (
            device.why_no_tensor_instruction(TensorType.F16)
            or device.why_no(ASYNC_COPIES)
            or why_not_split16(problem)
            or why_not_within_windows(problem)
            or super().why_not(problem, device)
        )

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        # Beside wgmma products these were faster only for images of few channels and for groups.
        is_small = problem.input[1] <= MOST_CHANNELS or problem.groups > 1
        if device.tensor_instruction(TensorType.F16, WARPGROUP) is not None and not is_small:
            return False
        return is_expected_before_direct(self, problem, device)
