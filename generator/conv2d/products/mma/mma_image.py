"""The image side of `conv2d_mma` (fprop, dgrad): geometry, search space, model, default config and program."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.mma.mma_tiles import (
    CHUNK_BYTES,
    LEAST,
    MOST_WARPS,
    NAME,
    TILE,
    MmaWarps,
    block_ns,
    memory_constraints,
    most_stages,
    register_constraint,
    stage_ns,
    stage_parameters,
    sum_steps,
    tile_constraints,
    warp_parameters,
    warp_tiles,
    why_no_least,
)
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import (
    Arithmetic,
)
from warpsmith.generator.conv2d.products.split16.split16_folding import folded
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import ImageTiles, Reach
from warpsmith.generator.conv2d.products.split16.split16_model import (
    TILE_CYCLES,
    TimedConfig,
    busy_multiprocessor,
)
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.conv2d.products.split16.split16_programs import image_program
from warpsmith.generator.conv2d.products.split16.split16_side import Split16Side
from warpsmith.generator.device import Device
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

CHANNELS = (16, 32, 64)
STAGED_COLUMNS, STAGED_PADDING = 16, 4
"""Channels of the epilogue staging tile, and padding floats between two channels, so that neighbours lie in different
banks.
"""
LEAST_IMAGE: dict[str, Value] = {**LEAST, "channels": CHANNELS[0], "reach": Reach.ROW.value}
"""The config that takes least memory. If it is illegal for a layer, all configs are."""


@dataclasses.dataclass(frozen=True)
class MmaImageGeometry(ImageTiles):
    """One config of fprop or dgrad."""

    warps: MmaWarps
    stages: int
    """Stages of weights in shared memory: one for the tap that is multiplied, the others for the next taps."""
    min_blocks: int
    """Blocks that an SM must have registers for (minBlocksPerMultiprocessor of __launch_bounds__)."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> MmaImageGeometry:
        return cls.of_arithmetic(NAME, problem, Arithmetic.of(problem), config)

    @classmethod
    def of_arithmetic(cls, family: str, problem: Conv2d, arithmetic: Arithmetic, config: Config) -> Self:
        """The geometry for the family that multiplies operands of this arithmetic."""
        warps = MmaWarps.of(config)
        return cls.tiled(
            family,
            problem,
            arithmetic,
            tile_m=warps.tile_rows,
            columns=warps.tile_columns,
            channels=config.integer("channels"),
            reach=Reach(config.text("reach")),
            warps=warps,
            stages=config.integer("stages"),
            min_blocks=config.integer("min_blocks"),
        )

    @property
    def blocks(self) -> int:
        return self.tiles

    @property
    def sum_steps(self) -> int:
        """Steps of 16 terms after which a sum leaves the tensor cores."""
        return sum_steps(self.arithmetic, CHUNK * self.chunks)

    @property
    def threads(self) -> int:
        return 32 * self.warps.count

    @property
    def pixel_stages(self) -> int:
        """Stages of pixels that are read or in flight while `stages` consecutive taps are."""
        ahead = self.stages - 1
        phases = zip(self.first_taps[:-1], self.first_taps[1:], strict=True)
        return 1 + max((self._most_begun(first, last, ahead) for first, last in phases if last > first), default=0)

    def _most_begun(self, first: int, last: int, count: int) -> int:
        """Most taps that begin a stage of pixels among `count` consecutive taps of a phase, whose last tap is followed
        by its first.
        """
        begins = [step.begins for step in self.steps[first:last]]
        return max(sum(begins[(start + i) % len(begins)] for i in range(count)) for start in range(len(begins)))

    @property
    def stage_bytes(self) -> tuple[int, int]:
        """Bytes of one stage of pixels, and of one stage of weights."""
        line = CHUNK_BYTES * self.arithmetic.parts * self.chunks
        return line * self.run, line * self.columns

    @property
    def staged_bytes(self) -> int:
        """Bytes of the epilogue staging tile; 0 for channels-last results, which are stored directly."""
        own = 4 * STAGED_COLUMNS * (self.warps.rows + STAGED_PADDING)
        return 0 if self.channels_last else self.warps.count * own

    @property
    def shared_bytes(self) -> int:
        pixels, filters = self.stage_bytes
        return max(self.pixel_stages * pixels + self.stages * filters, self.staged_bytes)


