"""Tiles of `conv2d_mma` for fprop and dgrad, and the shared memory that they take."""

from __future__ import annotations

import dataclasses
from typing import Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.mma.mma_warps import CHUNK_BYTES, NAME, Warps, sum_steps
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import ImageTiles, Reach
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.space import Config

STAGED_COLUMNS, STAGED_PADDING = 16, 4
"""Channels of the epilogue staging tile, and padding floats between two channels, so that neighbours lie in different
banks.
"""


@dataclasses.dataclass(frozen=True)
class ImageGeometry(ImageTiles):
    """One config of fprop or dgrad."""

    warps: Warps
    stages: int
    """Stages of weights in shared memory: one for the tap that is multiplied, the others for the next taps."""
    min_blocks: int
    """Blocks that an SM must have registers for (minBlocksPerMultiprocessor of __launch_bounds__)."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> ImageGeometry:
        return cls.of_arithmetic(NAME, problem, Arithmetic.of(problem), config)

    @classmethod
    def of_arithmetic(cls, family: str, problem: Conv2d, arithmetic: Arithmetic, config: Config) -> Self:
        """The geometry for the family that multiplies operands of this arithmetic."""
        warps = Warps.of(config)
        return cls.tiled(
            family,
            problem,
            arithmetic,
            positions=warps.tile_rows,
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
