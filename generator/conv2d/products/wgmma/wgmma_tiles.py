"""What both sides of `conv2d_warpgroup` share: warpgroups of a block, their registers, and the model of an SM."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import (
    Arithmetic,
)
from warpsmith.generator.conv2d.products.split16.split16_model import (
    Sustained,
    TimedConfig,
)
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK
from warpsmith.generator.device import Device, Rates
from warpsmith.generator.space import Config, Space
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType, instruction_of

NAME = "conv2d_warpgroup"
PIXEL_BYTES = 2 * CHUNK
"""Bytes of one channel vector (8 fp16 numbers)."""
BARRIER_BYTES = 8
REGISTERS = {1: 248, 2: 232, 3: 160}
"""Registers per consumer thread after setmaxnreg, by the number of consumer warpgroups. A quarter of an SM has 512
registers for each lane, and a producer warp keeps COPYING_REGISTERS of them.
"""
COPYING_REGISTERS = 24
COPY_CYCLES = 64
"""Clock cycles of a bulk copy, however short: 48 copies of 512 or of 1024 bytes took 3100 clocks a stage."""
LINE = Sustained(tensor_share=0.95, step_cycles=60)
"""Rates for images on a line, in stages of 64 channels."""
WARPGROUPS = (1, 2, 3)
COLUMNS = (16, 32, 64, 96, 128, 192, 256)
OTHER_REGISTERS = 22
"""Registers per thread beside the accumulators: addresses, counters, barriers."""
WGMMA = instruction_of(TensorType.F16, WARPGROUP)
"""The instruction; that of bf16 is as fast."""
GROUP_CHANNELS = 64
"""Channels of x per consumer warpgroup: the 64 rows (M) of a wgmma product."""


def block_threads(warpgroups: int) -> int:
    """Threads per block with `warpgroups` consumer warpgroups and one producer warpgroup."""
    return 128 * (warpgroups + 1)


def fits_registers(problem: Conv2d, warpgroups: int, columns: int, device: Device) -> bool:
    """Whether a consumer thread has registers for its accumulators.

    They must fit both after setmaxnreg and, for one wgmma product, in the equal share that ptxas gives each thread of
    the launch. No block has more warpgroups than REGISTERS lists.
    """
    each = device.registers_per_multiprocessor // block_threads(warpgroups)
    at_first = columns // 2 <= each - OTHER_REGISTERS
    return at_first and registers(problem, columns) <= REGISTERS.get(warpgroups, 0)


def sums_of(problem: Conv2d) -> int:
    """Registers per accumulated sum and thread: two if sums leave the tensor cores after each stage."""
    return 2 if Arithmetic.of(problem).promotes else 1


def registers(problem: Conv2d, columns: int) -> int:
    """Fewest registers per consumer thread: accumulators (`sums_of` for each sum) and OTHER_REGISTERS."""
    return columns // 2 * sums_of(problem) + OTHER_REGISTERS


def warpgroup_tiles(problem: Conv2d, results: int, device: Device, space: Space) -> list[tuple[int, int]]:
    """Pairs of warpgroups and columns of the space that fit the registers of an SM, without more columns than the
    result needs."""
    choices = space.integers()["columns"]
    return [
        (warpgroups, columns)
        for warpgroups in WARPGROUPS
        for columns in choices
        if fits_registers(problem, warpgroups, columns, device)
        if columns <= GROUP_CHANNELS or columns < 2 * results
    ]


def stage_ns(
    rates: Rates, sustained: Sustained, stages: int, products: float, nbytes: float, copy_cycles: float
) -> float:
    """The time of one of so many stages on a multiprocessor of these rates: the longest of what its products take, the
    bytes that are read, the copies, and the wait for the next stage."""
    multiplying_ns = products / (sustained.tensor_share * rates.tensor_multiply_adds_per_ns(WGMMA))
    return max(
        multiplying_ns + rates.cycles_ns(sustained.step_cycles),
        nbytes / (sustained.l2_share * rates.l2_bytes_per_ns),
        rates.cycles_ns(copy_cycles),
        rates.cycles_ns(sustained.latency_cycles / max(stages - 1, 1)),
    )


def ranked(found: Iterable[TimedConfig]) -> list[TimedConfig]:
    return sorted(found, key=lambda each: each.ns)


def why_no_least(problem: Conv2d, space: Space, least: Config) -> str | None:
    """Why not even the config that takes least memory is legal; None if it is."""
    if space.contains(least):
        return None
    return f"its tiles and what lies beside them do not fit into {problem.workspace_limit} bytes of workspace"
