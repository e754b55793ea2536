"""Sizes of transforms for a filter, the lines that do well, and the time that `filter1d_fft` is expected to take."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.fft.text import Packing, Twiddles
from warpsmith.generator.filter1d.fft_geometry import Filter1dFftGeometry, samples_of, step_of
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.tiles.lines import Radices, axis_of, instructions, span
from warpsmith.generator.tiles.space import resident

SIZES = tuple(sorted([*(2**i for i in range(6, 15)), *(3 * 2**i for i in range(5, 14))]))
"""Points of lines."""
RADICES = (4, 6, 8, 12, 16, 24, 32)
WAYS = 3
"""Splits of a size into radices that are kept, the fastest ones, besides two whose last radix is small."""
SMALL_LAST = 8
"""Largest small radix: a thread does two transforms of the last pass at a time under Packing.HALF."""
PASS_COST = 14
"""Cost of a pass, in float32 instructions of a point: its trip through shared memory."""
USEFUL = 8
"""Samples of a block, in taps and outputs of the problem, beyond which a longer block has no use."""
MEMORY_SHARE = 4000 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that the kernels reach."""
SECOND, SECOND_COMPLEX = 0.64, 0.28
"""Share of the faster one of memory and instructions that does not overlap with the other (H200, 129 to 1025 taps), and
the share with complex samples, whose loads and stores are twice as wide."""
ONE_BLOCK = 0.9
"""Cycles of lines whose zeros are known, as they are where a channel is one block, relative to others."""
HALF_CYCLES = 1.3
"""Cycles of lines of 16-bit samples, relative to float32, for conversions and narrow accesses (256 to 4096 taps)."""
BLOCK_CYCLES, POINT_CYCLES = 5000, 2.3
"""Clock cycles that a thread block alone on its SM takes, at least and for each point (H200, 1024 to 24576 points)."""
SPECTRUM_CYCLES = 1.2
"""Clock cycles of an SM for each point of many filters' spectra."""


@dataclasses.dataclass(frozen=True, slots=True)
class LineShape:
    """Lines that do well, and what they cost."""

    radices: Radices
    lines: int
    threads: int
    min_blocks: int
    twiddles: Twiddles
    cycles: float
    """Clock cycles of an SM for each point of a line, all SMs full (H200, 2^24 float32 samples, 129 to 16385 taps)."""

    @property
    def points(self) -> int:
        return math.prod(self.radices)


_TABLE, _POWERS = Twiddles.TABLE, Twiddles.POWERS
PAIRS = (
    LineShape((16, 16), 2, 32, 0, _POWERS, 0.53),
    LineShape((8, 8, 8), 1, 64, 0, _POWERS, 0.62),
    LineShape((8, 8, 16), 1, 64, 0, _TABLE, 0.64),
    LineShape((16, 8, 16), 1, 128, 6, _POWERS, 0.64),
    LineShape((16, 16, 16), 1, 256, 4, _POWERS, 0.77),
    LineShape((32, 16, 16), 1, 256, 0, _POWERS, 0.97),
    LineShape((32, 32, 16), 1, 512, 0, _TABLE, 1.76),
)
"""Lines of two blocks."""
COMPLEX = (PAIRS[0], LineShape((32, 16), 2, 32, 0, _POWERS, 0.45), *PAIRS[2:])
"""Lines of complex blocks: with 129 taps short ones leave memory busy while others are transformed."""
HALVES = (
    LineShape((32, 8), 8, 64, 0, _POWERS, 0.78),
    LineShape((8, 8, 8), 1, 32, 0, _POWERS, 0.85),
    LineShape((16, 8, 8), 1, 64, 0, _POWERS, 0.80),
    LineShape((16, 16, 8), 1, 128, 6, _POWERS, 0.85),
    LineShape((32, 16, 8), 1, 128, 0, _POWERS, 1.0),
    LineShape((32, 32, 8), 1, 256, 0, _POWERS, 1.14),
    LineShape((32, 32, 16), 1, 512, 0, _POWERS, 1.72),
    LineShape((12, 16, 16, 8), 1, 1024, 0, _TABLE, 2.01),
)
"""Lines of one block of real samples."""


