"""The weight side of `conv2d_warpgroup_tf32` (wgrad): search space, default config and program.

wgmma reads TF32 operands only if they are contiguous along the summed dimension. Gradients of weights sum over pixels,
and with channels last the channels are contiguous. So warps load numbers to registers and multiply them by mma.sync.
Unlike `conv2d_pointwise`, whose threads copy pixels one by one, TMA brings them; each tap is a tile of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight import PointwiseWeights, Tile
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import PointwiseWeightGeometry
from warpsmith.generator.conv2d.products.wgmma.tf32_image import NAME
from warpsmith.generator.conv2d.products.wgmma.tf32_weight_geometry import Tf32WeightGeometry, shared_bytes_of
from warpsmith.generator.conv2d.products.wgmma.tf32_weight_model import QUARTERS, tf32_weight_ns, thread_registers
from warpsmith.generator.device import Device

SIDES = (32, 64)
"""Rows and columns of a warp: whole boxes of channels."""
TILES = (
    *((2, 2, 64, 64), (1, 4, 64, 64), (4, 1, 64, 64), (1, 2, 64, 64), (2, 1, 64, 64), (1, 1, 64, 64)),
    *((2, 4, 64, 32), (4, 2, 32, 64), (2, 2, 64, 32), (2, 2, 32, 64), (1, 4, 64, 32), (4, 1, 32, 64)),
    *((1, 2, 64, 32), (2, 1, 32, 64), (1, 8, 64, 32), (8, 1, 32, 64), (2, 4, 32, 32), (4, 2, 32, 32)),
    *((2, 2, 32, 32), (1, 4, 32, 32), (4, 1, 32, 32), (1, 2, 32, 32), (2, 1, 32, 32), (1, 1, 32, 32)),
)
"""Candidate tiles of defaults."""


class Tf32Weights(PointwiseWeights):
    """wgrad."""

    kind: ClassVar[type[PointwiseWeightGeometry]] = Tf32WeightGeometry
    template: ClassVar[str] = "conv2d/warpgroup_tf32_weight.cu.jinja"
    rows: ClassVar[tuple[int, ...]] = SIDES
    columns: ClassVar[tuple[int, ...]] = SIDES
    stages: ClassVar[tuple[int, ...]] = (6, 4, 3, 2)
    begins_early: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__(NAME, tf32_weight_ns)

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return super().why_not(problem, device) or Tf32WeightGeometry.of(problem, self.least(problem)).why_not

    def all_columns(self, problem: Conv2d) -> tuple[str, int]:
        return "channels of x", problem.group_channels

    def needed_registers(self, problem: Conv2d) -> Callable[[int, int], int]:
        return thread_registers

    def thread_registers(self, device: Device, warps: int, blocks: int) -> int:
        # Each block has a warp more, which copies. The quarter of a multiprocessor that has most warps decides.
        return super().thread_registers(device, QUARTERS * math.ceil((warps + 1) * blocks / QUARTERS), 1)

    def shared_bytes(self, problem: Conv2d) -> Callable[[int, int, int], int]:
        return shared_bytes_of

    def tiles(self, problem: Conv2d) -> tuple[Tile, ...]:
        return TILES
