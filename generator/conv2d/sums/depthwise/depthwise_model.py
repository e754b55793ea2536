"""Expected time of a config of `conv2d_depthwise` for an image, by operation counts; the default is chosen by it."""

from __future__ import annotations

from warpsmith.generator.device import REFERENCE, Device

MEMORY_SHARE = 3600 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that these kernels reach (measured, H200); the best copies reach 0.85."""
L2_SHARE = 5500 / REFERENCE.l2_bytes_per_ns
"""Share of the L2 rate that gradients of weights reach, likewise."""
STORE_SHARE = 3780 / REFERENCE.l2_bytes_per_ns
"""Share of the L2 rate that results of images reach, in whole sectors. With it and IMAGE_COPY_INSTRUCTIONS the config
of 18 small planes that is expected to be fastest takes 1.11 times the best one's time in the mean, 1.35 at most, for
1.23 and 1.84 before (556 configs, H200, 2026-11-30)."""
TURN_BYTES = 128
"""Bytes that a warp's access to shared memory, or to L1, takes in one turn: four for each lane."""
SECTOR = 8
"""Floats per L2 sector; L2 takes a whole sector however few of its floats are written."""
MOST_APART = 16
"""Floats between the stores of two threads from which on the distance makes no difference. With 28 of them, 5x5 taps on
28x28 took 32.5 us on an H100; with 4 of them, 3x3 taps took 18.8.
"""
SCHEDULERS = 4
"""Warp instructions that an SM issues per cycle."""
COPY_INSTRUCTIONS = 26
"""Instructions per copied vector: its address, its bounds check, and the copy."""
IMAGE_COPY_INSTRUCTIONS = 50
"""The same where the results are images."""
WEIGHT_INSTRUCTIONS = 40
"""Instructions per copied filter row, beside one for each weight."""
STORE_INSTRUCTIONS = 5
ROUND_INSTRUCTIONS = 30
"""Instructions that could be issued while a round of the loop over tap rows waits for its first weights and pixels."""
ENOUGH_WARPS = 12
"""Warps per SM that hide each other's latencies; fewer warps issue in proportion."""
LATENCY_CYCLES = 1800
"""Clock cycles of a step: memory answers, and the block begins to use it."""


def resident_blocks(threads: int, registers: int, shared_bytes: int, device: Device) -> int:
    """Resident blocks per SM; at least 1."""
    allocated, limits = -(-registers // 8) * 8, device.limits
    return max(
        min(
            device.registers_per_multiprocessor // (allocated * threads),
            device.shared_per_multiprocessor_bytes // (shared_bytes + limits.reserved_shared_bytes),
            device.threads_per_multiprocessor // threads,
            limits.blocks_per_multiprocessor,
        ),
        1,
    )


def total_ns(
    issue: float, turns: float, steps: float, warps: int, resident: int, blocks: int, memory_ns: float, device: Device
) -> float:
    """The time of blocks of `warps` warps which issue `issue` instructions each, and use shared memory in `turns`.

    `memory_ns` is what memory and L2 take for all blocks.
    """
    a_multiprocessor = blocks / device.multiprocessors
    if a_multiprocessor <= 4 * resident:
        a_multiprocessor = float(-(-blocks // device.multiprocessors))
    full, rest = divmod(a_multiprocessor, resident)
    rates = device.rates
    crowds = full * resident / min(1.0, warps * resident / ENOUGH_WARPS)
    crowds += rest / min(1.0, warps * max(rest, 1.0) / ENOUGH_WARPS)
    issued_ns = rates.cycles_ns(crowds * warps * issue / SCHEDULERS)
    shared_ns = a_multiprocessor * warps * turns * TURN_BYTES * device.multiprocessors / rates.shared_bytes_per_ns
    waiting = max(a_multiprocessor / resident, 1.0) * steps * LATENCY_CYCLES / (1 + 0.7 * (resident - 1))
    terms = sorted((issued_ns, shared_ns, memory_ns))
    return rates.launch_ns + terms[2] + 0.3 * terms[1] + 0.1 * terms[0] + rates.cycles_ns(waiting)


def memory_ns(nbytes: float, device: Device) -> float:
    """The time that memory takes for so many bytes."""
    return nbytes / (MEMORY_SHARE * device.rates.memory_bytes_per_ns)


def l2_ns(nbytes: float, device: Device) -> float:
    """The time that L2 takes for so many bytes of results."""
    return nbytes / (STORE_SHARE * device.rates.l2_bytes_per_ns)
