"""Expected time of a config of `filter1d_registers`, by operation counts; the default is chosen by it."""

from __future__ import annotations

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.registers_geometry import Exchange, Filter1dRegistersGeometry, MemoryPath, parts_of
from warpsmith.generator.filter1d.text import Weights
from warpsmith.generator.space import Config

MEMORY_SHARE = 4100 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that these kernels reach."""
SCHEDULERS = 4
"""Warp instructions that an SM issues per cycle."""
ISSUE_SHARE = 0.93
"""Share of the issue slots that are used while a block computes."""
WARP = 32
BLOCK_CYCLES = 900
"""Clock cycles from a block's first load to its first multiply-add."""
SECOND = 0.15
"""Share of the second slowest resource that does not overlap with the slowest one."""


def expected_ns(problem: Filter1d, config: Config, device: Device) -> float:
    """Nanoseconds of a config: the longer one of memory and instructions, and a part of the other."""
    geometry, weights = Filter1dRegistersGeometry.of(problem, config), Weights.of(config)
    threads, parts = geometry.columns * geometry.rows, parts_of(problem)
    warps = -(-threads // WARP)
    multiply_adds = problem.tap_multiply_adds * problem.taps * geometry.outputs
    window = -(-geometry.window // geometry.lanes)
    if geometry.turns:
        window = -(-(geometry.ahead + problem.taps) // geometry.lanes)
    wide = geometry.load_vector * problem.dtype.itemsize
    is_tiled = geometry.path is MemoryPath.SHARED
    # Vector loads of a window from global memory that lie apart take several turns of L1.
    spread = geometry.outputs * problem.down * problem.dtype.itemsize / wide
    accesses = window * (1 if is_tiled else min(spread, 8.0) * wide / 16)
    unpacking = 0 if problem.dtype.itemsize >= 4 else geometry.load_vector
    staging = (1 + unpacking + 6 + 2) * geometry.tile / geometry.load_vector / geometry.columns if is_tiled else 0.0
    taps = problem.taps / 4 if weights is Weights.SHARED else problem.taps if geometry.turns else 0
    is_exchanged = config.text("exchange") == Exchange.SHARED
    stores = geometry.outputs / geometry.store_vector * (6 if is_exchanged else 4)
    apart = geometry.outputs > geometry.store_vector and not is_exchanged
    issue = multiply_adds + 2 * window + window * (0 if is_tiled else unpacking) + staging + taps + stores + 30
    blocks = geometry.blocks
    resident = max(1, device.threads_per_multiprocessor // 2 // threads)
    a_multiprocessor = max(1.0, blocks / device.multiprocessors)
    rates = device.rates
    issued = rates.cycles_ns(a_multiprocessor * warps * issue / SCHEDULERS / ISSUE_SHARE)
    shared = rates.cycles_ns(a_multiprocessor * warps * accesses * 4 * (parts if not is_tiled else 1))
    written = problem.output.nbytes * (1.5 if apart else 1.0)
    memory = (problem.bytes - problem.output.nbytes + written) / (MEMORY_SHARE * rates.memory_bytes_per_ns)
    waiting = rates.cycles_ns(BLOCK_CYCLES * max(1.0, a_multiprocessor / resident) / (1 + 0.7 * (resident - 1)))
    slowest, *others = sorted((issued, shared, memory), reverse=True)
    return rates.launch_ns + waiting + slowest + SECOND * others[0]
