"""Tiles of `conv2d_mma` for wgrad, and the shared memory that they take."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.mma.mma_warps import NAME, Warps, sum_steps
from warpsmith.generator.conv2d.products.split16.split16_weight_tiles import WeightTiles
from warpsmith.generator.space import Config


@dataclasses.dataclass(frozen=True)
class WeightGeometry(WeightTiles):
    """One config of wgrad."""

    warps: Warps
    """Warps per tap."""
    min_blocks: int
    """Blocks that an SM must have registers for (minBlocksPerMultiprocessor of __launch_bounds__)."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> WeightGeometry:
        warps = Warps.of(config)
        return cls.tiled(
            NAME,
            problem,
            taps=config.integer("taps"),
            rows=warps.tile_rows,
            columns=warps.tile_columns,
            terms=config.integer("terms"),
            stages=config.integer("stages"),
            splits=config.integer("splits"),
            warps=warps,
            min_blocks=config.integer("min_blocks"),
        )

    @property
    def sum_steps(self) -> int:
        """Steps of 16 terms after which a sum leaves the tensor cores."""
        return sum_steps(self.arithmetic, self.terms)

    @property
    def threads(self) -> int:
        return 32 * self.warps.count * self.taps

    @property
    def x_pitch(self) -> int:
        return self.run

    @property
    def shared_bytes(self) -> int:
        return self.stages * self.stage_bytes
