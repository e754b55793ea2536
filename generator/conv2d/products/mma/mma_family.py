"""Implicit GEMM by warp-level mma instructions, on any GPU from compute capability 8.0 on.

The family computes with mma what `conv2d_warpgroup` computes with wgmma, on the same 16-bit operands in global memory
(`generator.conv2d.halves`). Each float32 is split into two fp16 parts, a product takes three fp16 products, and the
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
from warpsmith.generator.conv2d.layer.distance import DEFAULT_REACH
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.layer.work import direct_ns
from warpsmith.generator.conv2d.products.mma.mma_choice import choice_of, expected_ns
from warpsmith.generator.conv2d.products.mma.mma_image_geometry import ImageGeometry
from warpsmith.generator.conv2d.products.mma.mma_space import LEAST_IMAGE, LEAST_WEIGHT, image_space, weight_space
from warpsmith.generator.conv2d.products.mma.mma_warps import NAME
from warpsmith.generator.conv2d.products.mma.mma_weight_geometry import WeightGeometry
from warpsmith.generator.conv2d.products.split16.split16_folding import MOST_CHANNELS
from warpsmith.generator.conv2d.products.split16.split16_limits import why_not_halves, why_not_within_windows
from warpsmith.generator.conv2d.products.split16.split16_programs import image_program, weight_program
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Space
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType


class Conv2dMma(Family[Conv2d]):
    """`conv2d` by mma instructions, with three fp16 products for each float32 product."""

    name = NAME
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        why_not = device.why_no_tensor_instruction(TensorType.F16) or device.why_no(ASYNC_COPIES)
        if (why_not := why_not or why_not_halves(problem) or why_not_within_windows(problem)) is not None:
            return why_not
        least = LEAST_WEIGHT if problem.pass_ is Pass.WGRAD else LEAST_IMAGE
        if not self.space(problem, device).contains(Config.of(least)):
            limit = problem.workspace_limit
            return f"its tiles and the halves that it writes do not fit into {limit} bytes of workspace"
        return None

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        if device.kind is not DeviceKind.CUDA:
            return False
        # Where products by warpgroups are possible too, these were faster at a stem's gradient of weights alone.
        may_be_fastest = device.tensor_instruction(TensorType.F16, WARPGROUP) is None or (
            problem.pass_ is Pass.WGRAD and problem.group_channels <= MOST_CHANNELS
        )
        return may_be_fastest and self.expected_ns(problem, device) < direct_ns(problem, device)

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return expected_ns(problem, device)

    def space(self, problem: Conv2d, device: Device) -> Space:
        return (weight_space if problem.pass_ is Pass.WGRAD else image_space)(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return choice_of(problem, device).config

    def program(self, problem: Conv2d, config: Config) -> Program:
        if problem.pass_ is Pass.WGRAD:
            weights = WeightGeometry.of(problem, config)
            return weight_program(self.name, "conv2d/mma_weight.cu.jinja", problem, config, weights)
        images = ImageGeometry.of(problem, config)
        return image_program(self.name, "conv2d/mma_image.cu.jinja", problem, config, images)
