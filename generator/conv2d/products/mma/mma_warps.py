"""How the warps of a block of `conv2d_mma` share its tile, and the registers and k-steps of a warp."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.space import Config

NAME = "conv2d_mma"
CHUNK_BYTES = 2 * CHUNK
"""Bytes of one channel vector (8 fp16 numbers): a row of an ldmatrix matrix."""
OTHER_REGISTERS = 50
"""Registers per thread beside accumulators and mma operands: addresses, counters, a copy in flight."""


@dataclasses.dataclass(frozen=True, slots=True)
class Warps:
    """The tile of a warp, and the number of warps down and across the tile of a block."""

    down: int
    across: int
    rows: int
    columns: int

    @classmethod
    def of(cls, config: Config) -> Warps:
        names = ("warps_down", "warps_across", "warp_rows", "warp_columns")
        return cls(*(config.integer(name) for name in names))

    @property
    def count(self) -> int:
        """Warps per block tile; wgrad has such a tile for each tap."""
        return self.down * self.across

    @property
    def tile_rows(self) -> int:
        """Rows (M) of the block tile."""
        return self.down * self.rows

    @property
    def tile_columns(self) -> int:
        """Columns (N) of the block tile."""
        return self.across * self.columns

    def registers(self, arithmetic: Arithmetic) -> int:
        """Approximate registers per thread: accumulators, doubled if sums leave the tensor cores, and mma operands."""
        sums = self.rows * self.columns // 32 * (2 if arithmetic.promotes else 1)
        return sums + arithmetic.parts * (self.columns // 4 + 8) + OTHER_REGISTERS


def sum_steps(arithmetic: Arithmetic, terms: int) -> int:
    """Steps of 16 terms whose sum stays in the tensor cores before it is added up in float32.

    An mma instruction truncates up to 2^-23 of its sum: for positive terms, six instructions in a row lose about 3e-7.

    Args:
        arithmetic: element type and number of parts of the operands.
        terms: terms per stage.
    """
    steps = terms // 16
    return min(4 if arithmetic.products == 1 else 2, steps) if arithmetic.promotes else steps
