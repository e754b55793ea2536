"""Sizes of matrices for a long filter, likely tiles of jobs, and the expected time of `filter1d_fft_long`."""

from __future__ import annotations

import dataclasses
import functools
import math

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter1d.fft_long_geometry import (
    Filter1dFftLongGeometry,
    LongBlocks,
    is_contiguous,
)
from warpsmith.generator.filter1d.fft_long_parameters import COLUMNS, HEIGHTS, ROWS, WIDTHS
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.tiles.lines import points_of, radices_of, text_of

SHAPES = 10
"""Shapes of matrices that a space has, the likeliest."""
TILE_POINTS = 4096
"""Points of a job's tile by default, 32 KB: several blocks share an SM."""
BEST_COLUMNS = 256
"""Points of columns that two passes of radix 16 transform."""
BEST_POINTS = 3 << 17
"""Points of a matrix that has enough jobs for all SMs, and several of which stay in L2."""
SMALLER, LARGER = 0.2, 0.03
"""Increase of a point's time for each halving of a matrix, and for each doubling, beyond BEST_POINTS (H200: 15 ps a
point from 393,216 points on, 20 ps for 2^17, 27 to 29 ps for 2^14 to 2^16, 37 ps for 2^13)."""
MEMORY_SHARE = 4000 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that the kernels reach."""
POINT_CYCLES = 3.5
"""Clock cycles of an SM for each point of a block, all SMs busy (H200, blocks of 2^18.6 to 2^20 points)."""
FILTER_SHARE = 0.5
"""Cycles of a filter's transform relative to those of a block, which is transformed back too."""
PHASE_CYCLES = 4500
"""Clock cycles that SMs idle while the last jobs of a step end, if the next step needs all of them."""
STRIDED = 3.0
"""Factor of the time if samples of a channel do not lie side by side: a guess, not measured."""


@dataclasses.dataclass(frozen=True, slots=True)
class MatrixShape:
    """Radices of a matrix's columns and rows, as a space has them, with its blocks."""

    columns: str
    rows: str
    blocks: LongBlocks

    @property
    def points(self) -> int:
        return points_of(self.columns) * points_of(self.rows)

    @property
    def width(self) -> int:
        """Columns of a job: 128 bytes of complex numbers side by side if they fit a tile."""
        points, rows = points_of(self.columns), points_of(self.rows)
        fitting = [each for each in WIDTHS if rows % each == 0 and each * points <= TILE_POINTS]
        return max((each for each in fitting if each <= 16), default=WIDTHS[0])

    @property
    def height(self) -> int:
        points, columns = points_of(self.rows), points_of(self.columns)
        return max((each for each in HEIGHTS if columns % each == 0 and each * points <= TILE_POINTS), default=1)


@functools.lru_cache(maxsize=256)
def shapes_for(problem: Filter1d) -> tuple[MatrixShape, ...]:
    """Shapes that take the least work for a problem, the likeliest first."""
    found: list[tuple[float, MatrixShape]] = []
    for columns in COLUMNS:
        for rows in ROWS:
            points = points_of(columns) * points_of(rows)
            blocks = LongBlocks.of(problem, points)
            if blocks is not None:
                found.append((blocks.count * points * weight_of(columns, rows), MatrixShape(columns, rows, blocks)))
    found.sort(key=lambda each: (each[0], each[1].columns, each[1].rows))
    return tuple(shape for _, shape in found[:SHAPES])


def weight_of(columns: str, rows: str) -> float:
    """Time of a point relative to that of a matrix of `16x16` by `12x16x8`.

    Passes, columns that are far from the best length, and radices that take registers cost time.
    """
    passes = 2 * (len(radices_of(columns)) + len(radices_of(rows)))
    far = max(points_of(columns) / BEST_COLUMNS, BEST_COLUMNS / points_of(columns))
    largest = max(*radices_of(columns), *radices_of(rows))
    octaves = math.log2(points_of(columns) * points_of(rows) / BEST_POINTS)
    size = LARGER * octaves if octaves > 0 else -SMALLER * octaves
    return 1 + 0.04 * (passes - 10) + 0.04 * (far - 1) + 0.01 * max(0, largest - 16) + size


def expected_ns(problem: Filter1d, geometry: Filter1dFftLongGeometry, device: Device) -> float:
    """Nanoseconds of a config. Memory counts by half where instructions take longer, and each launch waits for its last
    jobs.
    """
    rates = device.rates
    filters = geometry.filters if geometry.are_made_once else geometry.lines
    points = geometry.points * (geometry.lines + FILTER_SHARE * filters)
    weight = weight_of(*(text_of(each.axis.radices) for each in (geometry.columns, geometry.rows)))
    issued = rates.cycles_ns(points * weight * POINT_CYCLES / device.multiprocessors)
    memory = problem.bytes / (MEMORY_SHARE * rates.memory_bytes_per_ns)
    steps = launches = 5 if geometry.are_made_once else 3
    waves = rates.cycles_ns(PHASE_CYCLES * steps)
    strided = 1.0 if is_contiguous(problem) else STRIDED
    return launches * rates.launch_ns + strided * max(issued + memory / 2, memory) + waves
