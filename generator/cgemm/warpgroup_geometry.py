"""The tiles of one config of `cgemm_warpgroup` on one problem: who computes what, where it lies in shared memory."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_geometry import COMPLEX_BYTES, PAIR, WARP, OperandTiles, TiledProduct
from warpsmith.generator.cgemm.warpgroup_shares import WarpgroupShares, handed_bytes
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.space import Config

GROUP_ROWS = 64
"""Rows of a result that a warpgroup has: those of every product that it makes."""
GROUP_THREADS = 4 * WARP
PRODUCT_TERMS = 16
"""Terms of one product of a warpgroup on halves."""
CORE = 8
"""Rows and columns of a core matrix of halves, in which shared memory is read."""
CORE_BYTES = 128
PARTS = 4
"""Matrices of halves that a complex matrix is made of: high and low parts of real and imaginary numbers."""
BUFFERS = 2
"""Tiles whose parts lie in shared memory at once: one is multiplied, the other one made."""
STRIP = 16
"""Complex numbers side by side that a warp copies at once, as many rows of them as it has lanes left: two whole core
matrices or their halves in each part, so that 16 bytes of any row are copied with their neighbours in a line."""


@dataclasses.dataclass(frozen=True, slots=True)
class WarpgroupSide(OperandTiles):
    """One operand's tiles: `own` results along its side are a warpgroup's, and `threads` counts a block's warpgroups
    there.
    """

    warps: int
    """Of a block."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config, name: str) -> WarpgroupSide:
        is_a, groups = name == "a", config.integer("groups")
        return cls(
            name=name,
            size=problem.m if is_a else problem.n,
            own=GROUP_ROWS if is_a else config.integer("columns"),
            threads=groups if is_a else 1,
            terms=config.integer("terms"),
            sum_length=problem.k,
            terms_inner=not problem.a.transposes if is_a else problem.b.transposes,
            warps=GROUP_THREADS * groups // WARP,
        )

    @property
    def across(self) -> int:
        """Rows of memory that a tile has."""
        return self.block if self.terms_inner else self.terms

    @property
    def strips(self) -> int:
        """Strips along a row."""
        return self.along // STRIP

    @property
    def lanes(self) -> int:
        """Threads of a warp along a strip."""
        return STRIP // self.vector

    @property
    def lines(self) -> int:
        """Rows of memory that a warp copies at once."""
        return WARP // self.lanes

    @property
    def turns(self) -> int:
        """Copies of a thread along a row of memory."""
        return max(self.strips // self.warps, 1)

    @property
    def down(self) -> int:
        """Rows of memory from those copies of a thread to its next ones; a power of two."""
        return max(self.warps // self.strips, 1) * self.lines

    @property
    def copies(self) -> int:
        """Of a thread, for a tile."""
        return self.strips * (self.across // self.lines) // self.warps

    @property
    def along_bytes(self) -> int:
        """From core matrix to core matrix along what lies side by side in memory.

        Two of them are half of the banks apart: a warp writes four rows of 16 bytes to each, or two.
        """
        return self.across // CORE * CORE_BYTES + CORE_BYTES // 2

    @property
    def term_bytes(self) -> int:
        """From core matrix to core matrix along the terms: the leading offset of a descriptor."""
        return self.along_bytes if self.terms_inner else CORE_BYTES

    @property
    def result_bytes(self) -> int:
        """Likewise along the rows of a or the columns of b: the stride offset."""
        return CORE_BYTES if self.terms_inner else self.along_bytes

    @property
    def part(self) -> int:
        """Bytes of one part of a tile."""
        return self.along // CORE * self.along_bytes

    @property
    def staged(self) -> int:
        """Bytes of a tile as it is copied."""
        return COMPLEX_BYTES * self.block * self.terms


@dataclasses.dataclass(frozen=True, slots=True)
class WarpgroupGeometry(TiledProduct):
    """One config on one problem."""

    a: WarpgroupSide
    b: WarpgroupSide
    groups: int
    """Warpgroups of a block, one below the other."""
    columns: int
    dealt_to: int
    """Blocks that all tiles are dealt out to; 0 where each has one of its own."""
    scales_rows: bool
    """Whether each row of a has a power of two of its own."""
    products: int = 1
    """Of a block."""

    @classmethod
    def of(cls, problem: Cgemm, config: Config) -> WarpgroupGeometry:
        return cls(
            a=WarpgroupSide.of(problem, config, "a"),
            b=WarpgroupSide.of(problem, config, "b"),
            batch=problem.batch,
            groups=config.integer("groups"),
            columns=config.integer("columns"),
            dealt_to=config.integer("dealt_to"),
            scales_rows=problem.accuracy is Accuracy.ROWWISE,
            terms=config.integer("terms"),
            stages=config.integer("stages"),
            splits=config.integer("splits"),
            min_blocks=config.integer("min_blocks"),
        )

    @property
    def threads(self) -> int:
        return GROUP_THREADS * self.groups

    @property
    def warps(self) -> int:
        return self.threads // WARP

    @property
    def blocks(self) -> int:
        return self.dealt_to or self.a.tiles * self.b.tiles * self.splits * self.batch

    @property
    def shares(self) -> WarpgroupShares | None:
        """What each of the blocks has that all tiles are dealt out to."""
        return WarpgroupShares(self.a.tiles * self.b.tiles * self.batch, self.dealt_to) if self.dealt_to else None

    @property
    def handed_bytes(self) -> int:
        """Of sums that blocks hand on."""
        return handed_bytes(self.a.block, self.b.block, self.dealt_to)

    @property
    def parts_bytes(self) -> int:
        """Of a tile of both operands, as halves."""
        return PARTS * (self.a.part + self.b.part)

    @property
    def staged_bytes(self) -> int:
        return self.a.staged + self.b.staged

    @property
    def shared_bytes(self) -> int:
        largest = 4 * 2 * self.warps  # a float of each warp and operand
        if self.scales_rows:
            largest += 4 * BUFFERS * self.a.block  # and of each row, of the tile that comes and of the one before
        return BUFFERS * self.parts_bytes + self.stages * self.staged_bytes + largest

    @property
    def stores_pairs(self) -> bool:
        """Whether two columns are stored at once."""
        return self.b.size % PAIR == 0

    @property
    def numbers(self) -> int:
        """Real ones of a tile that a thread splits."""
        return 2 * (self.a.copies * self.a.vector + self.b.copies * self.b.vector)

    @property
    def written(self) -> int:
        """Instructions of the loop over the tiles: products, sums, and parts of numbers."""
        products = 12 * self.terms // PRODUCT_TERMS
        return products + 2 * self.columns + 7 * self.numbers
