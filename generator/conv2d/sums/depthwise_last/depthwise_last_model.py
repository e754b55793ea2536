"""Expected time of a config of `conv2d_depthwise_last`, by counts of instructions and bytes."""

from __future__ import annotations

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.depthwise.depthwise_model import (
    L2_SHARE,
    MEMORY_SHARE,
    ROUND_INSTRUCTIONS,
    TURN_BYTES,
    memory_ns,
    resident_blocks,
    total_ns,
)
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_geometry import ImageGeometry, Reads
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_image_space import OTHER_REGISTERS
from warpsmith.generator.conv2d.sums.depthwise_last.depthwise_last_weight_geometry import WeightGeometry
from warpsmith.generator.device import Device
from warpsmith.generator.problem import DType

CHECK_INSTRUCTIONS = 2
"""Instructions per vector of pixels that may lie outside of the image, beside one for each 8 bytes that are zeroed
then.
"""
STAGE_INSTRUCTIONS = 14
"""Instructions per weight that is copied to shared memory."""
ROW_INSTRUCTIONS = 12
"""Instructions per row of pixels: its bounds check, its address, and the wait for it."""
OTHER_INSTRUCTIONS = 80
"""Instructions per thread to find its strip and the strip's address."""
STRIP_INSTRUCTIONS = 40
"""Instructions per strip of wgrad to find the strip and its address."""
ADD_INSTRUCTIONS = 5
"""Instructions per sum of a thread to add up the sums of a block."""
SPLIT_NS = 35.0
"""Nanoseconds per partial sum that the last kernel of wgrad reads, several of them at a time."""
WARP = 32


def load_instructions(vector: int, dtype: DType) -> int:
    """Instructions per vector of pixels until its numbers are in registers."""
    return 1 if dtype is DType.FLOAT32 else 1 + vector


def pixel_instructions(reads: Reads, vector: int, dtype: DType) -> int:
    """Instructions for all pixels."""
    checks = reads.checked * (CHECK_INSTRUCTIONS + -(-vector * dtype.itemsize // 8))
    return reads.pixels * load_instructions(vector, dtype) + checks


def load_turns(vector: int, lanes: int, itemsize: int) -> float:
    """Turns of L1 for a load of a warp: for its bytes, or for the lines that they lie in, of which it looks up two."""
    return max(WARP * vector * itemsize / TURN_BYTES, WARP / lanes / 2, 1.0)


def image_ns(problem: Conv2d, g: ImageGeometry, device: Device) -> float:
    """Expected nanoseconds of one config of fprop or dgrad."""
    reads, itemsize = g.reads, problem.dtype.itemsize
    results = g.rows * g.columns * g.phases
    rounds = -(-g.row_axis.most_taps // g.tap_rows)
    staged = g.filter_rows * g.filter_columns * g.block_channels / g.threads
    issue = (
        g.vector * reads.products
        + pixel_instructions(reads, g.vector, problem.dtype)
        + reads.rows * ROW_INSTRUCTIONS
        + reads.weights * g.vector / g.weight_vector
        + results * (3 + load_instructions(g.vector, problem.dtype))
        + staged * STAGE_INSTRUCTIONS
        + (rounds - 1) * g.phases * ROUND_INSTRUCTIONS
        + OTHER_INSTRUCTIONS
    )
    # Lanes of a warp with the same channels read the same weights, which are broadcast.
    lanes = min(g.lanes, WARP)
    weight_turns = max(lanes * g.vector * 4, g.weight_vector * 4 * WARP / 4) / TURN_BYTES
    pixel_turns = load_turns(g.vector, g.lanes, itemsize)
    turns = reads.weights * weight_turns + (reads.pixels + results) * pixel_turns
    resident = resident_blocks(g.threads, max(g.registers + OTHER_REGISTERS, 32), g.shared_bytes, device)
    if g.min_blocks > resident:
        return float("inf")
    nbytes = sum(operand.nbytes for operand in problem.operands)
    return total_ns(issue, turns, 1, g.threads // WARP, resident, g.blocks, memory_ns(nbytes, device), device)


def weight_ns(problem: Conv2d, g: WeightGeometry, device: Device) -> float:
    """Expected nanoseconds of one config of wgrad."""
    reads, itemsize = g.reads, problem.dtype.itemsize
    strip = (
        g.vector * reads.products
        + pixel_instructions(reads, g.vector, problem.dtype)
        + reads.weights * load_instructions(g.vector, problem.dtype)
        + reads.rows * ROW_INSTRUCTIONS
        + STRIP_INSTRUCTIONS
    )
    added = g.tap_rows * g.row_sums * ADD_INSTRUCTIONS + OTHER_INSTRUCTIONS
    turns = (reads.pixels + reads.weights) * load_turns(g.vector, g.lanes, itemsize)
    resident = resident_blocks(g.threads, g.registers + OTHER_REGISTERS, g.shared_bytes, device)
    if g.min_blocks > resident:
        return float("inf")
    # Blocks of other rows of taps read the same pixels, mostly from L2.
    rates = device.rates
    l2_slower = MEMORY_SHARE * rates.memory_bytes_per_ns / (L2_SHARE * rates.l2_bytes_per_ns)
    again = max(g.tap_blocks * l2_slower, 1.0)
    nbytes = sum(operand.nbytes for operand in problem.inputs) * again
    issue, all_turns = g.thread_strips * strip + added, g.thread_strips * turns
    total = total_ns(issue, all_turns, 1, g.threads // WARP, resident, g.blocks, memory_ns(nbytes, device), device)
    return total + (rates.launch_ns + g.splits * SPLIT_NS if g.splits > 1 else 0.0)
