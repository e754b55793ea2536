"""How long layers by products of fp16 parts take beside the products: figures that their models share."""

from __future__ import annotations

import dataclasses
import functools

from warpsmith.generator.conv2d.halves.arithmetic import scaled_images
from warpsmith.generator.conv2d.halves.maximum import samples
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.rates import REFERENCE, Rates

CLOCK_SHARE = 1.65 / REFERENCE.cycles_per_ns
"""Share of the boost clock that is left under the load of tensor cores (measured, H200: 1650 MHz)."""
TILE_CYCLES = 6000
"""Clock cycles to begin a tile and to store its results."""
L2_SHARE = 28.0 * REFERENCE.multiprocessors * REFERENCE.cycles_per_ns / REFERENCE.l2_bytes_per_ns
"""Share of the L2 rate that multiprocessors reach while all read (measured, H200: 28 bytes a cycle each)."""
SPLIT_SHARE = 3000 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate at which fp16 parts are made, some of them in L2 (measured, H200)."""
MEMORY_SHARE = 4000 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that copies reach (measured, H200)."""
LAUNCH_NS = 2000.0
"""A launch between two others (fitted together with the shares above, H200)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sustained:
    """What a kernel sustains of a multiprocessor's rates, and what it waits for, in clock cycles."""

    tensor_share: float
    """Share of the multiply-adds of the tensor cores."""
    step_cycles: float
    """Clocks for the barriers of a stage, where the stage has few products."""
    l2_share: float = L2_SHARE
    tile_cycles: float = TILE_CYCLES
    latency_cycles: float = 0.0
    """From when a stage is free to when it is full again; other full stages hide a part each."""
    begin_ns: float = 0.0
    """Time of the program beside its rounds of tiles."""
    memory: float = 0.0
    """Share of the time that all operands take from memory, which nothing hides."""


@functools.lru_cache(maxsize=64)
def busy_multiprocessor(device: Device) -> Rates:
    """The rates of one multiprocessor while the tensor cores of all are busy."""
    return device.rates.of_multiprocessor(CLOCK_SHARE)


def split_ns(nbytes: float, device: Device) -> float:
    """How long it takes to move bytes as fp16 parts are made, or sums are added up."""
    return nbytes / (SPLIT_SHARE * device.rates.memory_bytes_per_ns)


def other_ns(problem: Conv2d, parts_bytes: int, device: Device) -> float:
    """Time of the split pass, which writes `parts_bytes` of fp16 parts, and of all launches.

    It reads an operand once if its maximum is sampled, with one launch more, and twice otherwise.
    """
    sampled = [samples(operand, scaled_images(problem)) for operand in problem.inputs]
    read = sum(operand.nbytes * (1 if once else 2) for operand, once in zip(problem.inputs, sampled, strict=True))
    return split_ns(read + parts_bytes, device) + (5 + sum(sampled)) * LAUNCH_NS
