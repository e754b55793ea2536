"""Lines of `filter1d_partitioned`, and the time that a chunk is expected to take."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.device import Device
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.fft_model import BLOCK_CYCLES, MEMORY_SHARE, POINT_CYCLES
from warpsmith.generator.filter1d.partitioned_geometry import PartitionedGeometry, writes_ring
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.tiles.lines import Radices

CARRY_ROUND_NS, CARRY_SAMPLES = 800.0, 16
"""Time of one round of loads and stores of the launch that shifts a state that is no ring, and its samples."""


PART_NS = 170.0
"""Time in which a thread adds one more part of an output."""


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionedShape:
    """Lines that do well: as many threads as the pass with the smallest radix has transforms."""

    radices: Radices
    threads: int
    twiddles: Twiddles
    cycles: float
    """Clock cycles of an SM for each point of a line, there and back, all SMs full (those of `filter1d_fft`)."""


_TABLE, _POWERS = Twiddles.TABLE, Twiddles.POWERS
SHAPES = (
    PartitionedShape((16, 16), 32, _POWERS, 1.06),  # half of its threads have an item
    PartitionedShape((8, 8, 8), 64, _POWERS, 0.62),
    PartitionedShape((8, 8, 16), 128, _TABLE, 0.64),
    PartitionedShape((16, 16, 8), 256, _POWERS, 0.64),
    PartitionedShape((16, 16, 16), 256, _POWERS, 0.77),
    PartitionedShape((32, 16, 16), 512, _POWERS, 0.97),
    PartitionedShape((32, 32, 16), 512, _TABLE, 1.76),
)


def chunk_ns(problem: Filter1d, geometry: PartitionedGeometry, cycles: float, device: Device) -> float:
    """Nanoseconds of a chunk whose spectra are held; lines take `cycles` for each point.

    Thread blocks wait more than they compute, so that the latency of a block, the work of all and the bytes add up.

    Source of the counts: Wefers 2015, "Partitioned convolution algorithms for real-time auralization", chapter 5, but
    spectra of earlier chunks are made again, which moves half the bytes of a line of spectra.
    """
    rates = device.rates
    per_block = (geometry.block_lines + 1) / 2  # a block transforms each line there, and their sum back
    busy = geometry.blocks * per_block * geometry.points * cycles / device.multiprocessors
    resident = min(
        device.threads_per_multiprocessor // geometry.lines.threads,
        device.shared_per_multiprocessor_bytes // (geometry.lines.shared_bytes + device.limits.reserved_shared_bytes),
    )
    waves = -(-geometry.blocks // (device.multiprocessors * max(1, resident)))
    alone = waves * per_block * (BLOCK_CYCLES + POINT_CYCLES * geometry.points)
    stays = geometry.chunk_bytes <= device.l2_bytes
    rate = rates.l2_bytes_per_ns if stays else MEMORY_SHARE * rates.memory_bytes_per_ns
    moved = (geometry.chunk_bytes + 2 * geometry.sum_bytes) / rate
    launches = 2 * rates.launch_ns
    if not writes_ring(problem):
        launches += rates.launch_ns
    if not problem.circular:
        launches += CARRY_ROUND_NS * (1 + problem.taps // (CARRY_SAMPLES * problem.signal))
    adding = PART_NS * -(-geometry.parts // geometry.groups)
    return launches + adding + rates.cycles_ns(alone + busy) + moved


def spectra_ns(geometry: PartitionedGeometry, cycles: float, device: Device) -> float:
    """Nanoseconds of the launch that transforms the filters."""
    rates = device.rates
    lines = geometry.filters * geometry.line_count
    busy = lines * geometry.points * cycles / 2 / device.multiprocessors
    alone = (BLOCK_CYCLES + POINT_CYCLES * geometry.points) / 2
    moved = 1.5 * geometry.spectrum_bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns)
    return rates.launch_ns + max(rates.cycles_ns(max(busy, alone)), moved)
