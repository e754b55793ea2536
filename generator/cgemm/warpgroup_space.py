"""Search space of `cgemm_warpgroup`."""

from __future__ import annotations

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.tiled_space import BLOCKS_ENOUGH, MAX_GRID, SPLITS, part_constraint, part_steps
from warpsmith.generator.cgemm.warpgroup_geometry import GROUP_ROWS, GROUP_THREADS, WarpgroupGeometry
from warpsmith.generator.cgemm.warpgroup_shares import shares_bytes
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Constraint, Parameter, Space

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


def dealt_bytes(groups: int, columns: int, dealt_to: int) -> int:
    """Bytes of the workspaces that tiles shared by `dealt_to` persistent blocks take."""
    return shares_bytes(GROUP_ROWS * groups, columns, dealt_to)


def tiles(problem: Cgemm, groups: int, columns: int) -> int:
    """Tiles of all results."""
    return problem.batch * -(-problem.m // (GROUP_ROWS * groups)) * -(-problem.n // columns)
