"""Configs of `cgemm_warpgroup` that are good without any search, and where a search begins."""

from __future__ import annotations

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_choice import changed, splits_for
from warpsmith.generator.cgemm.warpgroup_geometry import GROUP_ROWS
from warpsmith.generator.cgemm.warpgroup_space import COLUMNS, GROUPS, warpgroup_space
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Value

DEFAULT_TERMS, DEFAULT_STAGES = 16, 2
"""With two blocks a multiprocessor has up to 96 KB on their way; 24 to 32 KB keep its share of the memory busy."""
DEFAULT_BLOCKS = 2
"""A multiprocessor holds so many of 64 x 128 or 128 x 64 results, and one more of smaller ones: one block multiplies
while another begins or ends."""
STARTS: tuple[dict[str, Value], ...] = (
    {"columns": 128, "groups": 2, "stages": 3, "min_blocks": 0},
    {"terms": 32, "stages": 1},
    {"columns": 64, "groups": 2, "min_blocks": 2},
    {"columns": 128, "groups": 2, "stages": 4, "min_blocks": 0},
    {"columns": 128, "groups": 2, "terms": 32, "stages": 1, "min_blocks": 0},
    {"columns": 64, "groups": 1, "min_blocks": 3},
    {"stages": 3},
)
"""What differs from the default: larger tiles, which are split less often, fewer barriers, more copies under way."""


def warpgroup_default(problem: Cgemm, device: Device) -> Config:
    """As many columns as there are, up to 128, and 64 rows, or 128 of fewer columns."""
    columns = next((each for each in COLUMNS if each >= problem.n), COLUMNS[-1])
    groups = GROUPS[-1] if problem.m > GROUP_ROWS and columns < COLUMNS[-1] else GROUPS[0]
    terms = DEFAULT_TERMS
    tiles = -(-problem.m // (GROUP_ROWS * groups)) * -(-problem.n // columns) * problem.batch
    wanted: dict[str, Value] = {
        "groups": groups,
        "columns": columns,
        "terms": terms,
        "stages": min(-(-problem.k // terms), DEFAULT_STAGES),
        "splits": splits_for(problem, tiles, device),
        "min_blocks": DEFAULT_BLOCKS + (groups == GROUPS[0] and columns < COLUMNS[-1]),
    }
    return warpgroup_space(problem, device).like(wanted) or Config.of(wanted)


def warpgroup_starts(problem: Cgemm, device: Device) -> tuple[Config, ...]:
    """The configs that are most like STARTS, each once."""
    return changed(warpgroup_space(problem, device), warpgroup_default(problem, device), STARTS)