SIDE_BY_SIDE = (
    LineShape((16, 16), 8, 128, 0, _TABLE, 1.35),
    LineShape((32, 16), 8, 128, 0, _TABLE, 1.30),
    LineShape((8, 8, 16), 4, 256, 0, _TABLE, 1.45),
    LineShape((16, 8, 16), 4, 512, 0, _TABLE, 1.7),
    LineShape((16, 16, 16), 2, 512, 0, _TABLE, 2.5),
    LineShape((32, 16, 16), 2, 512, 0, _TABLE, 4.0),
    LineShape((32, 32, 16), 1, 512, 0, _TABLE, 8.0),
)
"""Lines of two blocks, and of complex blocks, of channels side by side; the first two sizes were measured."""


def shapes_of(problem: Filter1d, packing: Packing) -> tuple[LineShape, ...]:
    if problem.layout is SignalLayout.BTC:
        return () if packing is Packing.HALF else SIDE_BY_SIDE
    return {Packing.HALF: HALVES, Packing.COMPLEX: COMPLEX}.get(packing, PAIRS)


@functools.cache
def ways_of(points: int) -> tuple[Radices, ...]:
    """Splits of a line into two to four radices, the likeliest first."""
    found = {
        radices
        for passes in (2, 3, 4)
        for radices in itertools.product(RADICES, repeat=passes)
        if math.prod(radices) == points
    }
    ways = sorted(found, key=_way_cost)
    small = [each for each in ways[WAYS:] if each[-1] <= SMALL_LAST]
    proven = {shape.radices: None for shape in (*PAIRS, *COMPLEX, *HALVES, *SIDE_BY_SIDE) if shape.points == points}
    return tuple(dict.fromkeys((*proven, *ways[:WAYS], *small[:2])))


def _way_cost(radices: Radices) -> tuple[float, Radices]:
    """Cost of radices: instructions, trips through shared memory, and registers."""
    largest = max(radices)
    return instructions(radices) + PASS_COST * len(radices) + max(0, largest - 16) / 4 + largest / 100, radices


@functools.lru_cache(maxsize=256)
def sizes_for(problem: Filter1d, packing: Packing, device: Device) -> tuple[int, ...]:
    """Points of lines whose blocks have outputs, and which fit shared memory; the smallest alone if none is useful."""
    most = max(512, USEFUL * (problem.taps + min(problem.taps, problem.result_length * problem.down)))
    legal = [each for each in SIZES if ways_of(each) and step_of(problem, each, packing) > 0]
    fitting = [each for each in legal if resident(span(axis_of(ways_of(each)[0], 1)), device)]
    useful = [each for each in fitting if samples_of(each, packing) <= most]
    return tuple(useful or fitting[:1])


def expected_ns(problem: Filter1d, geometry: Filter1dFftGeometry, cycles: float, device: Device) -> float:
    """Nanoseconds of a config whose lines take `cycles` for each point.

    The longer one of memory and instructions counts in full, and a part of the other.
    """
    rates, alone = device.rates, BLOCK_CYCLES + POINT_CYCLES * geometry.points
    blocks = geometry.blocks / device.multiprocessors
    known = ONE_BLOCK if geometry.is_one_block else 1.0
    known *= HALF_CYCLES if problem.dtype.itemsize == 2 else 1.0
    issued = rates.cycles_ns(max(blocks * geometry.lines.count * geometry.points * cycles * known, alone))
    memory = problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns)
    filters = geometry.filters / device.multiprocessors
    spectrum = rates.cycles_ns(max(filters * geometry.points * SPECTRUM_CYCLES, alone / 2))
    second = SECOND_COMPLEX if geometry.packing is Packing.COMPLEX else SECOND
    return 2 * rates.launch_ns + spectrum + max(issued, memory) + second * min(issued, memory)
