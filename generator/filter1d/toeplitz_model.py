"""Expected times of the families of banded Toeplitz matrices, by operation counts."""

from __future__ import annotations

import dataclasses

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
EMPTY_SHARE, EDGE_SHARE = 0.6, 0.2
"""Shares of a tile's memory time that its empty part takes, and that a last tile takes longer which is not full. They
were fitted to 20 problems of 16 bits with 300 to 100,000 outputs (H200), which the model misses by 11% at most, but
for one: 1,200 outputs and 64 taps, 29%."""
PRODUCT_SHARE = 0.69
"""Share of the rate of mma.sync that these kernels reach."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Shares:
    """Figures of a family whose matrices pass through shared memory."""

    overlap: float
    """Exponent of the norm that adds the times of products, copies and memory."""
    products: float
    """Share of the rate of wgmma."""
    copies: float
    """Share of L2's rate that copies to shared memory reach, with the barriers between their pieces."""


_BATCH, BLOCK_CYCLES, NARROW_COPIES = _Shares(1.475, 1.0, 2770 / REFERENCE.l2_bytes_per_ns), 2217, 0.9
"""Shares of `filter1d_toeplitz_batch`, clock cycles of a block besides its products, and the exponent of the widest
copy over the copies' width. They were fitted to 75 configs for 256 to 2048 taps (H200), which they miss by 15% at most,
but for pieces of 32 samples."""
_GRADIENTS = _Shares(3.9, 0.354, 0.484)
"""Shares of `filter1d_gradients_batch`."""
GRADIENTS_BLOCK_CYCLES, GRADIENTS_STAGE_CYCLES = 9160, 353
"""Clock cycles of a block besides its products and copies, and of each group of tiles that comes at once. These five
were fitted to 94 configs of 13 problems for 150 to 4096 taps (H200), which they miss by 13% on average."""
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
    outputs = geometry.row_tiles * geometry.tile_outputs
    growth = 1.0
    if outputs > problem.result_length:
        growth += EMPTY_SHARE * (outputs / problem.result_length - 1.0) + EDGE_SHARE / geometry.row_tiles
    return _added_ns(device, geometry.split, products, growth * problem.bytes / MEMORY_SHARE, filled)


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
    found = _rows_ns(problem, geometry, geometry.load_vector, shared, _BATCH, BLOCK_CYCLES, device)
    return None if found is None else found + device.rates.launch_ns


def gradients_batch_ns(problem: Filter1d, geometry: Filter1dGradientsBatchGeometry, device: Device) -> float | None:
    """Nanoseconds of a config of `filter1d_gradients_batch`, its fold included."""
    cycles = GRADIENTS_BLOCK_CYCLES + GRADIENTS_STAGE_CYCLES * geometry.stage_count
    found = _rows_ns(problem, geometry, geometry.vector, geometry.shared_bytes, _GRADIENTS, cycles, device)
    return None if found is None else found + 2 * device.rates.launch_ns


def _rows_ns(
    problem: Filter1d,
    geometry: Filter1dToeplitzBatchGeometry | Filter1dGradientsBatchGeometry,
    vector: int,
    shared: int,
    shares: _Shares,
    block_cycles: float,
    device: Device,
) -> float | None:
    """Nanoseconds of blocks with `shared` bytes of shared memory and copies of `vector` samples; None without wgmma."""
    rates, instruction = device.rates, device.tensor_instruction(splits_of(problem)[0].tensor_type, WARPGROUP)
    if instruction is None:
        return None
    copies = problem.dtype.itemsize * geometry.copied * (8 / vector) ** NARROW_COPIES
    together = _norm(
        shares.overlap,
        geometry.products / (shares.products * max(rates.tensor_multiply_adds_per_ns(instruction), 1.0)),
        copies / (shares.copies * rates.l2_bytes_per_ns),
        problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns),
    )
    return together + _turns(geometry, shared, device) * rates.cycles_ns(block_cycles)


def _norm(exponent: float, *parts: float) -> float:
    longest = max(parts)
    return longest * float(sum((each / longest) ** exponent for each in parts) ** (1 / exponent))


def _turns(
    geometry: Filter1dToeplitzBatchGeometry | Filter1dGradientsBatchGeometry, shared: int, device: Device
) -> float:
    """Blocks that run one after the other on a multiprocessor, 1 at least."""
    own_registers = (geometry.columns // 2 + BATCH_REGISTERS) * geometry.threads
    resident = min(
        device.shared_per_multiprocessor_bytes // (shared + device.limits.reserved_shared_bytes),
        device.threads_per_multiprocessor // geometry.threads,
        device.registers_per_multiprocessor // own_registers,
    )
    return max(1.0, geometry.blocks / device.multiprocessors / max(1, resident))


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
    return first + _norm(OVERLAP, products, memory)
