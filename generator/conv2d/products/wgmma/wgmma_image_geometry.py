"""Tiles of `conv2d_warpgroup` for fprop and dgrad, and the shared memory that they take."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar, Self

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import ImageTiles, Reach
from warpsmith.generator.conv2d.products.split16.split16_model import Sustained
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.space import Config

NAME = "conv2d_warpgroup"
GROUP_POSITIONS = 64
"""Positions per consumer warpgroup: the 64 rows (M) of a wgmma product."""
PIXEL_BYTES = 2 * CHUNK
"""Bytes of one channel vector (8 fp16 numbers)."""
BARRIER_BYTES = 8
REGISTERS = {1: 248, 2: 232, 3: 160}
"""Registers per consumer thread after setmaxnreg, by the number of consumer warpgroups. A quarter of an SM has 512
registers for each lane, and a producer warp keeps COPYING_REGISTERS of them.
"""
COPYING_REGISTERS = 24
COPY_CYCLES = 64
"""Clock cycles of a bulk copy, however short: 48 copies of 512 or of 1024 bytes took 3100 clocks a stage."""
LINE = Sustained(tensor_share=0.95, step_cycles=60)
"""Rates for images on a line, in stages of 64 channels."""
STAGED_BYTES = 4 * 16 * (GROUP_POSITIONS + 4)
"""Bytes of the epilogue staging tile per warpgroup."""


@dataclasses.dataclass(frozen=True)
class ImageGeometry(ImageTiles):
    """One config of fprop or dgrad."""

    warpgroups: int
    pixel_stages: int
    filter_stages: int
    most_blocks: int
    """Number of persistent blocks, which take tiles in turn; 0 if each tile has its own block."""

    name: ClassVar[str] = NAME
    """Name of the family and of the GEMM kernel."""
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
        # Phases have different numbers of taps, and consecutive tiles belong to different phases. With 132 blocks and 4
        # phases, each block would have tiles of one phase only, and blocks of the phase with most taps would take 1.8
        # times their share.
        around = phases * self.tiles_across
        return next(fewer for fewer in range(blocks, 0, -1) if math.gcd(fewer, around) == 1)

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
        """Clock cycles of the producer warp for a stage of pixels."""
        return COPY_CYCLES * self.arithmetic.parts * self.chunks

    @property
    def filled(self) -> float:
        """Mean share of a stage's wgmma products that are computed."""
        return 1.0

    @property
    def staged_bytes(self) -> int:
        """Bytes of the epilogue staging tile; 0 for channels-last results, which are stored directly."""
        return 0 if self.channels_last else self.warpgroups * STAGED_BYTES

    @property
    def shared_bytes(self) -> int:
        chunks = self.arithmetic.parts * self.chunks
        pixels = self.pixel_stages * chunks * self.run
        filters = self.filter_stages * chunks * self.columns
        barriers = 2 * BARRIER_BYTES * (self.pixel_stages + self.filter_stages)
        return PIXEL_BYTES * (pixels + filters) + self.staged_bytes + barriers


def block_threads(warpgroups: int) -> int:
    """Threads per block with `warpgroups` consumer warpgroups and one producer warpgroup."""
    return 128 * (warpgroups + 1)
