"""Expected times of the families of banded Toeplitz matrices, by operation counts."""

from __future__ import annotations

import math

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.toeplitz_batch_geometry import Filter1dToeplitzBatchGeometry
from warpsmith.generator.filter1d.toeplitz_channels_geometry import COLUMNS, Filter1dToeplitzChannelsGeometry
from warpsmith.generator.filter1d.toeplitz_geometry import (
    SEGMENTS,
    STEP,
    STRIP,
    Filter1dToeplitzGeometry,
    Split,
)
from warpsmith.generator.filter1d.toeplitz_rules import splits_of
from warpsmith.generator.space import Config
from warpsmith.generator.tensor_cores import WARP, WARPGROUP

MEMORY_SHARE, CHANNELS_MEMORY_SHARE = (rate / REFERENCE.memory_bytes_per_ns for rate in (4200, 3700))
"""Shares of the memory rate that `filter1d_toeplitz` and `filter1d_toeplitz_channels` reach."""
PRODUCT_SHARE = 0.69
"""Share of the rate of mma.sync that these kernels reach."""
BATCH_READS = 16
"""Columns of a product of `filter1d_toeplitz_batch` whose time its reads of samples add."""
OVERLAP = 1.9
"""Exponent of the norm that adds the times of products and memory: infinite if they overlapped fully, 1 if not."""
FIRST_CYCLES = 1700
"""Clock cycles from a block's start to its first product: its first samples and the band. These four were fitted to 15
problems of 7 to 257 taps (H200), which they miss by 16% at most."""


def expected_ns(problem: Filter1d, config: Config, device: Device) -> float | None:
    """Nanoseconds of a config of `filter1d_toeplitz`."""
    geometry = Filter1dToeplitzGeometry.of(problem, config)
    strips = problem.rows * geometry.row_tiles * geometry.warps * geometry.strips
    products = strips * SEGMENTS * STRIP * STEP * geometry.steps * len(geometry.products)
    return _added_ns(device, geometry.split, products, problem.bytes / MEMORY_SHARE)


def channels_ns(problem: Filter1d, config: Config, device: Device) -> float | None:
    """Nanoseconds of a config of `filter1d_toeplitz_channels`, whose blocks read the samples before their first windows
    once more.
    """
    geometry = Filter1dToeplitzChannelsGeometry.of(problem, config)
    steps = geometry.strips + geometry.steps - 1
    strips = geometry.blocks * geometry.warps * geometry.strips
    products = strips * STRIP * COLUMNS * STEP * geometry.steps * len(geometry.products)
    written = problem.output.nbytes
    moved = written + (problem.bytes - written) * steps / geometry.strips
    return _added_ns(device, geometry.split, products, moved / CHANNELS_MEMORY_SHARE)


def batch_ns(problem: Filter1d, geometry: Filter1dToeplitzBatchGeometry, device: Device) -> float | None:
    """Nanoseconds of a config of `filter1d_toeplitz_batch`. Blocks that fill the last turn of the multiprocessors in
    part leave the others idle, and a block alone on its multiprocessor waits for its first samples.
    """
    reserved = device.limits.reserved_shared_bytes
    shared = geometry.shared_bytes + 4 * geometry.padded + reserved
    resident = min(
        device.shared_per_multiprocessor_bytes // shared,
        device.threads_per_multiprocessor // geometry.threads,
        device.registers_per_multiprocessor // ((geometry.columns // 2 + 60) * geometry.threads),
    )
    at_once = device.multiprocessors * max(1, resident)
    turns = geometry.blocks / at_once
    idle = math.ceil(turns) / turns if turns > 1 else 1 / min(1.0, geometry.blocks / device.multiprocessors)
    shared_reads = 1 + BATCH_READS / geometry.columns
    products = geometry.products * max(1.0, idle) * shared_reads
    found = _added_ns(device, splits_of(problem)[0], products, problem.bytes / MEMORY_SHARE, WARPGROUP)
    return None if found is None else found + device.rates.cycles_ns(FIRST_CYCLES) * math.ceil(turns) / max(1, resident)


def _added_ns(
    device: Device, split: Split, multiply_adds: float, moved: float, warps: int = WARP
) -> float | None:
    """Nanoseconds of multiply-adds on tensor cores, by instructions of so many warps, beside `moved` bytes at the full
    memory rate.
    """
    instruction, rates = device.tensor_instruction(split.tensor_type, warps), device.rates
    if instruction is None:
        return None
    per_ns = rates.tensor_multiply_adds_per_ns(instruction)
    products = multiply_adds / (PRODUCT_SHARE * max(per_ns, 1.0))
    memory = moved / rates.memory_bytes_per_ns
    first = rates.launch_ns + rates.cycles_ns(FIRST_CYCLES)
    return first + float((products**OVERLAP + memory**OVERLAP) ** (1 / OVERLAP))
