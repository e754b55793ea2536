"""Lines that do well in `filter1d_lags`, the shares that fill a device, and the expected time of a config."""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.lags_geometry import Filter1dLagsGeometry, number_bytes, shared_bytes
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.tiles.lines import Radices

OTHER_REGISTERS = 30
"""Registers of a thread besides its points of a line of samples, of a line of taps and of the sum of products."""
MEMORY_SHARE = 4000 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that the kernels reach."""
L2_SHARE = 0.6
"""Share of the rate of L2 that the kernels reach."""
SECOND = 0.1
"""Share of the faster one of memory and instructions that does not overlap with the other: float16 signals of 2^24
samples take as long as float32 ones (H200, 257 lags)."""
LINE_CYCLES, POINT_CYCLES = 5500, 0.9
"""Clock cycles from line to line of a thread block, at least and for each point, however idle its SM is."""
INVERSE = 0.5
"""Cost of an inverse transform, in lines of samples and of taps."""
ADDING_CYCLES = 700
"""Clock cycles in which a thread of the second launch adds the sums of four shares."""
MOST_MULTIPLE = 16
"""Most thread blocks for each SM that one group of lags is shared by."""


@dataclasses.dataclass(frozen=True, slots=True)
class LagShape:
    """Lines that do well, and what they cost."""

    radices: Radices
    min_blocks: int
    twiddles: Twiddles
    cycles: float
    """Clock cycles of an SM for each point of a line of samples and its line of taps, all SMs full (H200, 2^24 float32
    samples and taps, 33 to 1025 lags)."""

    @property
    def points(self) -> int:
        return math.prod(self.radices)

    @property
    def threads(self) -> int:
        return self.points // self.radices[-1]


_POWERS = Twiddles.POWERS
SHAPES = (
    LagShape((32, 8), 0, _POWERS, 2.0),
    LagShape((8, 8, 8), 0, _POWERS, 1.42),
    LagShape((16, 8, 8), 6, _POWERS, 1.21),
    LagShape((16, 16, 8), 3, _POWERS, 1.30),
    LagShape((16, 16, 16), 0, _POWERS, 1.60),
    LagShape((32, 16, 16), 0, _POWERS, 1.90),
)


class LineSums(Protocol):
    """Counts of lines and thread blocks on which an expected time depends."""

    @property
    def rows(self) -> int: ...

    @property
    def groups(self) -> int: ...

    @property
    def shares(self) -> int: ...

    @property
    def blocks(self) -> int: ...

    @property
    def points(self) -> int: ...

    @property
    def packed(self) -> int: ...

    @property
    def line_taps(self) -> int: ...

    @property
    def sums(self) -> int: ...

    def met(self, group: int) -> range:
        """Lines of a group that are computed."""
        ...


def registers_of(radices: Radices) -> int:
    """Registers that a thread needs, as a guess."""
    return max(6 * radices[-1], 2 * max(radices)) + OTHER_REGISTERS


def resident_of(radices: Radices, device: Device) -> int:
    """Thread blocks that an SM holds at a time; 1 at least."""
    threads = math.prod(radices) // radices[-1]
    shared = shared_bytes(radices) + device.limits.reserved_shared_bytes
    return max(
        1,
        min(
            device.threads_per_multiprocessor // threads,
            device.shared_per_multiprocessor_bytes // shared,
            device.registers_per_multiprocessor // (registers_of(radices) * threads),
        ),
    )


def share_counts(device: Device) -> tuple[int, ...]:
    """Numbers of thread blocks that may share a group of lags: powers of two, and some for each SM."""
    multiples = (device.multiprocessors * each for each in range(1, MOST_MULTIPLE + 1))
    return tuple(sorted({*(2**i for i in range(12)), *multiples}))


def usual_shares(geometry: Filter1dLagsGeometry, device: Device) -> int:
    """The most shares that are resident together and have a line each."""
    radices = geometry.lines.axis.radices
    most = resident_of(radices, device) * device.multiprocessors // (geometry.rows * geometry.groups)
    return max(each for each in share_counts(device) if each == 1 or each <= min(most, geometry.line_count))


def expected_ns(problem: Filter1d, geometry: LineSums, shape: LagShape, device: Device) -> float:
    """Nanoseconds of a config whose lines cost as much as those of `shape`.

    The longer one of memory and instructions counts in full, and a part of the other.
    """
    rates, groups = device.rates, geometry.rows * geometry.groups
    some = range(0, geometry.groups, max(1, geometry.groups // 32))
    lines = sum(len(geometry.met(each)) for each in some) / len(some) * groups
    share = lines / geometry.blocks
    full = (lines + INVERSE * geometry.blocks) * geometry.points * shape.cycles / device.multiprocessors
    waves = max(1.0, geometry.blocks / (resident_of(shape.radices, device) * device.multiprocessors))
    alone = waves * (math.ceil(share) + INVERSE) * (LINE_CYCLES + POINT_CYCLES * geometry.points)
    issued = rates.cycles_ns(max(full, alone))
    signal, taps = (each.dtype.itemsize for each in problem.inputs[:2])
    moved = lines * (geometry.packed * geometry.points * signal + geometry.line_taps * taps)
    memory = max(problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns), moved / (L2_SHARE * rates.l2_bytes_per_ns))
    sums = geometry.sums * number_bytes(problem) / (L2_SHARE * rates.l2_bytes_per_ns)
    adding = rates.cycles_ns(ADDING_CYCLES * (4 + geometry.shares / 256)) + 2 * sums
    return 2 * rates.launch_ns + max(issued, memory) + SECOND * min(issued, memory) + adding
