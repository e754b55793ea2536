"""Expected time of a config of `filter1d_toeplitz`, by operation counts."""

from __future__ import annotations

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.toeplitz_channels_geometry import COLUMNS, Filter1dToeplitzChannelsGeometry
from warpsmith.generator.filter1d.toeplitz_geometry import SEGMENTS, STEP, STRIP, Filter1dToeplitzGeometry
from warpsmith.generator.space import Config

MEMORY_SHARE = 3900 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that these kernels reach."""
SHARED_BYTES_PER_CYCLE = 128
"""Bytes that an SM reads from shared memory per cycle."""
SECOND = 0.3
"""Share of the second slowest resource that does not overlap with the slowest one."""


def channels_ns(problem: Filter1d, config: Config, device: Device) -> float | None:
    """Nanoseconds of a config of `filter1d_toeplitz_channels`."""
    geometry, rates = Filter1dToeplitzChannelsGeometry.of(problem, config), device.rates
    instruction = device.tensor_instruction(geometry.split.tensor_type)
    if instruction is None:
        return None
    steps = geometry.blocks * geometry.warps * (geometry.strips + geometry.steps - 1)
    multiply_adds = steps * STRIP * COLUMNS * STEP * geometry.steps * len(geometry.products)
    per_ns = instruction.per_cycle(device.compute_capability) * device.multiprocessors * rates.cycles_per_ns
    halo = (geometry.strips + geometry.steps - 1) / geometry.strips
    moved = problem.output.nbytes + (problem.bytes - problem.output.nbytes) * halo
    memory = moved / (MEMORY_SHARE * rates.memory_bytes_per_ns)
    slowest, second = sorted((multiply_adds / max(per_ns, 1.0), memory), reverse=True)
    return rates.launch_ns + slowest + SECOND * second


def expected_ns(problem: Filter1d, config: Config, device: Device) -> float | None:
    """Nanoseconds of a config: the longest one of memory, products and shared memory, and a part of the second."""
    geometry, rates = Filter1dToeplitzGeometry.of(problem, config), device.rates
    instruction = device.tensor_instruction(geometry.split.tensor_type)
    if instruction is None:
        return None
    strips = problem.rows * geometry.row_tiles * geometry.warps * geometry.strips
    multiply_adds = strips * SEGMENTS * STRIP * STEP * geometry.steps * len(geometry.products)
    per_ns = instruction.per_cycle(device.compute_capability) * device.multiprocessors * rates.cycles_per_ns
    steps = (geometry.strips - 1 + geometry.steps) / geometry.strips
    read = strips * geometry.sample_parts * 2 * SEGMENTS * STRIP * (steps + 2)
    shared = rates.cycles_ns(read / SHARED_BYTES_PER_CYCLE / device.multiprocessors)
    memory = problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns)
    slowest, second, _ = sorted((multiply_adds / max(per_ns, 1.0), shared, memory), reverse=True)
    return rates.launch_ns + slowest + SECOND * second
