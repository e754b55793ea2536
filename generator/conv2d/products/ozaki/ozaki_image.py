"""Tiles of `conv2d_slices` (those of `conv2d_mma`, with bytes instead of fp16 numbers), search space and default."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.mma.mma_image import MmaImageGeometry
from warpsmith.generator.conv2d.products.mma.mma_tiles import (
    BLOCKS,
    COLUMNS,
    MOST_WARPS,
    OTHER_REGISTERS,
    STAGES,
    WARPS,
    MmaWarps,
    shared_bytes,
)
from warpsmith.generator.conv2d.products.ozaki.ozaki_slices import (
    LEVELS,
    SLICES,
    ChannelMeasure,
    OzakiArithmetic,
    RangeCheck,
)
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import Reach, summed_and_results
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.steps import aligned

NAME = "conv2d_slices"


@dataclasses.dataclass(frozen=True)
class OzakiGeometry(MmaImageGeometry):
    """One config of fprop or dgrad."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> OzakiGeometry:
        return cls.of_arithmetic(NAME, problem, OzakiArithmetic.of(problem), config)

    @property
    def range(self) -> RangeCheck:
        """The launch that scales both operands and checks their range."""
        measures = ChannelMeasure.of_images(self.images), ChannelMeasure.of_filters(self.filters)
        return RangeCheck(NAME, measures, self.filters.groups, self.filters.tap_count)

    @property
    def sum_steps(self) -> int:
        """All steps of a stage, because integer sums are not truncated."""
        return self.chunks // 2

    @property
    def workspace_bytes(self) -> int:
        others = (*(each.workspace for each in self.range.measures), self.range.workspace)
        return super().workspace_bytes + sum(aligned(each.nbytes) for each in others)


def registers(warps: MmaWarps) -> int:
    """Approximate registers per thread: accumulators of all levels, and the slices that it multiplies."""
    return LEVELS * warps.rows * warps.columns // 32 + SLICES * warps.columns // 4 + 8 + OTHER_REGISTERS


CHANNELS = (32, 64, 128)
LEAST: dict[str, Value] = {
    "warps_down": WARPS[0],
    "warps_across": WARPS[0],
    "warp_rows": 32,
    "warp_columns": COLUMNS[0],
    "channels": CHANNELS[0],
    "reach": Reach.ROW.value,
    "stages": STAGES[0],
    "min_blocks": BLOCKS[0],
}
"""The config that takes least memory. If it is illegal for a layer, all configs are."""
_TILE = ("warps_down", "warps_across", "warp_rows", "warp_columns", "channels", "reach")


def slices_space(problem: Conv2d, device: Device) -> Space:
    """The space of fprop and dgrad."""
    summed, results = summed_and_results(problem)
    return Space(
        parameters=(
            Parameter("warps_down", WARPS, "of a block, below each other: in positions"),
            Parameter("warps_across", WARPS, "of a block, side by side: in channels of the result"),
            Parameter("warp_rows", (32,), "positions of a warp: with more, sums of four levels have no registers"),
            Parameter("warp_columns", COLUMNS[:2], "channels of the result of a warp"),
            Parameter("channels", CHANNELS, "that a stage sums over"),
            Parameter("reach", tuple(each.value for each in Reach), "taps whose pixels are copied at once"),
            Parameter("stages", STAGES, "taps whose weights are on their way or read"),
            Parameter("min_blocks", BLOCKS, "that a multiprocessor has registers and shared memory for"),
        ),
        constraints=(
            Constraint(
                f"a tile has less than twice the {results} channels of a result, or {COLUMNS[0]}",
                lambda warps_across, warp_columns: (
                    warps_across * warp_columns < 2 * results or (warps_across == 1 and warp_columns == COLUMNS[0])
                ),
            ),
            Constraint(
                f"a block has at most {MOST_WARPS} warps",
                lambda warps_down, warps_across: warps_down * warps_across <= MOST_WARPS,
            ),
            Constraint(
                f"the threads of all blocks share {device.registers_per_multiprocessor} registers of a multiprocessor",
                lambda warps_down, warps_across, warp_rows, warp_columns, min_blocks: (
                    registers(MmaWarps(warps_down, warps_across, warp_rows, warp_columns))
                    <= device.thread_registers(32 * warps_down * warps_across * min_blocks)
                ),
            ),
            Constraint(
                f"a stage has less than twice the {summed} channels of a sum, or {CHANNELS[0]}",
                lambda channels: channels < 2 * summed or channels == CHANNELS[0],
            ),
            Constraint(
                "a filter of one row has a reach of its row",
                lambda reach: reach == Reach.ROW or problem.weight[2] > 1,
            ),
            *_memory(problem, device),
        ),
    )


def _memory(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    """Constraints on shared memory and on the workspace."""

    def geometry(*values: Value) -> OzakiGeometry:
        chosen = dict(zip((*_TILE, "stages", "min_blocks"), values, strict=False))
        return OzakiGeometry.of(problem, Config.of({**LEAST, **chosen}))

    return (
        Constraint(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory, as many fit side by side",
            lambda *values: geometry(*values).shared_bytes <= shared_bytes(device, int(values[-1])),
            (*_TILE, "stages", "min_blocks"),
        ),
        Constraint(
            f"digits take at most {problem.workspace_limit} bytes",
            lambda *values: geometry(*values).workspace_bytes <= problem.workspace_limit,
            _TILE,
        ),
    )


def slices_default(problem: Conv2d, device: Device) -> Config:
    """The first legal tile of a fixed list, larger tiles first, with the most channels (64 or 32) and stages."""
    space = slices_space(problem, device)
    for down, across, columns in ((2, 4, 32), (4, 2, 32), (2, 2, 32), (4, 1, 32), (4, 1, 16), (2, 1, 16)):
        for channels in CHANNELS[1::-1]:
            for stages in STAGES[::-1]:
                tile: dict[str, Value] = {"warps_down": down, "warps_across": across, "warp_columns": columns}
                config = Config.of({**LEAST, **tile, "channels": channels, "stages": stages})
                if space.contains(config):
                    return config
    return Config.of(LEAST)
