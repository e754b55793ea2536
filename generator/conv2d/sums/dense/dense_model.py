"""Expected time of `conv2d_dense`: a launch, the loads of a thread, and what all threads load and multiply."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.space import Config

NAME = "conv2d_dense"
BEGIN_CYCLES = 1400
"""Clock cycles of the first loads from memory and of the last stores."""
STEP_CYCLES = 8
"""Clock cycles of a load of a thread's loop, whose rounds are partly in flight together."""
END_CYCLES = 6
"""Clock cycles to add up one sum of a thread with another thread's."""
RESIDENT_WARPS = 48
"""Warps of an SM at once; more take turns."""


@dataclasses.dataclass(frozen=True, slots=True)
class Threads:
    """What a config's threads do."""

    threads: int
    steps: int
    """Rounds of a thread's loop."""
    loads: int
    """Loads of a thread per round."""
    multiply_adds: int
    """Multiply-adds of a thread per round."""
    ends: int
    """Shuffles, or numbers through shared memory, per thread behind the loop."""


def dense_ns(work: Threads, problem: Conv2d, device: Device) -> float:
    """Nanoseconds that a config is expected to take."""
    rates = device.rates
    warps = -(-work.threads // 32)
    rounds = max(1.0, warps / (RESIDENT_WARPS * device.multiprocessors))
    waiting = BEGIN_CYCLES + work.steps * work.loads * STEP_CYCLES + work.ends * END_CYCLES
    each = work.steps * (work.loads * 4 + work.multiply_adds * 1.25) + work.ends * 2
    issuing = warps / device.multiprocessors * each / 4
    moving_ns = problem.bytes / rates.memory_bytes_per_ns
    return rates.launch_ns + max(rates.cycles_ns(waiting * rounds), rates.cycles_ns(issuing) + 500, moving_ns)


def best(
    configs: Iterable[Config], work_of: Callable[[Config], Threads], problem: Conv2d, device: Device
) -> Config:
    """The config that is expected to take least time; the first of equals."""
    return min(configs, key=lambda each: dense_ns(work_of(each), problem, device))
