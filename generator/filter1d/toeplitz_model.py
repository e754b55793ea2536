"""Expected times of the families of banded Toeplitz matrices, by operation counts."""

from __future__ import annotations

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter1d.gradients_batch_geometry import Filter1dGradientsBatchGeometry
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
from warpsmith.generator.tensor_cores import WARPGROUP

MEMORY_SHARE, CHANNELS_MEMORY_SHARE = (rate / REFERENCE.memory_bytes_per_ns for rate in (4200, 3700))
"""Shares of the memory rate that `filter1d_toeplitz` and `filter1d_toeplitz_channels` reach."""
PRODUCT_SHARE = 0.69
"""Share of the rate of mma.sync that these kernels reach."""
BATCH_OVERLAP, BLOCK_CYCLES, NARROW_COPIES = 1.475, 2217, 0.9
"""The same for `filter1d_toeplitz_batch`, clock cycles of a block besides its products, and the exponent of the widest
copy over the copies' width. With COPY_SHARE these were fitted to 75 configs for 256 to 2048 taps (H200), which they
miss by 15% at most, but for pieces of 32 samples."""
COPY_SHARE = 2770 / REFERENCE.l2_bytes_per_ns
"""Share of L2's rate that copies to shared memory reach, with the barriers between their pieces."""
BATCH_REGISTERS = 44
"""Registers of a thread besides its sums."""
BAND_CYCLES = 3.7
"""Clock cycles of an SM for a word of a warp's band of taps (H200, blocks of 256 and 512 outputs)."""
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
    words = 2 * geometry.steps * geometry.tap_parts * geometry.warps * geometry.blocks / device.multiprocessors
    filled = device.rates.cycles_ns(BAND_CYCLES * words)
    return _added_ns(device, geometry.split, products, problem.bytes / MEMORY_SHARE, filled)


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
    """Nanoseconds of a config of `filter1d_toeplitz_batch`: products beside copies to shared memory and the problem's
    bytes, and what a multiprocessor's blocks take before their first and after their last product.
    """
    shared = geometry.shared_bytes + 4 * geometry.padded
    return _rows_ns(problem, geometry, geometry.load_vector, shared, device)


def gradients_batch_ns(problem: Filter1d, geometry: Filter1dGradientsBatchGeometry, device: Device) -> float | None:
    """Nanoseconds of a config of `filter1d_gradients_batch`, its fold included."""
    found = _rows_ns(problem, geometry, geometry.vector, geometry.shared_bytes, device)
    return None if found is None else found + device.rates.launch_ns


def _rows_ns(
    problem: Filter1d,
    geometry: Filter1dToeplitzBatchGeometry | Filter1dGradientsBatchGeometry,
    vector: int,
    shared: int,
    device: Device,
) -> float | None:
    split, rates = splits_of(problem)[0], device.rates
    instruction = device.tensor_instruction(split.tensor_type, WARPGROUP)
    if instruction is None:
        return None
    own_registers = (geometry.columns // 2 + BATCH_REGISTERS) * geometry.threads
    resident = min(
        device.shared_per_multiprocessor_bytes // (shared + device.limits.reserved_shared_bytes),
        device.threads_per_multiprocessor // geometry.threads,
        device.registers_per_multiprocessor // own_registers,
    )
    copies = problem.dtype.itemsize * geometry.copied * (8 / vector) ** NARROW_COPIES
    parts = (
        geometry.products / max(rates.tensor_multiply_adds_per_ns(instruction), 1.0),
        copies / (COPY_SHARE * rates.l2_bytes_per_ns),
        problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns),
    )
    turns = geometry.blocks / device.multiprocessors / max(1, resident)
    together = float(sum(each**BATCH_OVERLAP for each in parts) ** (1 / BATCH_OVERLAP))
    return rates.launch_ns + together + max(1.0, turns) * rates.cycles_ns(BLOCK_CYCLES)


def _added_ns(device: Device, split: Split, multiply_adds: float, moved: float, filled: float = 0.0) -> float | None:
    """Nanoseconds of multiply-adds on tensor cores, and `filled` ns for bands of taps, beside `moved` bytes at the full
    memory rate.
    """
    instruction, rates = device.tensor_instruction(split.tensor_type), device.rates
    if instruction is None:
        return None
    per_ns = rates.tensor_multiply_adds_per_ns(instruction)
    products = multiply_adds / (PRODUCT_SHARE * max(per_ns, 1.0)) + filled
    memory = moved / rates.memory_bytes_per_ns
    first = rates.launch_ns + rates.cycles_ns(FIRST_CYCLES)
    return first + float((products**OVERLAP + memory**OVERLAP) ** (1 / OVERLAP))
