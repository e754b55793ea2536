"""Expected time of a config of `conv2d_depthwise` for an image, by operation counts; the default is chosen by it."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_geometry import ImageGeometry, Stores
from warpsmith.generator.conv2d.sums.depthwise.depthwise_image_space import OTHER_REGISTERS
from warpsmith.generator.device import REFERENCE, Device

MEMORY_SHARE = 3600 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that these kernels reach (measured, H200); the best copies reach 0.85."""
L2_SHARE = 5500 / REFERENCE.l2_bytes_per_ns
"""Share of the L2 rate, likewise."""
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
    """The time that L2 takes for so many bytes."""
    return nbytes / (L2_SHARE * device.rates.l2_bytes_per_ns)


def image_ns(problem: Conv2d, g: ImageGeometry, device: Device) -> float:
    """Expected nanoseconds of one config of fprop or dgrad."""
    tile = g.tile
    row_chunks = sum(-(-each.count // min(g.tap_rows, max(each.count, 1))) for each in g.row_axis.phases)
    taps = sum(each.count for each in g.row_axis.phases) * sum(each.count for each in g.column_axis.phases)
    products = g.filters * g.rows * g.columns * taps * g.channels
    chunk_taps = min(g.tap_rows, g.row_axis.most_taps)
    rows = g.row_axis.multiple * (g.rows - 1) + chunk_taps
    column_phases = len(g.column_axis.phases)
    reads = row_chunks * column_phases * rows * -(-g.window_columns // tile.read) * g.channels
    weight_rows = sum(each.count for each in g.row_axis.phases) * column_phases * g.filters * g.channels
    weight_reads = weight_rows * (g.weight_pitch // g.weight_vector)
    loop = ROUND_INSTRUCTIONS * row_chunks * g.channels if row_chunks > len(g.row_axis.phases) else 0
    copies = g.units * g.channels * tile.plane_copies / g.threads
    weight_rows_copied = -(-g.units * g.block_filters * g.filters * g.channels * g.filter_rows // g.threads)
    weights = weight_rows_copied * g.filter_columns
    numbers = g.filters * g.rows * g.columns * g.phases / g.channel_rounds
    stores = numbers / g.store_vector
    store_turns = stores * max(min(g.columns, SECTOR) if g.stores is Stores.DIRECT else 1, g.store_vector)
    staged = 3 * numbers if g.stores is Stores.STAGED else 0.0
    copied = COPY_INSTRUCTIONS * copies + WEIGHT_INSTRUCTIONS * weight_rows_copied + weights
    issue = products + reads + weight_reads + copied + STORE_INSTRUCTIONS * stores + 3 * staged + loop + 60
    turns = reads * tile.read + weight_reads * 1.3 + (copies * tile.vector) + weights + store_turns + staged
    resident = resident_blocks(g.threads, max(g.registers + OTHER_REGISTERS, 32), g.shared_bytes, device)
    if g.min_blocks > resident:
        return float("inf")
    hidden = 0.4 if g.stages > 1 else 1.0
    # Tile rows that two bands share are read twice, mostly from L2.
    again = max(g.row_bands * tile.rows / max(g.row_axis.sources, 1), 1.0) ** 0.5
    nbytes = 4.0 * (problem.inputs[0].size * again * g.filter_blocks**0.5 + problem.output.size)
    # Neighbouring threads whose stores lie apart fill only a part of each sector of 32 bytes.
    apart = g.columns * len(g.column_axis.phases) if g.stores is Stores.DIRECT else 1
    written = 4.0 * problem.output.size * max(min(apart, MOST_APART) / g.store_vector, 1.0)
    return total_ns(
        issue * g.steps,
        turns * g.steps,
        g.steps * hidden,
        g.threads // 32,
        resident,
        g.blocks,
        max(memory_ns(nbytes, device), l2_ns(written, device)),
        device,
    )
