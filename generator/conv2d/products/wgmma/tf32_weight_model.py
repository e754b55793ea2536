"""Expected times of the weight side of `conv2d_warpgroup_tf32`."""

from __future__ import annotations

import dataclasses
import math

from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import PointwiseWeightGeometry
from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.tensor_cores import TensorType, instruction_of

OTHER_REGISTERS = 44
"""Registers per thread beside sums and numbers: addresses, counters, barriers."""
QUARTERS = 4
"""Parts of a multiprocessor, each with its own registers and tensor cores; a warp belongs to one."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tf32WeightCosts:
    """Costs of a stage of 32 pixels, and of what comes before and after the stages."""

    begin_ns: float
    """Nanoseconds of the first launch beside its stages."""
    sum_ns: float
    """Nanoseconds of the second launch, which adds up parts of sums, beside its bytes."""
    tensor_share: float
    """Share of the rate of mma that a quarter's warps sustain."""
    step: float
    """Clock cycles for which a block waits in a stage if it is alone."""
    block: float
    """Clock cycles before a block's first stage."""
    copy_share: float
    """Share of a multiprocessor's part of the L2 rate at which stages arrive."""
    memory_share: float
    """Share of the memory rate that x and dy, each read once, reach."""
    l2_share: float
    """Share of the L2 rate that they reach, each read once for each tile of the other's channels."""
    sum_share: float
    """Share of the L2 rate at which parts of sums are written and read."""


COSTS = Tf32WeightCosts(
    begin_ns=1530,
    sum_ns=1730,
    tensor_share=0.69,
    step=542,
    block=1130,
    copy_share=0.89,
    memory_share=4410 / REFERENCE.memory_bytes_per_ns,
    l2_share=8470 / REFERENCE.l2_bytes_per_ns,
    sum_share=2290 / REFERENCE.l2_bytes_per_ns,
)
"""Fitted to 440 configs of 34 layers (H200, 2026-11-30): within 0.086 in the root mean square. The config that they
choose takes 1.025 times the best one's time in the mean, 1.31 at most.
"""


def thread_registers(rows: int, columns: int) -> int:
    """Registers per thread: sums of a warp's tile, numbers of eight pixels and of the next eight."""
    return rows * columns // 32 + (rows + columns) // 2 + OTHER_REGISTERS


def tf32_weight_ns(geometry: PointwiseWeightGeometry, device: Device, costs: Tf32WeightCosts = COSTS) -> float:
    """Nanoseconds of both launches of wgrad."""
    rates = device.rates
    own = math.ceil(geometry.blocks / device.multiprocessors)
    resident = min(own, _resident(geometry, device))
    stages_ns = geometry.split_steps * _stage_ns(geometry, resident, device, costs)
    computing_ns = math.ceil(own / resident) * (stages_ns + rates.cycles_ns(costs.block))
    x, dy = (4.0 * geometry.pixels * count for count in (geometry.all_columns, geometry.filters))
    read_once = 4.0 * geometry.source_pixels * geometry.channels + dy
    read_again = x * geometry.row_tiles + dy * geometry.column_tiles
    copying_ns = max(
        read_once / (costs.memory_share * rates.memory_bytes_per_ns),
        read_again / (costs.l2_share * rates.l2_bytes_per_ns),
    )
    summed = 8.0 * geometry.splits * geometry.weights / (costs.sum_share * rates.l2_bytes_per_ns)
    summing_ns = costs.sum_ns + summed if geometry.splits > 1 else 0.0
    return costs.begin_ns + float((computing_ns**4 + copying_ns**4) ** 0.25) + summing_ns


def _resident(geometry: PointwiseWeightGeometry, device: Device) -> int:
    """Blocks that share a multiprocessor, at least one: as many as have registers and shared memory."""
    shared = device.shared_per_multiprocessor_bytes // (geometry.shared_bytes + device.limits.reserved_shared_bytes)
    warps = device.registers_per_multiprocessor // (32 * thread_registers(geometry.rows, geometry.columns))
    return max(1, min(shared, max(warps * 32 // geometry.threads, geometry.min_blocks)))


def _stage_ns(geometry: PointwiseWeightGeometry, resident: int, device: Device, costs: Tf32WeightCosts) -> float:
    """Nanoseconds of all resident blocks for a stage. Tensor cores, waits and copies hide each other in part."""
    rates = device.rates.of_multiprocessor()
    of_a_quarter = math.ceil(resident * geometry.warps / QUARTERS)
    products = QUARTERS * of_a_quarter * geometry.rows * geometry.columns * geometry.stage_pixels
    rate = costs.tensor_share * rates.tensor_multiply_adds_per_ns(instruction_of(TensorType.TF32))
    nbytes = 4.0 * geometry.stage_pixels * (geometry.tile_rows + geometry.tile_columns)
    copied_ns = resident * nbytes / (costs.copy_share * rates.l2_bytes_per_ns)
    return math.hypot(products / rate, rates.cycles_ns(costs.step), copied_ns)
