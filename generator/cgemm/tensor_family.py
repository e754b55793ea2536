"""`cgemm` by tensor-core warps (mma.sync) with each float32 split into two tf32 numbers: as accurate as float32 sums.

A float32 is the sum of two tf32 numbers except for its last bit, with the same range of exponents. The product of two
such sums has four products, and the one of both small parts is left out. Tensor cores truncate sums where float32
rounds, so long sums in them shrink. Here each of their sums has 8 terms, small products first, and a float32 addition
joins it to the others. Operands have the same layout in shared as in global memory and are split in registers.

Source: Markidis et al. 2018, "NVIDIA Tensor Core Programmability, Performance and Precision", section V (numbers in two
parts); Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", sections 3.1 (sums outside the
tensor cores) and 3.3 (the product of both small parts is left out); m16n8k8 in the PTX manual.
"""

from __future__ import annotations

from warpsmith.generator.architectures import ASYNC_COPIES
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tensor_choice import tensor_default, tensor_starts
from warpsmith.generator.cgemm.tensor_geometry import TensorGeometry
from warpsmith.generator.cgemm.tensor_space import tensor_space
from warpsmith.generator.cgemm.text import CgemmText
from warpsmith.generator.cgemm.tiled_family import tile_program
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.program import Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space
from warpsmith.generator.tensor_cores import TensorType

LIKELY_SIZE = 32
"""Rows, columns and terms from which on tensor-core products are expected to win."""


class CgemmTensor(Family[Cgemm]):
    """`cgemm` on tensor cores, with three tf32 products for each float32 product (3xTF32)."""

    name = "cgemm_tensor"

    def why_not(self, problem: Cgemm, device: Device) -> str | None:
        return device.why_no_tensor_instruction(TensorType.TF32) or device.why_no(ASYNC_COPIES)

    def is_likely(self, problem: Cgemm, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and min(problem.m, problem.n, problem.k) >= LIKELY_SIZE

    def space(self, problem: Cgemm, device: Device) -> Space:
        return tensor_space(problem, device)

    def default(self, problem: Cgemm, device: Device) -> Config:
        return tensor_default(problem, device)

    def starts(self, problem: Cgemm, device: Device) -> tuple[Config, ...]:
        return tensor_starts(problem, device)

    def unrolled(self, problem: Cgemm, config: Config) -> int:
        return TensorGeometry.of(problem, config).written

    def program(self, problem: Cgemm, config: Config) -> Program:
        geometry = TensorGeometry.of(problem, config)
        source = render("cgemm/tensor.cu.jinja", p=CgemmText.of(problem), g=geometry, config=config.key())
        return tile_program(self.name, problem, config, geometry, source)
