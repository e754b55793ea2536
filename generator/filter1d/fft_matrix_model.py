"""Expected times of `filter1d_fft_matrix`, by operation counts."""

from __future__ import annotations

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter1d.fft_matrix_geometry import INNER, Filter1dFftMatrixGeometry
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.tensor_cores import TensorType

INNER_PRODUCTS = 256
"""Real multiply-adds of the inner transforms for each complex number: four of 16 points, with complex factors."""
PRODUCT_SHARES = ((8, 0.355), (16, 0.48), (32, 0.49), (64, 0.42), (128, 0.39))
"""Shares of the rate of mma.sync that rows of outer radices up to the given one reach (H200, 49,152 rows)."""
SCALAR_FACTOR = 1.45
"""Times as long as rows take whose samples come one by one, since no vector is aligned (H200, 14,113 samples)."""
MEMORY_SHARE = 4200 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that bounds short rows."""
SPECTRUM_CYCLES, SPECTRUM_RADIX_CYCLES = 4.5, 0.163
"""Clock cycles of an SM for each complex number of a filter's spectrum, and more for each point of the radix."""


def expected_ns(problem: Filter1d, geometry: Filter1dFftMatrixGeometry, device: Device) -> float | None:
    """Nanoseconds of a config, the spectra of its filters included; None on a device without mma.sync."""
    rates, instruction = device.rates, device.tensor_instruction(TensorType.F16)
    if instruction is None:
        return None
    radix = geometry.radix
    share = next(share for most, share in PRODUCT_SHARES if radix <= most)
    products = geometry.rows * INNER * radix * (INNER_PRODUCTS + 4 * radix)
    one = device.multiprocessors * products / (share * max(rates.tensor_multiply_adds_per_ns(instruction), 1.0))
    if geometry.load_vector == 1:
        one *= SCALAR_FACTOR
    turns = max(geometry.blocks / device.multiprocessors, float(max(1, geometry.min_blocks)))
    memory = problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns)
    cycles = SPECTRUM_CYCLES + SPECTRUM_RADIX_CYCLES * radix
    spectra = rates.cycles_ns(max(1.0, problem.filters / device.multiprocessors) * INNER * radix * cycles)
    return 2 * rates.launch_ns + spectra + max(turns * one, memory)
