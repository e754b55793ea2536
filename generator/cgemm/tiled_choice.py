"""Default config of `cgemm_tiled`, and the configs that a search begins with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_space import LEAST_PART, PRODUCTS, SPLITS, TERMS, tiled_space
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Space, Value

DEFAULT_THREADS = 128
"""Threads per block by default. Three such blocks with 32 accumulators per thread share an SM: one copies or stores
while the others multiply."""
DEFAULT_TERMS, DEFAULT_STAGES = 8, 3
FILLING = 2
"""Blocks per SM, below which a sum is split."""
STARTS: tuple[dict[str, Value], ...] = (
    {"multiplies": 3},
    {"rows": 8, "columns": 4, "block_rows": 16, "block_columns": 16},
    {"rows": 4, "columns": 8, "block_rows": 16, "block_columns": 8},
    {"rows": 8, "columns": 8, "block_rows": 16, "block_columns": 16},
    {"rows": 8, "columns": 6, "block_rows": 8, "block_columns": 16, "multiplies": 3},
    {"terms": 16, "stages": 2},
)
"""Changes to the default that a search begins with: fewer products, larger tiles that read less, and longer ones that
wait less."""


@lru_cache(maxsize=256)
def tiled_default(problem: Cgemm, device: Device) -> Config:
    """Eight by four results per thread and 64 by 64 per block, or as much as fits."""
    rows, block_rows = _shape(problem.m, 8, 8)
    columns, block_columns = _shape(problem.n, 4, 16)
    threads = block_rows * block_columns
    terms = next((each for each in TERMS[::-1] if each <= DEFAULT_TERMS and each < 2 * problem.k), TERMS[0])
    products = max(min(DEFAULT_THREADS // threads, PRODUCTS[-1]), 1)
    tiles = -(-problem.m // (rows * block_rows)) * -(-problem.n // (columns * block_columns))
    splits = splits_for(problem, tiles * -(-problem.batch // products), device) if products == 1 else 1
    wanted: dict[str, Value] = {
        "rows": rows,
        "columns": columns,
        "block_rows": block_rows,
        "block_columns": block_columns,
        "terms": terms,
        "stages": min(-(-problem.k // terms), DEFAULT_STAGES),
        "lanes": min(block_columns, 8),
        "products": products,
        "splits": splits,
        "multiplies": 4,
        "min_blocks": 0,
    }
    return tiled_space(problem, device).like(wanted) or Config.of(wanted)


@lru_cache(maxsize=256)
def tiled_starts(problem: Cgemm, device: Device) -> tuple[Config, ...]:
    """The legal configs most like STARTS, each once."""
    return changed(tiled_space(problem, device), tiled_default(problem, device), STARTS)


def changed(space: Space, default: Config, starts: Iterable[Mapping[str, Value]]) -> tuple[Config, ...]:
    """The legal configs most like the default with some values changed, each once."""
    found = (space.like({**default.values(), **changes}) for changes in starts)
    return tuple(dict.fromkeys(config for config in found if config is not None and config != default))


def _shape(size: int, most: int, most_threads: int) -> tuple[int, int]:
    """Results of a thread along one side, and threads along it."""
    own = next(each for each in (most, most // 2, 2, 1) if each * most_threads // 2 <= size or each == 1)
    threads = 1
    while threads < most_threads and own * threads < size:
        threads *= 2
    return own, threads


def splits_for(problem: Cgemm, blocks: int, device: Device) -> int:
    """Parts of a sum, enough for FILLING blocks per SM if possible."""
    enough = FILLING * device.multiprocessors
    able = [each for each in SPLITS if each == 1 or each * LEAST_PART <= problem.k]
    return next((each for each in able if blocks * each >= enough), able[-1])
