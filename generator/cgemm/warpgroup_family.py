"""`cgemm` by wgmma with each float32 split into two fp16 numbers (fp16x3): as accurate as float32 sums.

A tile of each operand is scaled by a power of two that brings its largest number to 2^14, and each number x is split:
high = half(x), low = half(x - high). The rest is below 2^-23 of x, or below 2^-39 of the tile's largest number, where
fp16 ends. Of the four products of two such sums the one of both low parts is left out.

A warpgroup multiplies while its threads split the next tile. The sums of a tile are added outside of the tensor cores,
which truncate sums where float32 rounds; within a tile small products come first. All nine pairs of ops are signs of
products, and layouts in shared memory that the instruction takes as they are.

Source: Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", sections 3.1 (sums outside the
tensor cores) and 3.3 (the product of both low parts is left out). There low parts are scaled by 2^11, which keeps
numbers of any size apart but needs separate accumulators. wgmma: PTX manual. With `rowwise` accuracy each row of a tile
of a has a power of two of its own, found by the threads that copied it, and sums are scaled back row by row.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.architectures import MAX_GRID
from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.text import CgemmText, cgemm_arguments
from warpsmith.generator.cgemm.tiled_family import (
    BLOCKS_ENOUGH,
    SPLITS,
    changed,
    part_constraint,
    part_steps,
    splits_for,
    tile_launch,
    tile_program,
)
from warpsmith.generator.cgemm.tiled_geometry import parts_bytes
from warpsmith.generator.cgemm.warpgroup_geometry import (
    GROUP_ROWS,
    GROUP_THREADS,
    WarpgroupGeometry,
    WarpgroupShares,
    shares_bytes,
)
from warpsmith.generator.device import REFERENCE, Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Pointer, Program, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.steps import PROGRESS, begin_launch, counter_bytes
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType

GROUPS = (1, 2)
COLUMNS = (32, 64, 128)
TERMS = (16, 32, 64)
STAGES = (0, 1, 2, 3, 4)
MIN_BLOCKS = (0, 2, 3, 4)
OTHER_REGISTERS = 32
"""Registers of a thread besides accumulators: addresses, counters, numbers that are split. ptxas 13.0 takes all 255
with 128 columns if it may, and 128 with 64 columns if two blocks must fit."""
LOADING_REGISTERS = 24
"""The same for tiles loaded into registers, besides the loaded numbers: nothing is split meanwhile. Of 108 configs
ptxas 13.0 spills 20 to 120 bytes in four."""


def warpgroup_space(problem: Cgemm, device: Device) -> Space:
    """Search space of `cgemm_warpgroup` for a problem on a device."""
    return Space(
        parameters=(
            Parameter("groups", GROUPS, "warpgroups of a block, 64 rows of a result each"),
            Parameter("columns", COLUMNS, "of a result, a warpgroup"),
            Parameter("terms", TERMS, "of a sum that a tile has, after which sums leave the tensor cores"),
            Parameter("stages", STAGES, "tiles that are copied at once, of each operand; 0: loaded into registers"),
            Parameter("splits", SPLITS, "parts of a sum, each of a block of its own"),
            Parameter("min_blocks", MIN_BLOCKS, "blocks a multiprocessor must hold; 0 leaves it open"),
            Parameter(
                "dealt_to",
                (0, *(blocks_at_once(each, device) for each in MIN_BLOCKS)),
                "blocks that all tiles are dealt out to; 0: each tile, or part of its sums, has one of its own",
            ),
        ),
        constraints=(
            *_tile_constraints(problem),
            *_split_constraints(problem, device),
            *_share_constraints(problem, device),
            *_device_constraints(problem, device),
        ),
    )


def _tile_constraints(problem: Cgemm) -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"a tile twice as large as a result of {problem.m}x{problem.n} has warpgroups or columns to spare",
            lambda groups, columns: fits_result(problem, groups, columns),
        ),
        Constraint(
            f"a tile has less than twice the {problem.k} terms of a sum, or {TERMS[0]}",
            lambda terms: terms < 2 * problem.k or terms == TERMS[0],
        ),
        Constraint(
            "no more tiles are copied at once than a sum goes through",
            lambda terms, stages, splits: stages <= part_steps(problem, terms, splits),
        ),
    )


def _split_constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    enough = BLOCKS_ENOUGH * device.multiprocessors
    return (
        Constraint(
            f"a sum is split only where there are fewer than {enough} blocks of {problem.batch} products without it",
            lambda groups, columns, splits: splits == 1 or tiles(problem, groups, columns) < enough,
        ),
        part_constraint(problem),
        Constraint(
            f"a grid has at most {MAX_GRID} blocks",
            lambda groups, columns, splits: tiles(problem, groups, columns) * splits <= MAX_GRID,
        ),
    )


def _share_constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    return (
        Constraint(
            f"tiles are dealt out to as many blocks as {device.multiprocessors} multiprocessors hold by min_blocks",
            lambda min_blocks, dealt_to: dealt_to in (0, blocks_at_once(min_blocks, device)),
        ),
        Constraint(
            "tiles are dealt out where they are more than blocks, and no sum is split besides",
            lambda groups, columns, splits, dealt_to: (
                dealt_to == 0 or (splits == 1 and tiles(problem, groups, columns) > dealt_to)
            ),
        ),
    )


def _device_constraints(problem: Cgemm, device: Device) -> tuple[Constraint, ...]:
    def geometry(groups: int, columns: int, terms: int, stages: int, min_blocks: int) -> WarpgroupGeometry:
        chosen = {"groups": groups, "columns": columns, "terms": terms, "stages": stages, "splits": 1}
        return WarpgroupGeometry.of(problem, Config.of({**chosen, "min_blocks": min_blocks, "dealt_to": 0}))

    def fits_registers(groups: int, columns: int, terms: int, stages: int, min_blocks: int) -> bool:
        block = geometry(groups, columns, terms, stages, min_blocks)
        left = device.thread_registers(block.threads * max(min_blocks, 1))
        return registers(columns, LOADING_REGISTERS) + block.numbers <= left

    def fits(groups: int, columns: int, terms: int, stages: int, min_blocks: int) -> bool:
        nbytes = geometry(groups, columns, terms, stages, min_blocks).shared_bytes
        most = device.shared_per_multiprocessor_bytes
        return nbytes <= device.shared_per_block_bytes and max(min_blocks, 1) * nbytes <= most

    return (
        Constraint(
            f"a multiprocessor has {device.registers_per_multiprocessor} registers: a thread needs one and a half for "
            f"each column, and {OTHER_REGISTERS} more",
            lambda groups, columns, min_blocks: (
                registers(columns) * GROUP_THREADS * groups * max(min_blocks, 1) <= device.registers_per_multiprocessor
            ),
        ),
        Constraint(
            "numbers that are loaded into registers fit there beside the sums, two of them each, and "
            f"{LOADING_REGISTERS} others",
            lambda groups, columns, terms, stages, min_blocks: (
                stages > 0 or fits_registers(groups, columns, terms, stages, min_blocks)
            ),
        ),
        Constraint(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory, a multiprocessor "
            f"{device.shared_per_multiprocessor_bytes}, with tiles as ops {problem.a} and {problem.b} have them",
            fits,
        ),
    )


def registers(columns: int, others: int = OTHER_REGISTERS) -> int:
    """Least registers of a thread: real and imaginary sums, and those of one part that a tile gives."""
    return columns + columns // 2 + others


def fits_result(problem: Cgemm, groups: int, columns: int) -> bool:
    """True if a tile has less than twice the rows and columns of a result, or the fewest of all tiles."""
    return (groups == GROUPS[0] or GROUP_ROWS * groups < 2 * problem.m) and (
        columns == COLUMNS[0] or columns < 2 * problem.n
    )


def blocks_at_once(min_blocks: int, device: Device) -> int:
    """Blocks that all SMs hold at `min_blocks` per SM, or at one if that is 0."""
    return max(min_blocks, 1) * device.multiprocessors


def stream_k_bytes(groups: int, columns: int, dealt_to: int) -> int:
    """Bytes of the workspaces that tiles shared by `dealt_to` persistent blocks take."""
    return shares_bytes(GROUP_ROWS * groups, columns, dealt_to)


def tiles(problem: Cgemm, groups: int, columns: int) -> int:
    """Tiles of all results."""
    return problem.batch * -(-problem.m // (GROUP_ROWS * groups)) * -(-problem.n // columns)


@dataclasses.dataclass(frozen=True, slots=True)
class WarpgroupTile:
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
    may_be_shared: bool = False
    """Whether the default may schedule these tiles as stream-K."""

    def ns(self, problem: Cgemm, device: Device, is_stream_k: bool) -> float:
        """Nanoseconds of all rounds of blocks. A last round that is not full counts whole without stream-K."""
        blocks, at_once = tiles(problem, self.groups, self.columns), self.blocks * device.multiprocessors
        slower = device.rates.cycle_ratio
        if is_stream_k:
            shares = WarpgroupShares(blocks, at_once)
            steps = -(-problem.k // STEP_TERMS)
            last = STREAM_K_BEGIN_NS + STREAM_K_STEP_NS * steps * shares.shared_tiles / at_once
            return slower * (shares.rounds * (self.begin_ns + self.step_ns * steps) + last)
        splits = splits_for(problem, blocks, device)
        steps = -(-problem.k // (STEP_TERMS * splits))
        rounds = -(-blocks * splits // at_once)
        return slower * rounds * (self.begin_ns + self.step_ns * steps) + _sum_ns(problem, splits, device)

    def takes_stream_k(self, problem: Cgemm, device: Device) -> bool:
        """True if stream-K may schedule the tiles, and they are too many for one round of blocks."""
        return self.may_be_shared and tiles(problem, self.groups, self.columns) > self.blocks * device.multiprocessors


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
STREAM_K_BEGIN_NS, STREAM_K_STEP_NS = 14_000.0, 2000.0
"""Nanoseconds to begin a stream-K share, and per STEP_TERMS terms of it: blocks read data that other blocks read at
other times. Five kinds of products, within 8%."""
EVEN = 1.03
"""Ratio up to which two modelled times are a tie, which the larger tile wins: it reads less."""
TILES = (
    WarpgroupTile(groups=2, columns=128, blocks=1, begin_ns=5400, step_ns=1560, stages=0, may_be_shared=True),
    WarpgroupTile(groups=2, columns=64, blocks=2, begin_ns=4300, step_ns=1870),
    WarpgroupTile(groups=1, columns=128, blocks=2, begin_ns=2700, step_ns=2020),
    WarpgroupTile(groups=1, columns=64, blocks=3, begin_ns=3100, step_ns=1500, stages=0),
)
"""Tiles with times measured on eight kinds of products, with M, N and K of 64 to 1024: within 10%."""
NARROW = (
    WarpgroupTile(groups=2, columns=32, blocks=2, begin_ns=2000, step_ns=1500),
    WarpgroupTile(groups=1, columns=32, blocks=3, begin_ns=1400, step_ns=1500),
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
STREAM_K_STARTS: tuple[dict[str, Value], ...] = (
    {"groups": 2, "columns": 128, "terms": 16, "stages": 0, "min_blocks": 0, "splits": 1},
    {"groups": 1, "columns": 64, "terms": 32, "stages": 0, "min_blocks": 2, "splits": 1},
)
"""Start configs with stream-K scheduling."""


def warpgroup_default(problem: Cgemm, device: Device) -> Config:
    """The config with the fastest tile by the model; K is split if there are too few blocks."""
    known = NARROW if problem.n <= COLUMNS[0] else TILES
    times = {
        (each, is_stream_k): each.ns(problem, device, is_stream_k)
        for each in known
        if fits_result(problem, each.groups, each.columns)
        for is_stream_k in ((False, True) if each.takes_stream_k(problem, device) else (False,))
    }
    tile, is_stream_k = next(each for each, ns in times.items() if ns <= EVEN * min(times.values()))
    wanted: dict[str, Value] = {
        "groups": tile.groups,
        "columns": tile.columns,
        "terms": tile.terms,
        "stages": min(-(-problem.k // tile.terms), tile.stages),
        "splits": 1 if is_stream_k else splits_for(problem, tiles(problem, tile.groups, tile.columns), device),
        "min_blocks": tile.blocks if tile.blocks > 1 else 0,
        "dealt_to": tile.blocks * device.multiprocessors if is_stream_k else 0,
    }
    return warpgroup_space(problem, device).like(wanted) or Config.of(wanted)


def warpgroup_starts(problem: Cgemm, device: Device) -> tuple[Config, ...]:
    """The legal configs nearest to STARTS and STREAM_K_STARTS, each once."""
    whole = [{**each, "dealt_to": 0} for each in STARTS]
    shared = [{**each, "dealt_to": blocks_at_once(int(each["min_blocks"]), device)} for each in STREAM_K_STARTS]
    return changed(warpgroup_space(problem, device), warpgroup_default(problem, device), (*whole, *shared))


HANDED = "partials"
"""Name of the workspace for sums that a block hands on to another one."""
LIKELY_SIZE, LIKELY_TERMS = 48, 16
"""Rows and columns, and terms, from which on its tiles are full enough to win."""


class CgemmWarpgroup(Family[Cgemm]):
    """`cgemm` by wgmma instructions, with three fp16 products for each float32 product."""

    name = "cgemm_warpgroup"

    def why_not(self, problem: Cgemm, device: Device) -> str | None:
        if (why_not := device.why_no_tensor_instruction(TensorType.F16, WARPGROUP)) is not None:
            return why_not
        if problem.accuracy is Accuracy.ELEMENTWISE:
            return 'splits numbers relative to the largest of a tile: needs accuracy="normwise" or "rowwise"'
        if problem.accuracy is Accuracy.ROWWISE and problem.a.transposes:
            return "scales rows by themselves where their terms lie side by side: takes a as it is"
        return None

    def is_likely(self, problem: Cgemm, device: Device) -> bool:
        return device.kind is DeviceKind.CUDA and min(problem.m, problem.n) >= LIKELY_SIZE and problem.k >= LIKELY_TERMS

    def space(self, problem: Cgemm, device: Device) -> Space:
        return warpgroup_space(problem, device)

    def default(self, problem: Cgemm, device: Device) -> Config:
        return warpgroup_default(problem, device)

    def starts(self, problem: Cgemm, device: Device) -> tuple[Config, ...]:
        return warpgroup_starts(problem, device)

    def unrolled(self, problem: Cgemm, config: Config) -> int:
        return WarpgroupGeometry.of(problem, config).written

    def program(self, problem: Cgemm, config: Config) -> Program:
        geometry = WarpgroupGeometry.of(problem, config)
        source = render("cgemm/warpgroup.cu.jinja", p=CgemmText.of(problem), g=geometry, config=config.key())
        if geometry.shares is not None:
            return _stream_k_program(problem, config, geometry, geometry.shares, source)
        return tile_program(self.name, problem, config, geometry, source)


def _stream_k_program(
    problem: Cgemm, config: Config, geometry: WarpgroupGeometry, shares: WarpgroupShares, source: str
) -> Program:
    """Kernel of persistent blocks that share all tiles (stream-K), behind one that sets their counters to zero."""
    family = CgemmWarpgroup.name
    handed = Workspace(HANDED, geometry.handed_bytes)
    progress = Workspace(PROGRESS, counter_bytes(shares.counters))
    arguments = (*cgemm_arguments(problem), Pointer(HANDED), Pointer(PROGRESS))
    launches = (begin_launch(family, geometry.threads), tile_launch(family, geometry, arguments))
    return Program.of_source(family, config, source, launches, (handed, progress))
