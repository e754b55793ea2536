"""What both sides of `conv2d_mma` share: the warps of a block, constraints and the model of an SM."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import (
    Arithmetic,
)
from warpsmith.generator.conv2d.products.split16.split16_model import (
    L2_SHARE,
    TILE_CYCLES,
    busy_multiprocessor,
)
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.device import Device, Rates
from warpsmith.generator.space import Config, Constraint, Parameter, Space, Value
from warpsmith.generator.tensor_cores import TensorType, instruction_of

NAME = "conv2d_mma"
CHUNK_BYTES = 2 * CHUNK
"""Bytes of one channel vector (8 fp16 numbers): a row of an ldmatrix matrix."""
OTHER_REGISTERS = 50
"""Registers per thread beside accumulators and mma operands: addresses, counters, a copy in flight."""
WARPS = (1, 2, 4)
ROWS, COLUMNS = (32, 64), (16, 32, 64)
STAGES, BLOCKS = (2, 3, 4), (1, 2)
MOST_WARPS = 8
"""Most warps per block; with more, a thread has too few registers for a tile that keeps the tensor cores busy."""
LEAST: dict[str, Value] = {
    "warps_down": WARPS[0],
    "warps_across": WARPS[0],
    "warp_rows": ROWS[0],
    "warp_columns": COLUMNS[0],
    "stages": STAGES[0],
    "min_blocks": BLOCKS[0],
}
MMA = instruction_of(TensorType.F16)
"""The instruction; that of bf16 is as fast."""
TENSOR_SHARE = 0.75
"""Share of the instruction's rate that a kernel with enough warps sustains: with 0.85 the model was 1.02 to 1.25 times
below ten of 12 times of first and strided layers on an H100 (2026-11-25)."""
ADDED_SHARE = 2.0
"""Sums that leave the tensor cores, for each float32 multiply-add: other warps multiply meanwhile."""
WARPS_NEEDED = 8
"""Warps per SM, two for each of its tensor cores: one loads while the other multiplies."""
STEP_CYCLES = 80
"""Clock cycles for the barrier of a stage, and to find what is copied next."""
WARP_TILES = (
    *((2, 4, 64, 32), (4, 2, 64, 32), (4, 2, 32, 64), (2, 4, 64, 64), (4, 2, 64, 64)),  # 8 warps
    *((2, 2, 64, 32), (2, 2, 32, 32), (4, 1, 32, 32), (4, 1, 64, 64), (2, 2, 64, 64), (4, 1, 32, 16)),
    *((2, 1, 64, 32), (2, 1, 32, 32), (1, 2, 64, 32), (1, 2, 32, 32), (1, 4, 32, 16), (1, 1, 32, 32), (1, 1, 32, 16)),
    *((4, 1, 64, 16), (2, 1, 64, 16), (2, 1, 32, 16)),  # for few channels
)
"""Candidate tiles: warps down and across a block, rows and columns of a warp."""
TILE = ("warps_down", "warps_across", "warp_rows", "warp_columns")
"""Names of the parameters of a warp tile."""


@dataclasses.dataclass(frozen=True, slots=True)
class MmaWarps:
    """The tile of a warp, and the number of warps down and across the tile of a block."""

    down: int
    across: int
    rows: int
    columns: int

    @classmethod
    def of(cls, config: Config) -> MmaWarps:
        return cls(*(config.integer(name) for name in TILE))

    @property
    def count(self) -> int:
        """Warps per block tile; wgrad has such a tile for each tap."""
        return self.down * self.across

    @property
    def tile_rows(self) -> int:
        """Rows (M) of the block tile."""
        return self.down * self.rows

    @property
    def tile_columns(self) -> int:
        """Columns (N) of the block tile."""
        return self.across * self.columns

    def registers(self, arithmetic: Arithmetic) -> int:
        """Approximate registers per thread: accumulators, doubled if sums leave the tensor cores, and mma operands."""
        sums = self.rows * self.columns // 32 * (2 if arithmetic.promotes else 1)
        return sums + arithmetic.parts * (self.columns // 4 + 8) + OTHER_REGISTERS


def sum_steps(arithmetic: Arithmetic, tile_k: int) -> int:
    """Steps of 16 terms whose sum stays in the tensor cores before it is added up in float32.

    An mma instruction truncates up to 2^-23 of its sum: for positive terms, six instructions in a row lose about 3e-7.

    Args:
        arithmetic: element type and number of parts of the operands.
        tile_k: K per stage.
    """
    steps = tile_k // 16
    return min(4 if arithmetic.products == 1 else 2, steps) if arithmetic.promotes else steps


class MemoryGeometry(Protocol):
    """What constraints on memory read of a geometry."""

    @property
    def min_blocks(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...
    @property
    def workspace_bytes(self) -> int: ...


def warp_parameters(rows: str, columns: str) -> tuple[Parameter, ...]:
    return (
        Parameter("warps_down", WARPS, f"of a block, below each other: in {rows}"),
        Parameter("warps_across", WARPS, f"of a block, side by side: in {columns}"),
        Parameter("warp_rows", ROWS, f"{rows} of a warp"),
        Parameter("warp_columns", COLUMNS, f"{columns} of a warp"),
    )


def stage_parameters(what: str) -> tuple[Parameter, ...]:
    return (
        Parameter("stages", STAGES, what),
        Parameter("min_blocks", BLOCKS, "that a multiprocessor has registers and shared memory for"),
    )


def tile_constraints(problem: Conv2d, device: Device, results: int, what: str) -> tuple[Constraint, ...]:
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
            lambda warp_rows, warp_columns: MmaWarps(1, 1, warp_rows, warp_columns).registers(arithmetic) <= most,
        ),
    )


def register_constraint(problem: Conv2d, device: Device, *, has_taps: bool = False) -> Constraint:
    arithmetic = Arithmetic.of(problem)
    text = f"the threads of all blocks share {device.registers_per_multiprocessor} registers of a multiprocessor"

    def fits(warps_down: int, warps_across: int, warp_rows: int, warp_columns: int, min_blocks: int) -> bool:
        warps = MmaWarps(warps_down, warps_across, warp_rows, warp_columns)
        return warps.registers(arithmetic) <= device.thread_registers(32 * warps.count * min_blocks)

    if not has_taps:
        return Constraint(text, fits)
    return Constraint(
        text,
        lambda warps_down, warps_across, warp_rows, warp_columns, taps, min_blocks: fits(
            warps_down * taps, warps_across, warp_rows, warp_columns, min_blocks
        ),
    )


def memory_constraints(
    problem: Conv2d,
    device: Device,
    geometry: Callable[[Config], MemoryGeometry],
    least: Mapping[str, Value],
    tile: tuple[str, ...],
    parts: tuple[str, ...] = (),
) -> tuple[Constraint, ...]:
    """Constraints on shared memory and on the workspace.

    Args:
        problem, device: layer and GPU.
        geometry: the geometry of a config.
        least: the config that takes least memory.
        tile: parameters of a tile and its stages.
        parts: parameters on which the workspace depends, too.
    """
    limits = device.limits

    def where(why: str, reads: tuple[str, ...], holds: Callable[[MemoryGeometry], bool]) -> Constraint:
        @functools.cache  # hundreds of a model's configs agree in all that a constraint reads
        def accepts(*values: Value) -> bool:
            return holds(geometry(Config.of({**least, **dict(zip(reads, values, strict=True))})))

        return Constraint(why, accepts, reads)

    return (
        where(
            f"a block has at most {device.shared_per_block_bytes} bytes of shared memory, and all blocks of a "
            f"multiprocessor {device.shared_per_multiprocessor_bytes}, with {limits.reserved_shared_bytes} more each",
            (*tile, "stages", "min_blocks"),
            lambda geometry: geometry.shared_bytes <= shared_bytes(device, geometry.min_blocks),
        ),
        where(
            f"halves and parts of sums take at most {problem.workspace_limit} bytes",
            (*tile, *parts),
            lambda geometry: geometry.workspace_bytes <= problem.workspace_limit,
        ),
    )


def shared_bytes(device: Device, blocks: int) -> int:
    """Most bytes of shared memory per block if `blocks` blocks share an SM."""
    share = device.shared_per_multiprocessor_bytes // blocks - device.limits.reserved_shared_bytes
    return min(device.shared_per_block_bytes, share)


def stage_ns(arithmetic: Arithmetic, warps: MmaWarps, taps: int, depth: int, nbytes: float, rates: Rates) -> float:
    """Nanoseconds of a stage that sums over `depth` terms: the slowest of tensor cores, shared memory and L2."""
    count = warps.count * taps
    products = arithmetic.products * warps.rows * warps.columns * depth * count
    multiplying_ns = products / rates.tensor_multiply_adds_per_ns(MMA)
    sums = depth // (16 * sum_steps(arithmetic, depth)) if arithmetic.promotes else 0
    adding_ns = sums * warps.rows * warps.columns * count / (ADDED_SHARE * rates.multiply_adds_per_ns)
    loaded = arithmetic.parts * 2 * (warps.rows + warps.columns) * depth * count
    return max(
        (multiplying_ns + adding_ns) / TENSOR_SHARE,
        (loaded + nbytes) / rates.shared_bytes_per_ns,
        nbytes / (L2_SHARE * rates.l2_bytes_per_ns),
    )


def block_ns(
    blocks: int,
    steps: float,
    step_ns: float,
    warps: int,
    together: int,
    device: Device,
    tile_cycles: float = TILE_CYCLES,
) -> float:
    """Nanoseconds of an SM for its share of the blocks, `together` of which are resident at once."""
    own = -(-blocks // device.multiprocessors)
    rounds = -(-own // together)
    idle = max(1.0, WARPS_NEEDED / (warps * min(own, together)))
    begin_ns = busy_multiprocessor(device).cycles_ns(steps * STEP_CYCLES + tile_cycles)
    return own * steps * step_ns * idle + rounds * begin_ns


def warp_tiles() -> Iterator[dict[str, Value]]:
    for sizes in WARP_TILES:
        tile: dict[str, Value] = dict(zip(TILE, sizes, strict=True))
        for blocks in (1, 2):
            yield {**tile, "min_blocks": blocks}


def most_stages(space: Space, chosen: dict[str, Value]) -> Config | None:
    """The config with the most stages that fit; None if even two stages, which take least memory, do not fit."""
    values = {**chosen, "stages": 2}
    if not space.contains(Config.of(values)):
        return None
    more = ({**values, "stages": stages} for stages in (4, 3))
    return Config.of(next((each for each in more if space.allows(each, ("stages",))), values))


def why_no_least(problem: Conv2d, space: Space, least: Config) -> str | None:
    """Why not even the config that takes least memory is legal; None if it is."""
    if space.contains(least):
        return None
    return f"its tiles and the halves that it writes do not fit into {problem.workspace_limit} bytes of workspace"
