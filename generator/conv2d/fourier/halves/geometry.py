"""What a block computes of products of spectra that are halves, and where they lie in its shared memory."""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_geometry import PAIR, OperandTiles
from warpsmith.generator.cgemm.warpgroup_geometry import GROUP_ROWS
from warpsmith.generator.conv2d.warpgroup.im2col import CHANNELS, LINE_BYTES
from warpsmith.generator.conv2d.warpgroup.image_geometry import (
    BARRIER_BYTES,
    COPYING_REGISTERS,
    REGISTERS,
    block_threads,
)
from warpsmith.generator.fft.block.halves import PARTS, RUN
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.generator.space import Config
from warpsmith.generator.steps import TensorMap

TERMS = RUN
"""Complex ones of a stage, after which sums leave the tensor cores."""


@dataclasses.dataclass(frozen=True, slots=True)
class HalvesSide(OperandTiles):
    """One operand's tiles: `own` results along its side are a warpgroup's, and `threads` counts a block's warpgroups
    there.
    """

    products: int

    @property
    def is_turned(self) -> bool:
        """Whether results lie side by side in memory, and terms from row to row; else terms lie side by side."""
        return not self.terms_inner

    @property
    def boxes(self) -> int:
        """Of turned halves: lines side by side that a tile has."""
        return ceil(self.block / CHANNELS)

    @property
    def box_bytes(self) -> int:
        """What one copy brings: lines of TERMS terms, or of all rows of the tile."""
        return LINE_BYTES * (TERMS if self.is_turned else self.block)

    @property
    def copies(self) -> int:
        """Of a stage."""
        return PARTS * self.boxes if self.is_turned else PARTS // 2

    @property
    def stage_bytes(self) -> int:
        return self.copies * self.box_bytes

    @property
    def low(self) -> int:
        """Bytes of a stage from high parts to low ones."""
        return self.boxes * self.box_bytes if self.is_turned else 2 * RUN

    @property
    def imaginary(self) -> int:
        """From real parts to imaginary ones."""
        return self.stage_bytes // 2

    @property
    def step(self) -> int:
        """From 16 terms to the next ones."""
        return 16 * LINE_BYTES if self.is_turned else 32

    @property
    def group(self) -> int:
        """From 64 results to the next ones."""
        return self.box_bytes if self.is_turned else CHANNELS * LINE_BYTES

    @property
    def map(self) -> TensorMap:
        """Of all halves: an image for each part and product, whose pixels are the rows in memory."""
        lines = self.sum_length if self.is_turned else self.size
        together = TERMS if self.is_turned else self.block
        return TensorMap(
            self.name,
            DType.FLOAT16,
            shape=(
                (PARTS if self.is_turned else PARTS // 2) * self.products,
                1,
                lines,
                self.size if self.is_turned else 2 * self.sum_length,
            ),
            first=(0, 0),
            extent=(1, together * ceil(lines / together)),
            step=(1, 1),
            channels=CHANNELS,
            pixels=together,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class HalvesGeometry:
    """One config on one problem."""

    a: HalvesSide
    b: HalvesSide
    stages: int
    most_blocks: int
    """That take tiles in turns; 0 for one a tile."""
    scales_rows: bool
    """Whether each row of a has a power of two of its own."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config) -> HalvesGeometry:
        shared = {"terms": TERMS, "sum_length": problem.k, "products": problem.batch}
        groups, columns = config.integer("groups"), config.integer("columns")
        return cls(
            a=HalvesSide("a", problem.m, GROUP_ROWS, groups, terms_inner=not problem.a.transposes, **shared),
            b=HalvesSide("b", problem.n, columns, 1, terms_inner=problem.b.transposes, **shared),
            stages=config.integer("stages"),
            most_blocks=config.integer("blocks"),
            scales_rows=problem.accuracy is Accuracy.ROWWISE,
        )

    @property
    def sides(self) -> tuple[HalvesSide, HalvesSide]:
        return self.a, self.b

    @property
    def products(self) -> int:
        return self.a.products

    @property
    def groups(self) -> int:
        """Warpgroups of a block that multiply, one below the other."""
        return self.a.threads

    @property
    def columns(self) -> int:
        return self.b.block

    @property
    def blocks(self) -> int:
        return min(self.most_blocks or self.tiles, self.tiles)

    @property
    def tiles(self) -> int:
        return self.a.tiles * self.b.tiles * self.products

    @property
    def steps(self) -> int:
        """Stages that a sum goes through."""
        return ceil(self.a.sum_length / TERMS)

    @property
    def threads(self) -> int:
        """Of a block: its warpgroups, and the one that copies."""
        return block_threads(self.groups)

    @property
    def registers(self) -> int:
        """That each thread which multiplies takes; 0 where it has enough from the start."""
        return REGISTERS[self.groups] if self.groups > 1 else 0

    @property
    def copying_registers(self) -> int:
        return COPYING_REGISTERS

    @property
    def stage_bytes(self) -> int:
        return self.a.stage_bytes + self.b.stage_bytes

    @property
    def shared_bytes(self) -> int:
        return self.stages * (self.stage_bytes + 2 * BARRIER_BYTES)

    @property
    def stores_pairs(self) -> bool:
        """Whether two columns are stored at once."""
        return self.b.size % PAIR == 0
