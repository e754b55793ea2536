"""Tiles of products of split fp16 spectra, and their place in the shared memory of a block."""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_geometry import PAIR, OperandTiles
from warpsmith.generator.cgemm.warpgroup_geometry import GROUP_ROWS
from warpsmith.generator.conv2d.products.wgmma.im2col_geometry import CHANNELS, LINE_BYTES
from warpsmith.generator.conv2d.products.wgmma.wgmma_image_geometry import (
    BARRIER_BYTES,
    COPYING_REGISTERS,
    REGISTERS,
    block_threads,
)
from warpsmith.generator.fft.block.block_places import PARTS, RUN
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.generator.space import Config
from warpsmith.generator.steps import TensorMap

TERMS = RUN
"""Complex terms per stage (K), after which sums leave the tensor cores."""


@dataclasses.dataclass(frozen=True, slots=True)
class HalvesSide(OperandTiles):
    """Tiles of one operand. A warpgroup has `own` results along the operand's side, and a block has `threads`
    warpgroups there.
    """

    products: int

    @property
    def is_turned(self) -> bool:
        """Whether the operand is transposed: results (M or N) are contiguous and terms (K) go from row to row."""
        return not self.terms_inner

    @property
    def boxes(self) -> int:
        """Copies side by side that cover the results of a tile, if the operand is transposed."""
        return ceil(self.block / CHANNELS)

    @property
    def box_bytes(self) -> int:
        """Bytes of one copy: lines of TERMS terms, or of all rows of the tile."""
        return LINE_BYTES * (TERMS if self.is_turned else self.block)

    @property
    def copies(self) -> int:
        """Copies per stage."""
        return PARTS * self.boxes if self.is_turned else PARTS // 2

    @property
    def stage_bytes(self) -> int:
        return self.copies * self.box_bytes

    @property
    def low(self) -> int:
        """Bytes of a stage from the high parts to the low ones."""
        return self.boxes * self.box_bytes if self.is_turned else 2 * RUN

    @property
    def imaginary(self) -> int:
        """Bytes of a stage from the real parts to the imaginary ones."""
        return self.stage_bytes // 2

    @property
    def step(self) -> int:
        """Bytes from 16 terms to the next 16."""
        return 16 * LINE_BYTES if self.is_turned else 32

    @property
    def group(self) -> int:
        """Bytes from 64 results to the next 64."""
        return self.box_bytes if self.is_turned else CHANNELS * LINE_BYTES

    @property
    def map(self) -> TensorMap:
        """Tensor map of all fp16 numbers: an image for each part and product, whose pixels are the rows in memory."""
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
    """Number of persistent blocks, which take tiles in turn; 0 if each tile has its own block."""
    scales_rows: bool
    """Whether each row of a has its own power of two."""

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
        """Consumer warpgroups per block, one below the other."""
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
        """Stages of a sum."""
        return ceil(self.a.sum_length / TERMS)

    @property
    def threads(self) -> int:
        """Threads per block: the consumer warpgroups and one producer warpgroup."""
        return block_threads(self.groups)

    @property
    def registers(self) -> int:
        """Registers per consumer thread after setmaxnreg; 0 if the launch gives it enough."""
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
