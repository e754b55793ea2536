"""Configs of `cgemm_tensor` that are good without any search, and where a search begins."""

from __future__ import annotations

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tensor_geometry import SLICE
from warpsmith.generator.cgemm.tensor_space import OWN, TERMS, tensor_space
from warpsmith.generator.cgemm.tiled_choice import splits_for
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Value

DEFAULT_WARPS = 4
"""Three blocks of so many, with 32 by 32 results a warp, share a multiprocessor: one copies or stores, others multiply."""
DEFAULT_OWN, DEFAULT_TERMS, DEFAULT_STAGES = 32, 16, 3
STARTS: tuple[dict[str, Value], ...] = (
    {"multiplies": 3},
    {"block_rows": 4, "block_columns": 2},
    {"rows": 64, "block_rows": 2, "block_columns": 2},
    {"rows": 64, "block_rows": 2, "block_columns": 4},
    {"terms": 32, "stages": 2},
    {"terms": 8, "stages": 4},
)
"""What differs from the default: fewer products, the larger tiles that read less, and longer and shorter ones."""


def tensor_default(problem: Cgemm, device: Device) -> Config:
    """32 by 32 results a warp and 64 by 64 a block, or what fits."""
    (rows, block_rows), (columns, block_columns) = _shape(problem.m), _shape(problem.n)
    terms = next((each for each in TERMS[::-1] if each <= DEFAULT_TERMS and each < 2 * problem.k), SLICE)
    products = DEFAULT_WARPS // (block_rows * block_columns)
    tiles = -(-problem.m // (rows * block_rows)) * -(-problem.n // (columns * block_columns))
    one_tile = tiles == 1
    products = products if one_tile else 1
    splits = splits_for(problem, tiles * problem.batch, device) if products == 1 else 1
    wanted: dict[str, Value] = {
        "rows": rows,
        "columns": columns,
        "block_rows": block_rows,
        "block_columns": block_columns,
        "terms": terms,
        "stages": min(-(-problem.k // terms), DEFAULT_STAGES),
        "products": products,
        "splits": splits,
        "multiplies": 4,
        "min_blocks": 0,
    }
    return tensor_space(problem, device).like(wanted) or Config.of(wanted)


def tensor_starts(problem: Cgemm, device: Device) -> tuple[Config, ...]:
    """The configs that are most like STARTS, each once."""
    space, default = tensor_space(problem, device), tensor_default(problem, device)
    found = (space.like({**default.values(), **changes}) for changes in STARTS)
    return tuple(dict.fromkeys(config for config in found if config not in (None, default) and config is not None))


def _shape(size: int) -> tuple[int, int]:
    """Results of a warp along one side, and warps."""
    if size <= OWN[0]:
        return OWN[0], 1
    return DEFAULT_OWN, 1 if size <= DEFAULT_OWN else 2
