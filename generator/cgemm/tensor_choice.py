"""Default config of `cgemm_tensor`, and the configs that a search begins with."""

from __future__ import annotations

from functools import lru_cache

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tensor_geometry import SLICE
from warpsmith.generator.cgemm.tensor_space import OWN, PRODUCTS, TERMS, tensor_space
from warpsmith.generator.cgemm.tiled_choice import changed, splits_for
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Value

DEFAULT_ROWS, DEFAULT_COLUMNS = 16, 32
"""Rows and columns of a warp's results by default: with so few, 128 registers per thread suffice."""
DEFAULT_WARPS = 8
"""Warps per block by default, four by two: a block's tile is 64 by 64."""
DEFAULT_TERMS, DEFAULT_STAGES, DEFAULT_BLOCKS = 16, 3, 2
"""Terms, stages and blocks per SM by default. Two blocks share an SM, four warps for each of its tensor cores: a
product waits for the one before it, and one block multiplies during the prologue or the epilogue of the other."""
STARTS: tuple[dict[str, Value], ...] = (
    {"multiplies": 3},
    {"rows": 32, "columns": 16, "block_rows": 2, "block_columns": 2, "min_blocks": 3},
    {"rows": 32, "columns": 16, "block_rows": 2, "block_columns": 4},
    {"rows": 32, "block_rows": 2, "min_blocks": 0},
    {"rows": 32, "block_rows": 2, "multiplies": 3, "min_blocks": 0},
    {"rows": 64, "columns": 16, "block_rows": 1, "block_columns": 4},
    {"rows": 32, "min_blocks": 0},
    {"terms": 32, "stages": 2},
)
"""Changes to the default that a search begins with: fewer products, smaller blocks with more registers, other warp
tiles, larger tiles, which split fewer numbers, and fewer barriers."""


@lru_cache(maxsize=256)
def tensor_default(problem: Cgemm, device: Device) -> Config:
    """16 by 32 results per warp and 64 by 64 per block, or as much as fits."""
    rows, block_rows = _shape(problem.m, DEFAULT_ROWS, 4)
    columns, block_columns = _shape(problem.n, DEFAULT_COLUMNS, 2)
    terms = next((each for each in TERMS[::-1] if each <= DEFAULT_TERMS and each < 2 * problem.k), SLICE)
    tiles = -(-problem.m // (rows * block_rows)) * -(-problem.n // (columns * block_columns))
    products = min(DEFAULT_WARPS // (block_rows * block_columns), PRODUCTS[-1]) if tiles == 1 else 1
    wanted: dict[str, Value] = {
        "rows": rows,
        "columns": columns,
        "block_rows": block_rows,
        "block_columns": block_columns,
        "terms": terms,
        "stages": min(-(-problem.k // terms), DEFAULT_STAGES),
        "slices": 1,
        "products": products,
        "splits": splits_for(problem, tiles * problem.batch, device) if products == 1 else 1,
        "multiplies": 4,
        "min_blocks": DEFAULT_BLOCKS,
    }
    return tensor_space(problem, device).like(wanted) or Config.of(wanted)


@lru_cache(maxsize=256)
def tensor_starts(problem: Cgemm, device: Device) -> tuple[Config, ...]:
    """The legal configs most like STARTS, each once."""
    return changed(tensor_space(problem, device), tensor_default(problem, device), STARTS)


def _shape(size: int, most: int, most_warps: int) -> tuple[int, int]:
    """Results of a warp along one side, and warps along it."""
    own = most if size > OWN[0] else OWN[0]
    warps = 1
    while warps < most_warps and own * warps < size:
        warps *= 2
    return own, warps
