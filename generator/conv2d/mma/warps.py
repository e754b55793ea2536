"""How the warps of a block of `conv2d_mma` share its tile, and the registers and the stages that takes."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.halves.arithmetic import Arithmetic
from warpsmith.generator.conv2d.halves.halving import CHUNK
from warpsmith.generator.space import Config

NAME = "conv2d_mma"
CHUNK_BYTES = 2 * CHUNK
"""Of eight halves: a row of a matrix that is loaded at once."""
OTHER_REGISTERS = 50
"""What a thread needs beside its sums and what it multiplies: addresses, counters, a copy on its way."""


@dataclasses.dataclass(frozen=True, slots=True)
class Warps:
    """The tile of a warp, and how many warps of a block lie below and beside each other."""

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
        """Of a block."""
        return self.down * self.across

    @property
    def tile_rows(self) -> int:
        """Of a block."""
        return self.down * self.rows

    @property
    def tile_columns(self) -> int:
        """Of a block."""
        return self.across * self.columns

    def registers(self, arithmetic: Arithmetic) -> int:
        """Of a thread, about: sums, twice where they leave tensor cores after each stage, and what it multiplies."""
        sums = self.rows * self.columns // 32 * (2 if arithmetic.promotes else 1)
        return sums + arithmetic.parts * (self.columns // 4 + 8) + OTHER_REGISTERS


def sum_steps(arithmetic: Arithmetic, terms: int) -> int:
    """Of 16 terms, whose sum stays in the tensor cores before it is added up in float32, in a stage of so many terms.

    A product cuts off up to 2^-23 of its sum: of positive terms, in a row of six, about 3e-7 are lost.
    """
    steps = terms // 16
    return min(4 if arithmetic.products == 1 else 2, steps) if arithmetic.promotes else steps
