"""Implicit GEMM on Hopper's tensor cores with each float32 split into two fp16 parts: as accurate as float32 sums.

One launch finds the largest number of each operand. Another scales the operand by a power of two and writes it as fp16
parts: images on a line of positions where a tap is a shift (`lattice.py`), weights tile by tile. In the GEMM kernel,
one producer warp copies stages of both operands into shared memory with bulk copies, and the consumer warpgroups
multiply them. A product of two float32 numbers takes three fp16 products (fp16x3). The result of each stage is added up
outside of the tensor cores, which truncate sums. Under `tf32` only the high parts are multiplied, because fp16 has as
many mantissa bits.

wgrad sums along the line. wgmma also reads fp16 operands that are contiguous along channels (M, N), so wgrad reads the
same 16-bit images as the other passes. Its sums are split over blocks and added up in a fixed order, so the same inputs
give the same bits.

Source: Chetlur et al. 2014, "cuDNN: Efficient Primitives for Deep Learning", section 3 (implicit GEMM); Ootomo and
Yokota 2022, "Recovering single precision accuracy from Tensor Cores", section 3; wgmma and mbarrier in the PTX manual.
"""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.distance import DEFAULT_REACH
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.layer.work import direct_ns
from warpsmith.generator.conv2d.products.split16.split16_limits import why_not_halves, why_not_within_windows
from warpsmith.generator.conv2d.products.split16.split16_programs import image_program, weight_program
from warpsmith.generator.conv2d.products.wgmma.wgmma_choice import expected_ns, image_choice, weight_choice
from warpsmith.generator.conv2d.products.wgmma.wgmma_image_geometry import NAME, ImageGeometry
from warpsmith.generator.conv2d.products.wgmma.wgmma_space import LEAST_WEIGHT, image_space, least_image, weight_space
from warpsmith.generator.conv2d.products.wgmma.wgmma_weight_geometry import WeightGeometry
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Space
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType


class Conv2dWarpgroup(Family[Conv2d]):
    """`conv2d` by wgmma instructions, with three fp16 products for each float32 product."""

    name = NAME
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        why_not = device.why_no_tensor_instruction(TensorType.F16, WARPGROUP)
        if (why_not := why_not or why_not_halves(problem) or why_not_within_windows(problem)) is not None:
            return why_not
        if not self.space(problem, device).contains(self._least(problem)):
            return f"its tiles and what lies beside them do not fit into {problem.workspace_limit} bytes of workspace"
        return None

    def is_likely(self, problem: Conv2d, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and self.expected_ns(problem, device) < direct_ns(problem, device)

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return expected_ns(problem, device)

    def space(self, problem: Conv2d, device: Device) -> Space:
        return (weight_space if problem.pass_ is Pass.WGRAD else image_space)(problem, device)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return (weight_choice if problem.pass_ is Pass.WGRAD else image_choice)(problem, device).config

    def carried(self, config: Config, home: Subject[Conv2d], problem: Conv2d, device: Device) -> Config | None:
        """The default for another problem.

        Defaults took 1.003 times the best of 159 short searches. Winners carried over from up to 3 octaves away took
        1.17 times the default in 52 pairs, and 1.69 times in the worst (H200), because tiles have to fit channels and
        SMs.
        """
        carried = super().carried(config, home, problem, device)
        return carried if carried is None or home.problem == problem else self.default(problem, device)

    def program(self, problem: Conv2d, config: Config) -> Program:
        if problem.pass_ is Pass.WGRAD:
            weights = WeightGeometry.of(problem, config)
            return weight_program(self.name, "conv2d/warpgroup_weight.cu.jinja", problem, config, weights)
        images = ImageGeometry.of(problem, config)
        return image_program(self.name, "conv2d/warpgroup_image.cu.jinja", problem, config, images)

    def _least(self, problem: Conv2d) -> Config:
        """The config that takes least memory. If it is illegal for a layer, all configs are."""
        return Config.of(LEAST_WEIGHT) if problem.pass_ is Pass.WGRAD else least_image(problem)
