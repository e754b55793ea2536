"""Configs of `cgemm_warpgroup` that are good without any search, and where a search begins."""

from __future__ import annotations

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_choice import changed, splits_for
from warpsmith.generator.cgemm.warpgroup_geometry import GROUP_ROWS
from warpsmith.generator.cgemm.warpgroup_space import COLUMNS, GROUPS, warpgroup_space
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Value

DEFAULT_TERMS, DEFAULT_STAGES = 16, 3
"""Tiles of 32 KB where a block has 128 x 128 results: more are on their way than the 24 to 32 KB which keep a
multiprocessor's share of the memory busy."""
STARTS: tuple[dict[str, Value], ...] = (
    {"terms": 32, "stages": 1},
    {"stages": 4},
    {"columns": 64, "min_blocks": 2, "stages": 2},
    {"columns": 64, "groups": 1, "min_blocks": 3, "stages": 2},
    {"columns": 64, "min_blocks": 2, "terms": 32, "stages": 1},
    {"columns": 128, "groups": 1, "min_blocks": 2, "stages": 2},
)
"""What differs from the default: fewer barriers, more copies under way, and more blocks that take turns."""


def warpgroup_default(problem: Cgemm, device: Device) -> Config:
    """128 by 128 results a block, or what fits."""
    groups = GROUPS[-1] if problem.m > GROUP_ROWS else GROUPS[0]
    columns = next((each for each in COLUMNS if each >= problem.n), _narrowest(problem.n))
    terms = DEFAULT_TERMS
    tiles = -(-problem.m // (GROUP_ROWS * groups)) * -(-problem.n // columns) * problem.batch
    wanted: dict[str, Value] = {
        "groups": groups,
        "columns": columns,
        "terms": terms,
        "stages": min(-(-problem.k // terms), DEFAULT_STAGES),
        "splits": splits_for(problem, tiles, device),
        "min_blocks": 2 if columns <= COLUMNS[1] else 0,
    }
    return warpgroup_space(problem, device).like(wanted) or Config.of(wanted)


def warpgroup_starts(problem: Cgemm, device: Device) -> tuple[Config, ...]:
    """The configs that are most like STARTS, each once."""
    return changed(warpgroup_space(problem, device), warpgroup_default(problem, device), STARTS)


def _narrowest(size: int) -> int:
    """Columns of tiles that reach the least beyond a result that is wider than one; the widest of those."""
    return min(COLUMNS[::-1], key=lambda columns: -(-size // columns) * columns)
