"""What a block computes of products of spectra that are halves, and where they lie in its shared memory."""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.fft.block.halves import PARTS, RUN
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config
from warpsmith.generator.steps import TensorMap

GROUP_ROWS = 64
"""Of a result, a warpgroup's: the rows of a wgmma product."""
TERMS = RUN
"""Complex ones of a stage, after which sums leave the tensor cores."""
LINE_BYTES, LINE = 128, 64
"""Of a line of halves that the copy engine swizzles, and the halves of it."""
BARRIER_BYTES = 8
REGISTERS = {1: 248, 2: 232}
"""Of a thread that multiplies, by the warpgroups that do, beside one that copies and keeps COPYING_REGISTERS."""
COPYING_REGISTERS = 24


@dataclasses.dataclass(frozen=True, slots=True)
class HalvesSide:
    """One operand's tiles: of a, whose results lie in its rows, or of b, whose results lie in its columns."""

    name: str
    size: int
    """Rows of c that it gives, or columns."""
    block: int
    """Of a block's tile."""
    terms: int
    """Of a sum: k."""
    products: int
    is_turned: bool
    """Whether results lie side by side in memory, and terms from row to row; else terms lie side by side."""

    @property
    def tiles(self) -> int:
        return ceil(self.size / self.block)

    @property
    def boxes(self) -> int:
        """Of turned halves: lines side by side that a tile has."""
        return ceil(self.block / LINE)

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
        return self.box_bytes if self.is_turned else LINE * LINE_BYTES

    @property
    def map(self) -> TensorMap:
        """Of all halves: an image for each part and product, whose pixels are the rows in memory."""
        lines = self.terms if self.is_turned else self.size
        together = TERMS if self.is_turned else self.block
        return TensorMap(
            self.name,
            DType.FLOAT16,
            shape=(
                (PARTS if self.is_turned else PARTS // 2) * self.products,
                1,
                lines,
                self.size if self.is_turned else 2 * self.terms,
            ),
            first=(0, 0),
            extent=(1, together * ceil(lines / together)),
            step=(1, 1),
            channels=LINE,
            pixels=together,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class HalvesGeometry:
    """One config on one problem."""

    a: HalvesSide
    b: HalvesSide
    products: int
    groups: int
    """Warpgroups of a block that multiply, one below the other."""
    columns: int
    stages: int
    blocks: int
    """That take tiles in turns."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config) -> HalvesGeometry:
        groups, columns = config.integer("groups"), config.integer("columns")
        common = problem.k, problem.batch
        a = HalvesSide("a", problem.m, GROUP_ROWS * groups, *common, problem.a.transposes)
        b = HalvesSide("b", problem.n, columns, *common, not problem.b.transposes)
        tiles = a.tiles * b.tiles * problem.batch
        most = config.integer("blocks") or tiles
        return cls(a, b, problem.batch, groups, columns, config.integer("stages"), min(most, tiles))

    @property
    def tiles(self) -> int:
        return self.a.tiles * self.b.tiles * self.products

    @property
    def steps(self) -> int:
        """Stages that a sum goes through."""
        return ceil(self.a.terms / TERMS)

    @property
    def threads(self) -> int:
        """Of a block: its warpgroups, and the one that copies."""
        return 128 * (self.groups + 1)

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
        return self.b.size % 2 == 0

    @property
    def is_ragged_down(self) -> bool:
        return self.a.size % self.a.block != 0

    @property
    def is_ragged_across(self) -> bool:
        return self.b.size % self.b.block != 0
