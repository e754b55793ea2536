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
    """Tile of a block, and the measured times of an SM that runs as many blocks as it holds (H200)."""

    groups: int
    columns: int
    blocks: int
    """Blocks that an SM holds at once: one multiplies while another begins or ends."""
    begin_ns: float
    """Nanoseconds to begin a block and to store its results, at the reference's clock, like `step_ns`."""
    step_ns: float
    """Nanoseconds for STEP_TERMS terms of the sum over K."""
    terms: int = 16
    stages: int = 2
    """Stages in shared memory; 0: tiles are loaded into registers, which leaves shared memory to the products."""
    deals: bool = False
    """Whether the default may schedule these tiles as stream-K."""

    def ns(self, problem: Cgemm, device: Device, dealt: bool) -> float:
        """Nanoseconds of all rounds of blocks. A last round that is not full counts whole unless tiles are `dealt`
        (stream-K).
        """
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
        """True if stream-K may schedule the tiles, and they are too many for one round of blocks."""
        return self.deals and tiles(problem, self.groups, self.columns) > self.blocks * device.multiprocessors


def _sum_ns(problem: Cgemm, splits: int, device: Device) -> float:
    """Nanoseconds to add up the partial sums of split-K, which are written, read and written again."""
    if splits == 1:
        return 0.0
    return LAUNCH_NS + 2 * parts_bytes(problem, splits) / (MEMORY_SHARE * device.rates.memory_bytes_per_ns)


STEP_TERMS = 16
LAUNCH_NS = 3000.0
"""Nanoseconds of the kernel that adds up partial sums, beside its bytes."""
MEMORY_SHARE = 4000 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate at which partial sums move (measured, H200)."""
DEALT_BEGIN_NS, DEALT_STEP_NS = 14_000.0, 2000.0
"""Nanoseconds to begin a stream-K share, and per STEP_TERMS terms of it: blocks read data that other blocks read at
other times. Five kinds of products, within 8%."""
EVEN = 1.03
"""Ratio up to which two modelled times are a tie, which the larger tile wins: it reads less."""
TILES = (
    Tile(groups=2, columns=128, blocks=1, begin_ns=5400, step_ns=1560, stages=0, deals=True),
    Tile(groups=2, columns=64, blocks=2, begin_ns=4300, step_ns=1870),
    Tile(groups=1, columns=128, blocks=2, begin_ns=2700, step_ns=2020),
    Tile(groups=1, columns=64, blocks=3, begin_ns=3100, step_ns=1500, stages=0),
)
"""Tiles with times measured on eight kinds of products, with M, N and K of 64 to 1024: within 10%."""
NARROW = (
    Tile(groups=2, columns=32, blocks=2, begin_ns=2000, step_ns=1500),
    Tile(groups=1, columns=32, blocks=3, begin_ns=1400, step_ns=1500),
)
"""Tiles for results of 32 columns or fewer. Their times are guesses, which are compared with each other alone."""
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
"""Start configs: TILES, and variants with fewer barriers or more copies in flight."""
DEALT_STARTS: tuple[dict[str, Value], ...] = (
    {"groups": 2, "columns": 128, "terms": 16, "stages": 0, "min_blocks": 0, "splits": 1},
    {"groups": 1, "columns": 64, "terms": 32, "stages": 0, "min_blocks": 2, "splits": 1},
)
"""Start configs with stream-K scheduling."""


def warpgroup_default(problem: Cgemm, device: Device) -> Config:
    """The config with the fastest tile by the model; K is split if there are too few blocks."""
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
    """The legal configs nearest to STARTS and DEALT_STARTS, each once."""
    whole = [{**each, "dealt_to": 0} for each in STARTS]
    dealt = [{**each, "dealt_to": blocks_at_once(int(each["min_blocks"]), device)} for each in DEALT_STARTS]
    return changed(warpgroup_space(problem, device), warpgroup_default(problem, device), (*whole, *dealt))
