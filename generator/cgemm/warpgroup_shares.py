"""Tiles that are dealt out evenly to as many blocks as a device holds at once, where rounds of blocks are not even.

A block does some whole tiles of its own first, one in each round, as without shares: blocks that read the same numbers
read them at the same time. The tiles of the last whole round and those that are left over are dealt out step by step.
Each block has an equal share of their steps, one tile's or more and less than two tiles', which begins and ends within
tiles. It begins with the tile that its share ends in, and hands its sums on to the block of the next share, which
finishes that tile as its very last piece. So a tile is the sum of two pieces at most, always the same ones.

A block takes the number of its share as it begins. It waits for the block of the share before alone, which has begun
earlier and hands on before it waits itself: all blocks come to their ends, however few run at a time.

Source: Osama, Merrill, Cecka, Garland and Owens 2023, "Stream-K: Work-centric Parallel Decomposition for Dense
Matrix-Matrix Multiplication on the GPU", section 5.2 (the hybrid of two tiles).
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.progress import counter_bytes
from warpsmith.generator.steps import aligned

SUM_BYTES = 8
"""Of a complex one."""


@dataclasses.dataclass(frozen=True, slots=True)
class WarpgroupShares:
    """How `tiles` tiles of equally many steps are dealt out to fewer `blocks`."""

    tiles: int
    blocks: int

    @property
    def rounds(self) -> int:
        """Whole tiles that each block has of its own."""
        return self.tiles // self.blocks - 1

    @property
    def dealt(self) -> int:
        """Tiles whose steps are dealt out: those behind all blocks' own ones, fewer than two for each block."""
        return self.tiles - self.rounds * self.blocks

    @property
    def counters(self) -> int:
        return counters_of(self.blocks)


def counters_of(blocks: int) -> int:
    """The number of shares that are taken, and for each whether its sums are handed on."""
    return 1 + blocks


def handed_bytes(tile_rows: int, tile_columns: int, blocks: int) -> int:
    """Bytes of the sums that blocks hand on, a tile's for each."""
    return SUM_BYTES * tile_rows * tile_columns * blocks


def shares_bytes(tile_rows: int, tile_columns: int, blocks: int) -> int:
    """Bytes of workspace that shares take in all."""
    if blocks == 0:
        return 0
    return handed_bytes(tile_rows, tile_columns, blocks) + aligned(counter_bytes(counters_of(blocks)))
