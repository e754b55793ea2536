"""Stream-K scheduling: as many persistent blocks as a device holds share all tiles evenly if rounds are uneven.

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

from warpsmith.generator.progress import counter_bytes
from warpsmith.generator.steps import aligned

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
    def dealt(self) -> int:
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
