"""Tiles of one config of `cgemm_warpgroup` on one problem: the work of warpgroups, shared memory, stream-K.

Stream-K scheduling: as many persistent blocks as a device holds share all tiles evenly if rounds are uneven.

A block first computes some whole tiles of its own, one in each round, as without shares: blocks that read the same
numbers read them at the same time. The tiles of the last whole round and the leftover tiles are shared out by steps.
Each block gets an equal share of these steps: at least one tile's and less than two tiles'. A share begins and ends
within tiles. A block begins with the tile in which its share ends, and hands its sums on to the block of the next
share, which finishes that tile as its very last piece. So a tile is the sum of at most two pieces, always the same.

A block takes the number of its share when it begins. It waits only for the block of the share before, which began
earlier and hands its sums on before it waits itself. So all blocks finish, however few run at a time.

Source: Osama, Merrill, Cecka, Garland and Owens 2023, "Stream-K: Work-centric Parallel Decomposition for Dense
Matrix-Matrix Multiplication on the GPU", section 5.2 (the hybrid of two tiles).
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_geometry import COMPLEX_BYTES, PAIR, WARP, OperandTiles, TiledProduct
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned, counter_bytes

SUM_BYTES = 8
"""Bytes of a complex sum."""


@dataclasses.dataclass(frozen=True, slots=True)
class WarpgroupShares:
    """Shares of fewer `blocks` in `tiles` tiles of equally many steps."""

    tiles: int
    blocks: int

    @property
    def rounds(self) -> int:
        """Whole tiles that each block has of its own."""
        return self.tiles // self.blocks - 1

    @property
    def shared_tiles(self) -> int:
        """Tiles whose steps are shared out: those behind all blocks' own ones, fewer than two per block."""
        return self.tiles - self.rounds * self.blocks

    @property
    def counters(self) -> int:
        return counters_of(self.blocks)


def counters_of(blocks: int) -> int:
    """Number of counters: one for the shares taken, and a flag for each share whose sums are handed on."""
    return 1 + blocks


def handed_bytes(tile_rows: int, tile_columns: int, blocks: int) -> int:
    """Bytes of the sums that blocks hand on, one tile per block."""
    return SUM_BYTES * tile_rows * tile_columns * blocks


def shares_bytes(tile_rows: int, tile_columns: int, blocks: int) -> int:
    """Bytes of workspace that all shares take."""
    if blocks == 0:
        return 0
    return handed_bytes(tile_rows, tile_columns, blocks) + aligned(counter_bytes(counters_of(blocks)))


GROUP_ROWS = 64
"""Rows of a warpgroup's results: M of a wgmma instruction."""
GROUP_THREADS = 4 * WARP
PRODUCT_TERMS = 16
"""Terms of one wgmma instruction on fp16: its K."""
CORE = 8
"""Rows and columns of an fp16 core matrix, the unit in which shared memory is read."""
CORE_BYTES = 128
PARTS = 4
"""fp16 matrices per complex matrix: high and low parts of real and imaginary numbers."""
BUFFERS = 2
"""Split tiles in shared memory at once: one is multiplied while the other is made."""
STRIP = 16
"""Complex numbers side by side that a warp copies at once; its lanes cover as many rows as they can. A strip is two
whole core matrices, or their halves, of each part, so that 16 bytes of a row are copied with their neighbours in a
line."""


@dataclasses.dataclass(frozen=True, slots=True)
class WarpgroupSide(OperandTiles):
    """Tiles of one operand: `own` rows or columns belong to a warpgroup, `threads` counts the block's warpgroups."""

    warps: int
    """Warps per block."""

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
        """Rows of memory of a tile."""
        return self.block if self.terms_inner else self.terms

    @property
    def strips(self) -> int:
        """Strips along a row."""
        return self.along // STRIP

    @property
    def lanes(self) -> int:
        """Lanes of a warp along a strip."""
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
        """Rows of memory from a thread's copies to its next ones; a power of two."""
        return max(self.warps // self.strips, 1) * self.lines

    @property
    def copies(self) -> int:
        """Copies of a thread for a tile."""
        return self.strips * (self.across // self.lines) // self.warps

    @property
    def along_bytes(self) -> int:
        """Bytes from core matrix to core matrix along the numbers that lie side by side in memory.

        Neighbouring core matrices are half of the banks apart: a warp writes four rows of 16 bytes to each, or two.
        """
        return self.across // CORE * CORE_BYTES + CORE_BYTES // 2

    @property
    def term_bytes(self) -> int:
        """Bytes from core matrix to core matrix along the terms: the leading offset of a descriptor."""
        return self.along_bytes if self.terms_inner else CORE_BYTES

    @property
    def result_bytes(self) -> int:
        """Bytes from core matrix to core matrix along the rows of a or the columns of b: the stride offset."""
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
    """Geometry of one config on one problem."""

    a: WarpgroupSide
    b: WarpgroupSide
    groups: int
    """Warpgroups of a block, one below the other."""
    columns: int
    dealt_to: int
    """Persistent blocks that share all tiles (stream-K); 0 if each tile has a block of its own."""
    scales_rows: bool
    """True if each row of a has a power of two of its own."""
    products: int = 1
    """Products per block."""

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
        """Shares of the persistent blocks in all tiles; None without them."""
        return WarpgroupShares(self.a.tiles * self.b.tiles * self.batch, self.dealt_to) if self.dealt_to else None

    @property
    def handed_bytes(self) -> int:
        """Bytes of the sums that blocks hand on."""
        return handed_bytes(self.a.block, self.b.block, self.dealt_to)

    @property
    def parts_bytes(self) -> int:
        """Bytes of a tile of both operands as fp16 parts."""
        return PARTS * (self.a.part + self.b.part)

    @property
    def staged_bytes(self) -> int:
        return self.a.staged + self.b.staged

    @property
    def shared_bytes(self) -> int:
        largest = 4 * 2 * self.warps  # one float per warp and operand
        if self.scales_rows:
            largest += 4 * BUFFERS * self.a.block  # one float per row, for the next tile and for the current one
        return BUFFERS * self.parts_bytes + self.stages * self.staged_bytes + largest

    @property
    def stores_pairs(self) -> bool:
        """True if two columns are stored at once."""
        return self.b.size % PAIR == 0

    @property
    def numbers(self) -> int:
        """Real numbers of a tile that a thread splits."""
        return 2 * (self.a.copies * self.a.vector + self.b.copies * self.b.vector)

    @property
    def written(self) -> int:
        """Instructions of the loop over the tiles: products, additions, and splits of numbers."""
        products = 12 * self.terms // PRODUCT_TERMS
        return products + 2 * self.columns + 7 * self.numbers
