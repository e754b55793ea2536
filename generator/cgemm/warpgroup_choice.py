"""Configs of `cgemm_warpgroup` that are good without any search, and where a search begins."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_choice import changed, splits_for
from warpsmith.generator.cgemm.tiled_geometry import parts_bytes
from warpsmith.generator.cgemm.warpgroup_shares import WarpgroupShares
from warpsmith.generator.cgemm.warpgroup_space import COLUMNS, blocks_at_once, fits_result, tiles, warpgroup_space
from warpsmith.generator.device import Device
from warpsmith.generator.rates import REFERENCE
from warpsmith.generator.space import Config, Value


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """A block's tile, and how long a multiprocessor takes for as many blocks as it holds (measured, H200)."""

    groups: int
    columns: int
    blocks: int
    """That a multiprocessor holds: one multiplies while another begins or ends."""
    begin_ns: float
    """To begin, and to store results; at the reference's clock, as `step_ns`."""
    step_ns: float
    """For each STEP_TERMS terms of a sum."""
    terms: int = 16
    stages: int = 2
    """0: loaded into registers, which leaves shared memory to the products."""
    deals: bool = False
    """Whether tiles may be dealt out by default."""

    def ns(self, problem: Cgemm, device: Device, dealt: bool) -> float:
        """The time of all rounds of blocks: places that the last one leaves empty count unless tiles are `dealt`."""
        blocks, at_once = tiles(problem, self.groups, self.columns), self.blocks * device.multiprocessors
        slower = device.rates.cycle_ratio
        if dealt:
            shares = WarpgroupShares(blocks, at_once)
            steps = -(-problem.k // STEP_TERMS)
            last = DEALT_BEGIN_NS + DEALT_STEP_NS * steps * shares.dealt / at_once
            return slower * (shares.rounds * (self.begin_ns + self.step_ns * steps) + last)
        splits = splits_for(problem, blocks, device)
        steps = -(-problem.k // (STEP_TERMS * splits))
        rounds = -(-blocks * splits // at_once)
        return slower * rounds * (self.begin_ns + self.step_ns * steps) + _sum_ns(problem, splits, device)

    def may_deal(self, problem: Cgemm, device: Device) -> bool:
        """Whether its tiles may be dealt out, and are too many for one round of blocks."""
        return self.deals and tiles(problem, self.groups, self.columns) > self.blocks * device.multiprocessors


def _sum_ns(problem: Cgemm, splits: int, device: Device) -> float:
    """The time of adding up the parts of sums, which are written, read and written again instead of written once."""
    if splits == 1:
        return 0.0
    return LAUNCH_NS + 2 * parts_bytes(problem, splits) / (MEMORY_SHARE * device.rates.memory_bytes_per_ns)


STEP_TERMS = 16
LAUNCH_NS = 3000.0
"""Time of another kernel, beside its bytes."""
MEMORY_SHARE = 4000 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate at which parts of sums move (measured, H200)."""
DEALT_BEGIN_NS, DEALT_STEP_NS = 14_000.0, 2000.0
"""Times of what is dealt out: blocks read what others have read before, or will. Five kinds of products, within 8%."""
EVEN = 1.03
"""Times that are told apart no better than that: the larger tile reads less."""
TILES = (
    Tile(groups=2, columns=128, blocks=1, begin_ns=5400, step_ns=1560, stages=0, deals=True),
    Tile(groups=2, columns=64, blocks=2, begin_ns=4300, step_ns=1870),
    Tile(groups=1, columns=128, blocks=2, begin_ns=2700, step_ns=2020),
    Tile(groups=1, columns=64, blocks=3, begin_ns=3100, step_ns=1500, stages=0),
)
"""By eight kinds of products, of 64 to 1024 rows, columns and terms: within 10%."""
NARROW = (
    Tile(groups=2, columns=32, blocks=2, begin_ns=2000, step_ns=1500),
    Tile(groups=1, columns=32, blocks=3, begin_ns=1400, step_ns=1500),
)
"""For results of 32 columns or fewer; their times are guesses that are not compared with others."""
STARTS: tuple[dict[str, Value], ...] = (
    {"groups": 1, "columns": 64, "terms": 16, "stages": 0, "min_blocks": 3},
    {"groups": 2, "columns": 128, "terms": 16, "stages": 0, "min_blocks": 0},
    {"groups": 2, "columns": 64, "terms": 16, "stages": 2, "min_blocks": 2},
    {"groups": 1, "columns": 64, "terms": 32, "stages": 0, "min_blocks": 2},
    {"groups": 2, "columns": 64, "terms": 32, "stages": 0, "min_blocks": 0},
    {"groups": 2, "columns": 128, "terms": 32, "stages": 1, "min_blocks": 0},
    {"groups": 1, "columns": 128, "terms": 16, "stages": 2, "min_blocks": 2},
    {"groups": 2, "columns": 128, "terms": 16, "stages": 3, "min_blocks": 0},
)
"""Each of TILES, and with fewer barriers or more copies under way."""
DEALT_STARTS: tuple[dict[str, Value], ...] = (
    {"groups": 2, "columns": 128, "terms": 16, "stages": 0, "min_blocks": 0, "splits": 1},
    {"groups": 1, "columns": 64, "terms": 32, "stages": 0, "min_blocks": 2, "splits": 1},
)
"""Those whose tiles are dealt out."""


def warpgroup_default(problem: Cgemm, device: Device) -> Config:
    """The tile whose rounds take least, and parts of sums where there are too few blocks."""
    known = NARROW if problem.n <= COLUMNS[0] else TILES
    times = {
        (each, dealt): each.ns(problem, device, dealt)
        for each in known
        if fits_result(problem, each.groups, each.columns)
        for dealt in ((False, True) if each.may_deal(problem, device) else (False,))
    }
    tile, dealt = next(each for each, ns in times.items() if ns <= EVEN * min(times.values()))
    wanted: dict[str, Value] = {
        "groups": tile.groups,
        "columns": tile.columns,
        "terms": tile.terms,
        "stages": min(-(-problem.k // tile.terms), tile.stages),
        "splits": 1 if dealt else splits_for(problem, tiles(problem, tile.groups, tile.columns), device),
        "min_blocks": tile.blocks if tile.blocks > 1 else 0,
        "dealt_to": tile.blocks * device.multiprocessors if dealt else 0,
    }
    return warpgroup_space(problem, device).like(wanted) or Config.of(wanted)


def warpgroup_starts(problem: Cgemm, device: Device) -> tuple[Config, ...]:
    """The configs that are most like STARTS and DEALT_STARTS, each once."""
    whole = [{**each, "dealt_to": 0} for each in STARTS]
    dealt = [{**each, "dealt_to": blocks_at_once(int(each["min_blocks"]), device)} for each in DEALT_STARTS]
    return changed(warpgroup_space(problem, device), warpgroup_default(problem, device), (*whole, *dealt))