def image_space(problem: Conv2d, device: Device) -> Space:
    summed, results = folded(problem).summed_channels, folded(problem).result_channels
    return Space(
        parameters=(
            *warp_parameters("positions", "channels of the result"),
            Parameter("channels", CHANNELS, "that a stage sums over"),
            Parameter("reach", tuple(each.value for each in Reach), "taps whose pixels are copied at once"),
            *stage_parameters("taps whose weights are on their way or read"),
        ),
        constraints=(
            *tile_constraints(problem, device, results, "channels of a result"),
            Constraint(
                f"a block has at most {MOST_WARPS} warps",
                lambda warps_down, warps_across: warps_down * warps_across <= MOST_WARPS,
            ),
            register_constraint(problem, device),
            Constraint(
                f"a stage has less than twice the {summed} channels of a sum, or {CHANNELS[0]}",
                lambda channels: channels < 2 * summed or channels == CHANNELS[0],
            ),
            Constraint(
                "a filter of one row has a reach of its row",
                lambda reach: reach == Reach.ROW or problem.weight[2] > 1,
            ),
            *memory_constraints(
                problem,
                device,
                functools.partial(MmaImageGeometry.of, problem),
                LEAST_IMAGE,
                (*TILE, "channels", "reach"),
            ),
        ),
    )


SHORT_STEPS, SHORT_BEGIN, SHORT_RESULTS = 4, 0.3, 16384
"""Most stages of a short tile (taps of few channels), and the part of its begin and end that does not depend on its
results; with SHORT_RESULTS they take as long as those of others. 128 x 32 results of 3x3 taps and 3 channels take 0.35
to 0.5 of the time that was expected without this (H200, 2026-11-30)."""


def image_ns(geometry: MmaImageGeometry, device: Device) -> float:
    steps = len(geometry.steps) / len(geometry.lattice.phases) * geometry.filters.blocks
    pixels, filters = geometry.stage_bytes
    begun = sum(step.begins for step in geometry.steps) / max(len(geometry.steps), 1)
    rates = busy_multiprocessor(device)
    step_ns = stage_ns(geometry.arithmetic, geometry.warps, 1, 8 * geometry.chunks, pixels * begun + filters, rates)
    warps, tile_cycles = geometry.warps, float(TILE_CYCLES)
    if geometry.filters.blocks == 1 and 1 < len(geometry.steps) <= SHORT_STEPS:
        results = warps.count * warps.rows * warps.columns
        tile_cycles *= min(1.0, SHORT_BEGIN + (1.0 - SHORT_BEGIN) * results / SHORT_RESULTS)
    return block_ns(geometry.blocks, steps, step_ns, warps.count, geometry.min_blocks, device, tile_cycles)


@functools.lru_cache(maxsize=256)  # for a device, and for the one by which times are compared
def image_choice(problem: Conv2d, device: Device) -> TimedConfig:
    """The tile that is expected to take least time."""
    least = Config.of(LEAST_IMAGE)
    least_ns = image_ns(MmaImageGeometry.of(problem, least), device)
    return min(_choices(problem, device), key=lambda each: each.ns, default=TimedConfig(least, least_ns))


def _choices(problem: Conv2d, device: Device) -> Iterator[TimedConfig]:
    """The legal config with the most stages for each tile, depth and reach."""
    space = image_space(problem, device)
    for tile in warp_tiles():
        for channels in CHANNELS:
            for reach in Reach:
                chosen: dict[str, Value] = {**tile, "channels": channels, "reach": reach.value}
                if (found := most_stages(space, chosen)) is not None:
                    yield TimedConfig(found, image_ns(MmaImageGeometry.of(problem, found), device))


class MmaImages(Split16Side):
    """fprop and dgrad."""

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        return why_no_least(problem, self.space(problem, device), Config.of(LEAST_IMAGE))

    def space(self, problem: Conv2d, device: Device) -> Space:
        return image_space(problem, device)

    def choice(self, problem: Conv2d, device: Device) -> TimedConfig:
        return image_choice(problem, device)

    def geometry(self, problem: Conv2d, config: Config) -> MmaImageGeometry:
        return MmaImageGeometry.of(problem, config)

    def program(self, problem: Conv2d, config: Config) -> Program:
        return image_program(NAME, "conv2d/mma_image.cu.jinja", problem, config, self.geometry(problem, config))
