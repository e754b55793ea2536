"""What a block of `conv2d_warpgroup` computes of the gradient of weights, and the memory that takes."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Self

from warpsmith.generator.conv2d.halves.model import Sustained
from warpsmith.generator.conv2d.halves.weight_tiles import WeightTiles
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.warpgroup.image_geometry import (
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
"""Channels of x of a warpgroup: the rows of a wgmma product."""


@dataclasses.dataclass(frozen=True)
class WeightGeometry(WeightTiles):
    """One config on wgrad."""

    channel_groups: int
    """Warpgroups of a block side by side in channels of x, for each tap."""

    name: ClassVar[str] = NAME
    """The family, and the kernel that multiplies."""
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
        """Of a block, which multiply."""
        return self.taps * self.channel_groups

    @property
    def threads(self) -> int:
        """Of a block: its warpgroups, and the one that copies."""
        return block_threads(self.warpgroups)

    @property
    def registers(self) -> int:
        """That each thread which multiplies takes; 0 where it has enough from the start."""
        return REGISTERS[self.warpgroups] if self.warpgroups > 1 else 0

    @property
    def copying_registers(self) -> int:
        """That those which copy keep."""
        return COPYING_REGISTERS

    @property
    def copy_cycles(self) -> float:
        """Clock cycles of the producer warp for a stage."""
        return COPY_CYCLES * (1 + self.arithmetic.parts * self.x_chunks)

    @property
    def x_pitch(self) -> int:
        """An odd number: chunks so far apart, in 16 bytes, lie in banks of their own."""
        return self.run | 1

    @property
    def shared_bytes(self) -> int:
        return self.stages * (self.stage_bytes + 2 * BARRIER_BYTES)
