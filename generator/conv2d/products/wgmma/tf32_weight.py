"""The weight side of `conv2d_warpgroup_tf32` (wgrad): search space, model, default config and program.

wgmma reads TF32 operands only if they are contiguous along the summed dimension. Gradients of weights sum over pixels,
and with channels last the channels are contiguous. So warps load numbers to registers and multiply them by mma.sync.
Unlike `conv2d_pointwise`, whose threads copy pixels one by one, TMA brings them; each tap is a tile of its own.
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import Conv2dText
from warpsmith.generator.conv2d.products.pointwise.pointwise_tiles import BLOCKS, STAGES
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight import (
    MOST_WARPS,
    PARTS,
    SPLITS,
    WARPS,
    PointwiseWeights,
    Tile,
    part_constraints,
    parts_of,
    summing,
)
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import (
    LEAST,
    PointwiseWeightGeometry,
)
from warpsmith.generator.conv2d.products.split16.split16_programs import MAIN
from warpsmith.generator.conv2d.products.wgmma.tf32_image import NAME
from warpsmith.generator.conv2d.products.wgmma.tf32_weight_geometry import BOX_CHANNELS, Tf32WeightGeometry
from warpsmith.generator.conv2d.products.wgmma.tf32_weight_model import QUARTERS, tf32_weight_ns, thread_registers
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Pointer, Program, Unit
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

SIDES = (32, 64)
"""Rows and columns of a warp: whole boxes of channels."""
TILES = (
    *((2, 2, 64, 64), (1, 4, 64, 64), (4, 1, 64, 64), (1, 2, 64, 64), (2, 1, 64, 64), (1, 1, 64, 64)),
    *((2, 4, 64, 32), (4, 2, 32, 64), (2, 2, 64, 32), (2, 2, 32, 64), (1, 4, 64, 32), (4, 1, 32, 64)),
    *((1, 2, 64, 32), (2, 1, 32, 64), (1, 8, 64, 32), (8, 1, 32, 64), (2, 4, 32, 32), (4, 2, 32, 32)),
    *((2, 2, 32, 32), (1, 4, 32, 32), (4, 1, 32, 32), (1, 2, 32, 32), (2, 1, 32, 32), (1, 1, 32, 32)),
)
"""Candidate tiles of defaults."""


def tf32_weight_space(problem: Conv2d, device: Device) -> Space:
    filters, channels = problem.group_filters, problem.group_channels

    def has_registers(down: int, across: int, rows: int, columns: int, min_blocks: int) -> bool:
        return thread_registers(rows, columns) <= _registers(down * across, min_blocks, device)

    return Space(
        parameters=(
            Parameter("down", WARPS, "warps of a block, below each other: in channels of dy"),
            Parameter("across", WARPS, "warps of a block, side by side: in channels of x"),
            Parameter("rows", SIDES, "channels of dy of a warp"),
            Parameter("columns", SIDES, "channels of x of a warp"),
            Parameter("stages", STAGES, "of pixels: one is multiplied, the others are on their way"),
            Parameter("min_blocks", BLOCKS, "that a multiprocessor has registers and shared memory for"),
            Parameter("splits", SPLITS, "parts of a sum, each of a block of its own"),
        ),
        constraints=(
            Constraint(f"a block has at most {MOST_WARPS} warps", lambda down, across: down * across <= MOST_WARPS),
            Constraint(
                f"a tile has less than twice the {filters} channels of dy, or {BOX_CHANNELS}",
                lambda down, rows: down * rows < max(2 * filters, BOX_CHANNELS + 1),
            ),
            Constraint(
                f"a tile has less than twice the {channels} channels of x, or {BOX_CHANNELS}",
                lambda across, columns: across * columns < max(2 * channels, BOX_CHANNELS + 1),
            ),
            Constraint(
                "the threads of all blocks of a multiprocessor have registers for their sums and numbers", has_registers
            ),
            _memory_constraint(problem, device),
            *part_constraints(problem),
        ),
    )


def _registers(warps: int, blocks: int, device: Device) -> int:
    """Registers of a thread if so many blocks of so many warps, and a copying one, share a multiprocessor: the quarter
    of it that has most warps decides.
    """
    return device.thread_registers(QUARTERS * 32 * math.ceil((warps + 1) * blocks / QUARTERS))


def _memory_constraint(problem: Conv2d, device: Device) -> Constraint:
    def fits(down: int, across: int, rows: int, columns: int, stages: int, min_blocks: int) -> bool:
        tile = {"down": down, "across": across, "rows": rows, "columns": columns, "stages": stages}
        own = Tf32WeightGeometry.of(problem, Config.of({**LEAST, **tile})).shared_bytes
        share = device.shared_per_multiprocessor_bytes // min_blocks - device.limits.reserved_shared_bytes
        return own <= min(device.shared_per_block_bytes, share)

    return Constraint(
        f"a block has at most {device.shared_per_block_bytes} bytes of shared memory, and all blocks of a "
        f"multiprocessor {device.shared_per_multiprocessor_bytes}",
        fits,
    )


class Tf32Weights(PointwiseWeights):
    """wgrad."""

    kind: ClassVar[type[PointwiseWeightGeometry]] = Tf32WeightGeometry
    stages: ClassVar[tuple[int, ...]] = (6, 4, 3, 2)

    def __init__(self) -> None:
        super().__init__(NAME, tf32_weight_ns)

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return super().why_not(problem, device) or Tf32WeightGeometry.of(problem, self.least(problem)).why_not

    def space(self, problem: Conv2d, device: Device) -> Space:
        return tf32_weight_space(problem, device)

    def tiles(self, problem: Conv2d) -> tuple[Tile, ...]:
        return TILES

    def least(self, problem: Conv2d) -> Config:
        values = super().least(problem).values()
        return Config.of({**values, "rows": SIDES[0], "columns": SIDES[0]})

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = Tf32WeightGeometry.of(problem, config)
        is_split = geometry.splits > 1
        target = PARTS if is_split else "dw"
        source = render(
            "conv2d/warpgroup_tf32_weight.cu.jinja",
            p=Conv2dText.of(problem),
            g=geometry,
            config=config.key(),
            target=target,
        )
        arguments = (geometry.x_map, geometry.dy_map, Pointer(target))
        launch = dataclasses.replace(
            Launch.of_blocks(NAME, geometry.blocks, geometry.threads, arguments),
            shared_bytes=geometry.shared_bytes,
            unit=MAIN,
            begins_early=True,
        )
        if not is_split:
            return Program(NAME, config, (Unit(MAIN, source),), (launch,))
        total, add = summing(NAME, problem, geometry, is_early=True)
        return Program(NAME, config, (Unit(MAIN, source), total), (launch, add), parts_of(geometry))
