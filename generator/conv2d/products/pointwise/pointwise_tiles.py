"""What both sides of `conv2d_pointwise` share: the tile of a block, its parameters and constraints."""

from __future__ import annotations

import dataclasses
import math

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Constraint, Parameter
from warpsmith.generator.tensor_cores import WARP, WARPGROUP, TensorType

NAME = "conv2d_pointwise"
DOWN, ACROSS = (1, 2, 3, 4, 8), (1, 2, 3, 4, 8)
ROWS, COLUMNS = (16, 32, 64, 128), (16, 32, 64)
STAGES, BLOCKS = (2, 3, 4, 6, 8), (1, 2, 3, 4)
MOST_WARPS = 16
OTHER_REGISTERS = 48
"""Registers per thread beside sums and operands of mma: addresses, counters, a copy in flight."""


@dataclasses.dataclass(frozen=True, slots=True)
class PointwiseTile:
    """The tile of a block, as tiles of its warps (mma) or warpgroups (wgmma)."""

    warps: int
    """Warps that multiply together: 1 by mma, 4 by wgmma."""
    down: int
    """Such groups of warps below each other."""
    across: int
    """Such groups side by side."""
    rows: int
    """Rows of a group."""
    columns: int

    @classmethod
    def of(cls, config: Config) -> PointwiseTile:
        return cls(*(config.integer(name) for name in TILE))

    @property
    def all_warps(self) -> int:
        """Warps of the block."""
        return self.warps * self.down * self.across

    @property
    def threads(self) -> int:
        return 32 * self.all_warps

    @property
    def all_rows(self) -> int:
        """Rows of the block's tile."""
        return self.down * self.rows

    @property
    def all_columns(self) -> int:
        return self.across * self.columns

    @property
    def reads(self) -> int:
        """Times that a block copies and splits each pixel: warpgroups below each other repeat it, warps share it."""
        return self.down if self.warps > WARP else 1

    @property
    def sums(self) -> int:
        """Sums of a thread."""
        return self.rows * self.columns // (32 * self.warps)


TILE = ("warps", "down", "across", "rows", "columns")
"""Names of the parameters of a tile."""


def tile_parameters(device: Device, rows: str, columns: str) -> tuple[Parameter, ...]:
    has_wgmma = device.tensor_instruction(TensorType.F16, WARPGROUP) is not None
    return (
        Parameter("warps", (WARP, WARPGROUP) if has_wgmma else (WARP,), "that multiply together: 1 by mma, 4 by wgmma"),
        Parameter("down", DOWN, f"of those in a block, below each other: in {rows}"),
        Parameter("across", ACROSS, f"of those in a block, side by side: in {columns}"),
        Parameter("rows", ROWS, f"{rows} of one of those"),
        Parameter("columns", COLUMNS, f"{columns} of one of those"),
    )


def tile_constraints() -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"a block has at most {MOST_WARPS} warps",
            lambda warps, down, across: warps * down * across <= MOST_WARPS,
        ),
        Constraint(
            "a product by wgmma has 64 pixels, one by mma has at most 64 channels",
            lambda warps, rows, columns: columns == 64 if warps > 1 else rows <= 64,
        ),
        Constraint(
            "a thread has at most 64 sums",
            lambda warps, rows, columns: rows * columns <= 64 * 32 * warps,
        ),
    )


def vector_of(problem: Conv2d) -> int:
    """Floats of a vector of pixels that lie side by side in both the images and the gradients: 4, 2 or 1."""
    if problem.stride != (1, 1):
        return 1
    return math.gcd(math.prod(problem.output_size), 4)
