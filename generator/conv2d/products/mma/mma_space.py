"""Search spaces of `conv2d_mma`."""

from __future__ import annotations

import functools
from collections.abc import Callable

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.products.mma.mma_image_geometry import ImageGeometry
from warpsmith.generator.conv2d.products.mma.mma_warps import Warps
from warpsmith.generator.conv2d.products.mma.mma_weight_geometry import WeightGeometry
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_folding import folded
from warpsmith.generator.conv2d.products.split16.split16_image_tiles import Reach, summed_and_results
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value

WARPS = (1, 2, 4)
ROWS, COLUMNS = (32, 64), (16, 32, 64)
CHANNELS, TERMS = (16, 32, 64), (32, 64, 128)
STAGES, BLOCKS = (2, 3, 4), (1, 2)
TAPS = (1, 2, 3)
SPLITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128)
MOST_WARPS = 8
"""Most warps per block; with more, a thread has too few registers for a tile that keeps the tensor cores busy."""
_LEAST: dict[str, Value] = {
    "warps_down": WARPS[0],
    "warps_across": WARPS[0],
    "warp_rows": ROWS[0],
    "warp_columns": COLUMNS[0],
    "stages": STAGES[0],
    "min_blocks": BLOCKS[0],
}
LEAST_IMAGE: dict[str, Value] = {**_LEAST, "channels": CHANNELS[0], "reach": Reach.ROW.value}
LEAST_WEIGHT: dict[str, Value] = {**_LEAST, "taps": TAPS[0], "terms": TERMS[0], "splits": SPLITS[0]}
"""The configs that take least memory. If they are illegal for a layer, all configs are."""


def image_space(problem: Conv2d, device: Device) -> Space:
    summed, results = summed_and_results(folded(problem))
    return Space(
        parameters=(
            *_warps("positions", "channels of the result"),
            Parameter("channels", CHANNELS, "that a stage sums over"),
            Parameter("reach", tuple(each.value for each in Reach), "taps whose pixels are copied at once"),
            *_stages("taps whose weights are on their way or read"),
        ),
        constraints=(
            *_tile_constraints(problem, device, results, "channels of a result"),
            Constraint(
                f"a block has at most {MOST_WARPS} warps",
                lambda warps_down, warps_across: warps_down * warps_across <= MOST_WARPS,
            ),
            _register_constraint(problem, device),
            Constraint(
                f"a stage has less than twice the {summed} channels of a sum, or {CHANNELS[0]}",
                lambda channels: channels < 2 * summed or channels == CHANNELS[0],
            ),
            Constraint(
                "a filter of one row has a reach of its row",
                lambda reach: reach == Reach.ROW or problem.weight[2] > 1,
            ),
            *_memory(problem, device),
        ),
    )


def weight_space(problem: Conv2d, device: Device) -> Space:
    layer = folded(problem)
    count, channels = layer.weight[2] * layer.weight[3], layer.group_channels
    return Space(
        parameters=(
            *_warps("channels of x", "channels of dy"),
            Parameter("taps", TAPS, "of a block, side by side"),
            Parameter("terms", TERMS, "positions that a stage sums over"),
            *_stages("of shared memory"),
            Parameter("splits", SPLITS, "parts of a sum, each of a block of its own"),
        ),
        constraints=(
            *_tile_constraints(problem, device, problem.group_filters, "channels of dy"),
            Constraint(f"a filter has {count} taps", lambda taps: taps <= count),
            Constraint(
                f"a tile has less than twice the {channels} channels of x, or {ROWS[0]}",
                lambda warps_down, warp_rows: (
                    warps_down * warp_rows < 2 * channels or (warps_down == 1 and warp_rows == ROWS[0])
                ),
            ),
            Constraint(
                f"a block has at most {MOST_WARPS} warps",
                lambda warps_down, warps_across, taps: warps_down * warps_across * taps <= MOST_WARPS,
            ),
            _register_constraint(problem, device, has_taps=True),
            _steps_constraint(problem),
            *_memory(problem, device),
        ),
    )


def _warps(rows: str, columns: str) -> tuple[Parameter, ...]:
    return (
        Parameter("warps_down", WARPS, f"of a block, below each other: in {rows}"),
        Parameter("warps_across", WARPS, f"of a block, side by side: in {columns}"),
        Parameter("warp_rows", ROWS, f"{rows} of a warp"),
        Parameter("warp_columns", COLUMNS, f"{columns} of a warp"),
    )


