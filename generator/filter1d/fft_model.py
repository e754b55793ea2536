"""Sizes of transforms for a filter, and the time that a config of `filter1d_fft` is expected to take."""

from __future__ import annotations

import functools
import itertools
import math

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.fft.text import Packing
from warpsmith.generator.filter1d.fft_geometry import Filter1dFftGeometry, samples_of, step_of
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.tiles.lines import Radices, axis_of, instructions, span
from warpsmith.generator.tiles.space import resident

SIZES = tuple(sorted([*(2**i for i in range(6, 15)), *(3 * 2**i for i in range(5, 14))]))
"""Points of lines."""
RADICES = (4, 6, 8, 12, 16, 24, 32)
WAYS = 3
"""Splits of a size into radices that are kept, the fastest ones, besides one whose last radix is small."""
SMALL_LAST = 8
"""Largest small radix: a thread does two transforms of the last pass at a time under Packing.HALF."""
PASS_COST = 14
"""Cost of a pass, in float32 instructions of a point: its trip through shared memory."""
LEAST_TAPS = 17
"""Least taps of a filter: fewer take less time as sums, whatever the device."""
MEMORY_SHARE = 3900 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that the kernels reach."""
ISSUE_SHARE = 0.72
"""Share of the issue slots that are used while blocks compute."""
LANES = 128
"""Lanes of an SM."""
SPECTRUM_NS = 3000.0
"""Time of the launch that transforms the filters, if they are few."""


@functools.cache
def ways_of(points: int) -> tuple[Radices, ...]:
    """Splits of a line into two to four radices, the likeliest first."""
    found = {
        radices
        for passes in (2, 3, 4)
        for radices in itertools.product(RADICES, repeat=passes)
        if math.prod(radices) == points
    }
    ways = sorted(found, key=way_cost)
    small = [each for each in ways[WAYS:] if each[-1] <= SMALL_LAST]
    return (*ways[:WAYS], *small[:2])


def way_cost(radices: Radices) -> tuple[float, Radices]:
    """Cost of radices: instructions, trips through shared memory, and registers."""
    largest = max(radices)
    return instructions(radices) + PASS_COST * len(radices) + max(0, largest - 16) / 4 + largest / 100, radices


@functools.cache
def sizes_for(problem: Filter1d, packing: Packing, device: Device) -> tuple[int, ...]:
    """Points of lines whose blocks have outputs, and which fit shared memory.

    Blocks four times as long as the filter and the outputs need be have no use.
    """
    most = 8 * (problem.taps + min(problem.taps, problem.result_length * problem.down))
    legal = [each for each in SIZES if ways_of(each) and step_of(problem, samples_of(each, packing)) > 0]
    fitting = [each for each in legal if resident(span(axis_of(ways_of(each)[0], 1)), device)]
    useful = [each for each in fitting if samples_of(each, packing) <= max(most, 512)]
    return tuple(useful or fitting[:1])


def expected_ns(problem: Filter1d, geometry: Filter1dFftGeometry, device: Device) -> float:
    """Nanoseconds of a config: the longer one of memory and instructions, and a part of the other."""
    rates, points, radices = device.rates, geometry.points, geometry.lines.axis.radices
    passes = len(radices)
    loads = 1 if geometry.loads_pairs else 2
    stores = (
        (1 if geometry.stores_pairs else 2)
        * geometry.line_step
        / (points * (1 if geometry.packing is Packing.COMPLEX else 2))
    )
    product = 11 if geometry.is_half else 5
    issue = 2 * instructions(radices) + 4 * (passes - 1) + 2 * (passes - 1) + product + 2 * loads + 3 * stores + 4
    per_block = points * geometry.lines.count * issue / LANES / ISSUE_SHARE
    waves = geometry.blocks / device.multiprocessors
    issued = rates.cycles_ns(max(1.0, waves) * per_block)
    memory = problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns)
    spectrum = SPECTRUM_NS + rates.cycles_ns(
        max(1.0, geometry.spectrum_blocks / device.multiprocessors) * per_block / 2
    )
    return rates.launch_ns + spectrum + max(issued, memory) + 0.3 * min(issued, memory)
