"""What a block of `conv2d_warpgroup` computes of a result that is an image, and the shared memory that takes."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Self

from warpsmith.generator.conv2d.halves.arithmetic import Arithmetic
from warpsmith.generator.conv2d.halves.halving import CHUNK
from warpsmith.generator.conv2d.halves.image_tiles import ImageTiles, Reach
from warpsmith.generator.conv2d.halves.model import Sustained
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.space import Config

NAME = "conv2d_warpgroup"
GROUP_POSITIONS = 64
"""Results of a warpgroup side by side: the rows of a wgmma product."""
PIXEL_BYTES = 2 * CHUNK
"""Of eight halves."""
BARRIER_BYTES = 8
REGISTERS = {1: 248, 2: 232, 3: 160}
"""Of a thread that multiplies, by the warpgroups that do: a quarter of a multiprocessor has 512 for each lane, of which
a warp that copies keeps COPYING_REGISTERS."""
COPYING_REGISTERS = 24
COPY_CYCLES = 64
"""Clock cycles of a bulk copy, however short: 48 copies of 512 or of 1024 bytes took 3100 clocks a stage."""
LINE = Sustained(tensor_share=0.95, step_cycles=60)
"""Of images on a line, in stages of 64 channels."""
STAGED_BYTES = 4 * 16 * (GROUP_POSITIONS + 4)
"""Of results on their way out, a warpgroup's."""


@dataclasses.dataclass(frozen=True)
class ImageGeometry(ImageTiles):
    """One config on fprop or dgrad."""

    warpgroups: int
    pixel_stages: int
    filter_stages: int
    most_blocks: int
    """Of threads, which take tiles in turns; 0 where each tile has one."""

    name: ClassVar[str] = NAME
    """The family, and the kernel that multiplies."""
    sustained: ClassVar[Sustained] = LINE

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Self:
        warpgroups = config.integer("warpgroups")
        return cls.tiled(
            cls.name,
            problem,
            Arithmetic.of(problem),
            positions=GROUP_POSITIONS * warpgroups,
            columns=config.integer("columns"),
            channels=config.integer("channels"),
            reach=Reach(config.text("reach")),
            warpgroups=warpgroups,
            pixel_stages=config.integer("pixel_stages"),
            filter_stages=config.integer("filter_stages"),
            most_blocks=config.integer("blocks"),
        )

    @property
    def blocks(self) -> int:
        blocks = min(self.most_blocks or self.tiles, self.tiles)
        phases = len(self.lattice.phases)
        if phases == 1 or blocks == self.tiles:
            return blocks
        # Phases have different numbers of taps, and come in turns. With 132 blocks and 4 phases each block would have
        # tiles of one phase alone, and those of most taps last 1.8 times as long as their share.
        around = phases * self.tiles_across
        return next(fewer for fewer in range(blocks, 0, -1) if math.gcd(fewer, around) == 1)

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
        """Clock cycles of the producer warp for a stage of pixels."""
        return COPY_CYCLES * self.arithmetic.parts * self.chunks

    @property
    def filled(self) -> float:
        """The share of its products that a stage takes, in the mean."""
        return 1.0

    @property
    def staged_bytes(self) -> int:
        """Of results on their way out; those whose channels lie side by side are stored as they are."""
        return 0 if self.channels_last else self.warpgroups * STAGED_BYTES

    @property
    def shared_bytes(self) -> int:
        chunks = self.arithmetic.parts * self.chunks
        pixels = self.pixel_stages * chunks * self.run
        filters = self.filter_stages * chunks * self.columns
        barriers = 2 * BARRIER_BYTES * (self.pixel_stages + self.filter_stages)
        return PIXEL_BYTES * (pixels + filters) + self.staged_bytes + barriers


def block_threads(warpgroups: int) -> int:
    """Of a block with so many warpgroups that multiply, and one that copies."""
    return 128 * (warpgroups + 1)