def _stages(what: str) -> tuple[Parameter, ...]:
    return (
        Parameter("stages", STAGES, what),
        Parameter("min_blocks", BLOCKS, "that a multiprocessor has registers and shared memory for"),
    )


def _tile_constraints(problem: Conv2d, device: Device, results: int, what: str) -> tuple[Constraint, ...]:
    arithmetic = Arithmetic.of(problem)
    most = device.thread_registers(32)
    return (
        Constraint(
            f"a tile has less than twice the {results} {what}, or {COLUMNS[0]}",
            lambda warps_across, warp_columns: (
                warps_across * warp_columns < 2 * results or (warps_across == 1 and warp_columns == COLUMNS[0])
            ),
        ),
        Constraint(
            f"a thread has at most {most} registers for the sums of its warp",
            lambda warp_rows, warp_columns: Warps(1, 1, warp_rows, warp_columns).registers(arithmetic) <= most,
        ),
    )


def _register_constraint(problem: Conv2d, device: Device, *, has_taps: bool = False) -> Constraint:
    arithmetic = Arithmetic.of(problem)
    text = f"the threads of all blocks share {device.registers_per_multiprocessor} registers of a multiprocessor"

    def fits(warps_down: int, warps_across: int, warp_rows: int, warp_columns: int, min_blocks: int) -> bool:
        warps = Warps(warps_down, warps_across, warp_rows, warp_columns)
        return warps.registers(arithmetic) <= device.thread_registers(32 * warps.count * min_blocks)

    if not has_taps:
        return Constraint(text, fits)
    return Constraint(
        text,
        lambda warps_down, warps_across, warp_rows, warp_columns, taps, min_blocks: fits(
            warps_down * taps, warps_across, warp_rows, warp_columns, min_blocks
        ),
    )


def _steps_constraint(problem: Conv2d) -> Constraint:
    @functools.cache
    def has_steps(taps: int, terms: int, splits: int) -> bool:
        values = {**LEAST_WEIGHT, "taps": taps, "terms": terms, "splits": splits}
        return WeightGeometry.of(problem, Config.of(values)).has_steps

    reads = ("taps", "terms", "splits")
    return Constraint("each part of a sum has stages of its own", has_steps, reads)


def _memory(problem: Conv2d, device: Device) -> tuple[Constraint, ...]:
    """Constraints on shared memory and on the workspace."""
    is_weight = problem.pass_ is Pass.WGRAD
    least = LEAST_WEIGHT if is_weight else LEAST_IMAGE
    tile = ("warps_down", "warps_across", "warp_rows", "warp_columns", *(("taps",) if is_weight else ()))
    stage = ("terms",) if is_weight else ("channels", "reach")
    of, limits = WeightGeometry.of if is_weight else ImageGeometry.of, device.limits

    def where(why: str, reads: tuple[str, ...], holds: Callable[[ImageGeometry | WeightGeometry], bool]) -> Constraint:
        @functools.cache  # hundreds of a model's configs agree in all that a constraint reads
        def accepts(*values: Value) -> bool:
            chosen = dict(zip(reads, values, strict=True))
            return holds(of(problem, Config.of({**least, **chosen})))

        return Constraint(why, accepts, reads)

    return (
        where(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory, and all blocks of a "
            f"multiprocessor {device.shared_per_multiprocessor_bytes}, with {limits.reserved_shared_bytes} more each",
            (*tile, *stage, "stages", "min_blocks"),
            lambda geometry: geometry.shared_bytes <= shared_bytes(device, geometry.min_blocks),
        ),
        where(
            f"halves and parts of sums take at most {problem.workspace_limit} bytes",
            (*tile, *stage, *(("splits",) if is_weight else ())),
            lambda geometry: geometry.workspace_bytes <= problem.workspace_limit,
        ),
    )


def shared_bytes(device: Device, blocks: int) -> int:
    """Most bytes of shared memory per block if `blocks` blocks share an SM."""
    share = device.shared_per_multiprocessor_bytes // blocks - device.limits.reserved_shared_bytes
    return min(device.shared_per_block_bytes, share)
