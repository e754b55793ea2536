"""Expected time of `conv2d_dense`: a launch, the loads of a thread, and what the warps of an SM do in turns."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.device import Device

NAME = "conv2d_dense"


@dataclasses.dataclass(frozen=True, slots=True)
class Threads:
    """What a config's threads do."""

    blocks: int
    threads: int
    """Threads of a block."""
    steps: int
    """Rounds of a thread's loop."""
    loads: int
    """Loads of a thread per round."""
    multiply_adds: int
    """Multiply-adds of a thread per round."""
    ends: int
    """Shuffles, or numbers through shared memory, per thread behind the loop."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cycles:
    """Clock cycles of parts of a kernel, fitted to 1,041 times of 87 passes with images of one pixel (H200).

    The root mean square of log(expected / measured) is 0.2 to 0.24. Of 13 configs they choose one that takes 1.04
    times the least time in the mean and 1.23 times at the most.
    """

    launches: float
    """Time of a kernel without a term, as a share of `Rates.launch_ns`."""
    step: float
    load: float
    end: float
    multiply_add: float
    """Cycles of a warp's instruction, in turns with those of other warps of its SM."""
    load_in_turns: float
    end_in_turns: float
    block: float
    """Cycles to start one of the blocks of an SM."""


def dense_ns(work: Threads, cycles: Cycles, problem: Conv2d, device: Device) -> float:
    """Nanoseconds that a config is expected to take."""
    rates = device.rates
    blocks = work.blocks / device.multiprocessors
    warps = blocks * work.threads / 32
    alone = work.steps * (cycles.step + work.loads * cycles.load) + work.ends * cycles.end
    each = work.multiply_adds * cycles.multiply_add + work.loads * cycles.load_in_turns
    in_turns = warps * (work.steps * each + work.ends * cycles.end_in_turns)
    moving_ns = problem.bytes / rates.memory_bytes_per_ns
    return cycles.launches * rates.launch_ns + max(rates.cycles_ns(alone + in_turns + blocks * cycles.block), moving_ns)
