"""Rates of an H200 that the performance models of layers on 16-bit operands share, products excluded."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.halves.arithmetic import scaled_images
from warpsmith.generator.conv2d.halves.maximum import samples
from warpsmith.generator.conv2d.problem import Conv2d

TILE_CLOCKS = 6000
"""Clocks to begin a tile and to store its results."""
L2_BYTES_A_CLOCK = 28.0
"""L2 read rate of one SM while all SMs read, in bytes per clock."""
CLOCKS_A_US = 1650.0
"""Clocks per microsecond while the tensor cores are loaded."""
BYTES_A_US = 3.0e6
"""Bytes per microsecond of memory and L2 together, while the 16-bit operands are made."""
LAUNCH_US = 2.0
MEMORY_BYTES_A_US = 4.0e6
"""Bytes per microsecond that memory alone moves."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rates:
    """Rates that an SM of an H200 sustains. Clocks are those of CLOCKS_A_US."""

    products: float
    """fp16 products per clock; the tensor cores of an SM reach 2048."""
    step_clocks: float
    """Clocks for the barriers of a stage, where the stage has few products."""
    l2_bytes: float = L2_BYTES_A_CLOCK
    """L2 read rate of an SM, in bytes per clock."""
    tile_clocks: float = TILE_CLOCKS
    latency_clocks: float = 0.0
    """Clocks from the moment a stage is free until it is full again. Each stage that is full meanwhile hides a part."""
    begin_us: float = 0.0
    """Microseconds of the program beside its rounds of tiles."""
    memory: float = 0.0
    """Share of the operands' memory time that nothing hides."""


def other_us(problem: Conv2d, halves_bytes: int) -> float:
    """Microseconds to make the 16-bit operands, and of the launches: five, plus one for each sampled operand.

    An operand is read once if its maximum is sampled, otherwise twice. `halves_bytes` are written.
    """
    sampled = [samples(operand, scaled_images(problem)) for operand in problem.inputs]
    read = sum(operand.nbytes * (1 if once else 2) for operand, once in zip(problem.inputs, sampled, strict=True))
    return (read + halves_bytes) / BYTES_A_US + (5 + sum(sampled)) * LAUNCH_US
