"""Times of layers with split fp16 operands beside the products, and configs with their expected times."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_maximum import samples
from warpsmith.generator.device import REFERENCE, Device, Rates
from warpsmith.generator.space import Config, Space

CLOCK_SHARE = 1.65 / REFERENCE.cycles_per_ns
"""Share of the boost clock that is left under the load of tensor cores (measured, H200: 1650 MHz)."""
TILE_CYCLES = 6000
"""Clock cycles of a tile's prologue and of storing its results."""
L2_SHARE = 28.0 * REFERENCE.multiprocessors * REFERENCE.cycles_per_ns / REFERENCE.l2_bytes_per_ns
"""Share of the L2 rate that SMs reach while all read (measured, H200: 28 bytes per cycle per SM)."""
SPLIT_SHARE = 3000 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that the split pass reaches; some of its fp16 parts stay in L2 (measured, H200)."""
MEMORY_SHARE = 4000 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that copies reach (measured, H200)."""
UNEVEN = 2.0
"""Value of `unevenness` for such a layer."""
LAUNCH_NS = 2000.0
"""Nanoseconds of a launch between two others (fitted together with the shares above, H200)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sustained:
    """Shares of an SM's rates that a kernel sustains, and its waits in clock cycles."""

    tensor_share: float
    """Share of the tensor cores' multiply-adds."""
    step_cycles: float
    """Clock cycles of the barriers of a stage with few products."""
    l2_share: float = L2_SHARE
    tile_cycles: float = TILE_CYCLES
    column_cycles: float = 0.0
    """Clock cycles to store a column of a consumer warpgroup's tile: 64 results."""
    latency_cycles: float = 0.0
    """Clock cycles from the release of a stage until it is full again; each other full stage hides a part."""
    begin_ns: float = 0.0
    """Nanoseconds of the program beside its rounds of tiles."""
    memory: float = 0.0
    """Share of the operands' time from memory that nothing hides."""


@functools.lru_cache(maxsize=64)
def busy_multiprocessor(device: Device) -> Rates:
    """Rates of one SM while the tensor cores of all SMs are busy."""
    return device.rates.of_multiprocessor(CLOCK_SHARE)


def split_ns(nbytes: float, device: Device) -> float:
    """Nanoseconds to move bytes at the rate of the split pass, which adding up sums reaches too."""
    return nbytes / (SPLIT_SHARE * device.rates.memory_bytes_per_ns)


def other_ns(problem: Conv2d, arithmetic: Arithmetic, parts_bytes: int, device: Device) -> float:
    """Nanoseconds of the launches that lay both operands out, writing `parts_bytes`, and of starting all launches.

    Data of 16 bits are read once. An operand that is scaled has a launch more, for its maximum; it is read once if that
    is sampled, with another launch, and twice otherwise.
    """
    if not arithmetic.scales:
        read = sum(operand.nbytes for operand in problem.inputs)
        return split_ns(read + parts_bytes, device) + 3 * LAUNCH_NS
    sampled = [samples(operand, problem.scales) for operand in problem.inputs]
    read = sum(operand.nbytes * (1 if once else 2) for operand, once in zip(problem.inputs, sampled, strict=True))
    return split_ns(read + parts_bytes, device) + (5 + sum(sampled)) * LAUNCH_NS


def unevenness(problem: Conv2d) -> float:
    """How many times as long a dgrad takes as its products say if some of its results have no tap, else 1.

    24x256x56x56 by 512 filters of one tap with strides of two took 1.95 times what was expected without it, and
    24x512x28x28 by 1024 2.4 times, by mma 1.6 times (H200). Nobody has looked for what holds these tiles up.
    """
    if not problem.pass_.is_transposed:
        return 1.0
    return UNEVEN if any(map(operator.lt, problem.weight[2:], problem.stride)) else 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class TimedConfig:
    """A config and its expected time."""

    config: Config
    ns: float
    """Nanoseconds of one SM for its share of all blocks."""


def best_split(space: Space, whole: Config, splits: Iterable[int], time_ns: Callable[[int], float]) -> TimedConfig:
    """A tile of wgrad with the legal split-K factor that is expected to take least time.

    Args:
        space: the space of wgrad.
        whole: the legal config of the tile without split-K.
        splits: the split-K factors, 1 among them.
        time_ns: expected time of the tile by split-K factor.
    """
    times = {number: time_ns(number) for number in splits}
    for number in sorted(times, key=times.__getitem__):
        config = Config.of({**whole.values(), "splits": number})
        if space.contains(config):
            return TimedConfig(config, times[number])
    return TimedConfig(whole, times[1])
