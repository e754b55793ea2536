"""Tiles of `conv2d_warpgroup` for wgrad, and the shared memory that they take."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_model import Sustained
from warpsmith.generator.conv2d.products.split16.split16_weight_tiles import WeightTiles
from warpsmith.generator.conv2d.products.wgmma.wgmma_image_geometry import (
    BARRIER_BYTES,
    COPY_CYCLES,
    COPYING_REGISTERS,
    LINE,
    NAME,
    REGISTERS,
    block_threads,
)
from warpsmith.generator.space import Config

GROUP_CHANNELS = 64
"""Channels of x per consumer warpgroup: the 64 rows (M) of a wgmma product."""


@dataclasses.dataclass(frozen=True)
class WeightGeometry(WeightTiles):
    """One config of wgrad."""

    channel_groups: int
    """Warpgroups of a block along the channels of x, for each tap."""

    name: ClassVar[str] = NAME
    """Name of the family and of the GEMM kernel."""
    sustained: ClassVar[Sustained] = LINE

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Self:
        channel_groups = config.integer("channel_groups")
        return cls.tiled(
            cls.name,
            problem,
            taps=config.integer("taps"),
            rows=GROUP_CHANNELS * channel_groups,
            columns=config.integer("columns"),
            terms=config.integer("terms"),
            stages=config.integer("stages"),
            splits=config.integer("splits"),
            channel_groups=channel_groups,
        )

    @property
    def warpgroups(self) -> int:
        """Consumer warpgroups per block."""
        return self.taps * self.channel_groups

    @property
    def threads(self) -> int:
        """Threads per block: the consumer warpgroups and one producer warpgroup."""
        return block_threads(self.warpgroups)

    @property
    def registers(self) -> int:
        """Registers per consumer thread after setmaxnreg; 0 if the launch gives it enough."""
        return REGISTERS[self.warpgroups] if self.warpgroups > 1 else 0

    @property
    def copying_registers(self) -> int:
        """Registers per producer thread after setmaxnreg."""
        return COPYING_REGISTERS

    @property
    def copy_cycles(self) -> float:
        """Clock cycles of the producer warp for a stage."""
        return COPY_CYCLES * (1 + self.arithmetic.parts * self.x_chunks)

    @property
    def x_pitch(self) -> int:
        """Pitch of channel vectors, in units of 16 bytes. It is odd, so that neighbours lie in different banks."""
        return self.run | 1

    @property
    def shared_bytes(self) -> int:
        return self.stages * (self.stage_bytes + 2 * BARRIER_BYTES)
