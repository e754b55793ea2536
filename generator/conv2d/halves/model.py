"""What layers by products of halves take on an H200, beside the products: figures that their models share."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.halves.arithmetic import scaled_images
from warpsmith.generator.conv2d.halves.maximum import samples
from warpsmith.generator.conv2d.problem import Conv2d

TILE_CLOCKS = 6000
"""To begin a tile and to store its results."""
L2_BYTES_A_CLOCK = 28.0
"""That a multiprocessor reads where all do."""
CLOCKS_A_US = 1650.0
"""Under the load of tensor cores."""
BYTES_A_US = 3.0e6
"""Of memory and of the level-2 cache together, when halves are made."""
LAUNCH_US = 2.0
MEMORY_BYTES_A_US = 4.0e6
"""That memory alone moves."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """What a multiprocessor of an H200 keeps up, in clocks of CLOCKS_A_US."""

    products: float
    """Of halves, a clock; its tensor cores do 2048."""
    step_clocks: float
    """For the barriers of a stage, where the products are few."""
    l2_bytes: float = L2_BYTES_A_CLOCK
    """A clock."""
    tile_clocks: float = TILE_CLOCKS
    latency_clocks: float = 0.0
    """From when a stage is free to when it is full again, of which stages that are full meanwhile hide a part each."""
    begin_us: float = 0.0
    """Of the program, beside its rounds of tiles."""
    memory: float = 0.0
    """The share of the time that all operands take from memory, which nothing hides."""


def other_us(problem: Conv2d, halves_bytes: int) -> float:
    """What makes the halves, which take so many bytes, and five launches, or one more for each operand that is sampled:
    of these little is read before they are laid out, of others all.
    """
    sampled = [samples(operand, scaled_images(problem)) for operand in problem.inputs]
    read = sum(operand.nbytes * (1 if once else 2) for operand, once in zip(problem.inputs, sampled, strict=True))
    return (read + halves_bytes) / BYTES_A_US + (5 + sum(sampled)) * LAUNCH_US
