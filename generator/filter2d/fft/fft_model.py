"""Cost model of tiles in global memory: it counts bytes, instructions and launches, and ranks the tiles to try first.

All data goes through the L2 cache: pixels and results once, tiles four times, the filter's spectrum once for each
tile. Data that does not stay there goes to memory, too. Larger tiles waste fewer results at their edge. Larger chunks
take fewer launches, until they no longer stay in the cache.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from math import ceil

from warpsmith.generator.device import REFERENCE, Device
from warpsmith.generator.filter2d.fft.fft_geometry import FLOWING
from warpsmith.generator.filter2d.overlap_family import CLOCK_SHARE
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.tiles.lines import Radices, instructions, sizes, ways
from warpsmith.generator.tiles.space import TWIDDLE, resident
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

PAIRS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""Numbers of pairs of tiles in one chunk of the workspace."""
SIDE = (4, 8, 16)
"""Columns of a block, side by side. Four are 32 bytes, the least that L2 delivers."""
MOST_POINTS = 4096
"""Most points of a line."""
MOST_WORK = 1 << 27
"""Most complex numbers of a workspace: 1 GB."""
MOST_SPECTRA = 1 << 28
"""Most complex numbers of all filters' spectra: 2 GB."""
_MOST_CHUNKS_EVER = 2048
"""Most chunks if they are the largest, or share one launch. A kernel gets its chunk's number as an address, that many
bytes into the workspace. Even the smallest workspace has more bytes than this."""
MOST_CHUNKS = 96
"""Most chunks otherwise. Each takes three launches, and a stream starts one about every two microseconds."""
_MEMORY_SHARE, _L2_SHARE = 4200 / REFERENCE.memory_bytes_per_ns, 6000 / REFERENCE.l2_bytes_per_ns
"""Shares of the memory rate, as copies measure it (H200), and of the L2 rate, a guess: only their ratio matters."""
_LAUNCH_NS = 2.0e3
"""Nanoseconds of a launch whose predecessor has to end first. A guess."""
_OVERHEAD = 1.6
"""Instructions per arithmetic instruction, itself included: the rest are addresses, loads and stores."""
_KEPT = 0.6
"""Share of the L2 cache that tiles may fill and still stay there: pixels and results pass through it. A guess."""
_FLOWING_SHARE = 4400 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate at which one launch moves bytes of L2 and of memory together: 631 us were measured for 2.73
GB, and 657 and 672 us for 2.63 and 2.70 GB by narrower columns (H200, 65x65 taps on 9216x9216)."""
_NARROW = {4: 1.25, 8: 1.1, 16: 1.0}
"""Cost factor of bytes of the workspace and of spectra, by columns of a block: narrow columns take more requests."""
_FILL_NS = 15.0e3
"""Nanoseconds until all three kinds of jobs of one launch are under way, and in which its last jobs end."""
_ROWS = 8
"""Rows of a job, in most configs."""
_CHUNKED = 1.3
"""Factor of the measured time of launches of chunks over the counted one: 812 us for 696, 196 for 143, 48 for 35."""
_HIDDEN = 0.3
"""Share of the shorter two of the times of memory, cache and arithmetic that the longest does not hide. A guess."""
_LIKELY = 32
"""Sizes of tiles for which the model also compares columns of a block, pairs and buffers."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filter2dFftChoice:
    """Tiles of one size, the columns of a block, and the chunks in the workspace."""

    y: Radices
    x: Radices
    side: int
    """Columns of a block."""
    pairs: int
    buffers: int = 1
    """Chunks in the workspace at a time."""


def axis_sizes(problem: Filter2d, axis: int) -> tuple[int, ...]:
    """Sizes of a tile, in points along an axis (0 down, 1 across), that are worth a try.

    The smallest exceeds the filter's taps by an eighth and is at least 16. The largest is the first one that covers
    the whole result, or MOST_POINTS.
    """
    taps, results = problem.filter[axis], problem.output_shape[axis]
    every = sizes(max(16, taps + taps // 8), 8 if axis == 0 else max(SIDE), MOST_POINTS)
    enough = next((size for size in every if size >= results + taps - 1), MOST_POINTS)
    return tuple(size for size in every if size <= enough)


@functools.lru_cache(maxsize=256)
def likely(problem: Filter2d, device: Device) -> tuple[Filter2dFftChoice, ...]:
    """Tiles that fit a device, fastest first by the model: each size once, with its best columns, pairs and buffers."""
    choices = [
        Filter2dFftChoice(ways(rows)[0], ways(columns)[0], 8 if resident(8 * rows, device) else SIDE[0], 1)
        for rows, columns in itertools.product(axis_sizes(problem, 0), axis_sizes(problem, 1))
        if problem.filters * rows * columns <= MOST_SPECTRA
    ]
    choices.sort(
        key=lambda each: nanoseconds(problem, dataclasses.replace(each, pairs=pairs_in_cache(each, device)), device)
    )
    few = [
        min(
            (
                dataclasses.replace(each, side=side, pairs=pairs, buffers=buffers)
                for side, pairs, buffers in itertools.product(SIDE, PAIRS, (1, 2, FLOWING))
                if is_allowed(problem, each.y, each.x, pairs, buffers)
            ),
            key=lambda choice: nanoseconds(problem, choice, device),
            default=None,
        )
        for each in choices[:_LIKELY]
    ]
    found = [each for each in few if each and nanoseconds(problem, each, device) < float("inf")]
    return tuple(sorted(found, key=lambda each: nanoseconds(problem, each, device)))


def pairs_in_cache(choice: Filter2dFftChoice, device: Device) -> int:
    """Most pairs, out of PAIRS, that stay in the L2 cache beside a spectrum; 1 if none do."""
    room = _KEPT * device.l2_bytes / (COMPLEX_BYTES * _points(choice.y) * _points(choice.x)) - 1
    return max((pairs for pairs in PAIRS if pairs <= room), default=1)


@functools.cache
def _points(radices: Radices) -> int:
    points = 1
    for radix in radices:
        points *= radix
    return points


def items(problem: Filter2d, rows: int, columns: int) -> int:
    """Number of items: pairs of tiles of a size, over all planes, for each filter."""
    (height, width), (r, s) = problem.output_shape, problem.filter
    tiles = ceil(height / (rows - r + 1)) * ceil(width / (columns - s + 1))
    return ceil(tiles / 2) * problem.planes * problem.filters


def is_allowed(problem: Filter2d, y: Radices, x: Radices, pairs: int, buffers: int) -> bool:
    """True if the workspace of `buffers` chunks, the spectra and the number of chunks keep within their limits."""
    rows, columns = _points(y), _points(x)
    chunks = ceil(items(problem, rows, columns) / pairs)
    has_room = buffers * pairs * rows * columns <= MOST_WORK and problem.filters * rows * columns <= MOST_SPECTRA
    most_chunks = _MOST_CHUNKS_EVER if pairs == max(PAIRS) or buffers == FLOWING else MOST_CHUNKS
    return has_room and chunks <= most_chunks and (buffers != 2 or chunks > 1)


@dataclasses.dataclass(frozen=True, slots=True)
class _Traffic:
    """Bytes that tiles of one size move, and the sizes from which they follow."""

    rows: int
    columns: int
    pixel_rows: int
    """Rows of a tile that some result needs."""
    count: int
    """Pairs of tiles, over all planes, for each filter."""
    image: int
    results: int
    tiles: int
    """Bytes of tiles written to the workspace and read from it, twice each."""
    spectrum: int

    @classmethod
    def of(cls, problem: Filter2d, choice: Filter2dFftChoice) -> _Traffic:
        rows, columns = _points(choice.y), _points(choice.x)
        height, r = problem.output_shape[0], problem.filter[0]
        count = items(problem, rows, columns)
        valid = min(rows - r + 1, height)
        pixel_rows = valid + r - 1
        return cls(
            rows=rows,
            columns=columns,
            pixel_rows=pixel_rows,
            count=count,
            image=count * 2 * pixel_rows * columns * problem.dtype.itemsize,
            results=problem.output.size * problem.output_dtype.itemsize,
            tiles=COMPLEX_BYTES * columns * 2 * (pixel_rows + valid) * count,
            spectrum=COMPLEX_BYTES * rows * columns,
        )

    def stay(self, pairs: int, device: Device) -> bool:
        """True if `pairs` pairs in the workspace and a spectrum stay in the L2 cache."""
        return COMPLEX_BYTES * pairs * self.pixel_rows * self.columns + self.spectrum <= _KEPT * device.l2_bytes


def nanoseconds(problem: Filter2d, choice: Filter2dFftChoice, device: Device) -> float:
    """Nanoseconds for the whole problem, by the model; infinite if a block's columns do not fit shared memory."""
    blocks = resident(choice.side * _points(choice.y), device)
    if not blocks:
        return float("inf")
    traffic = _Traffic.of(problem, choice)
    if choice.buffers == FLOWING:
        return _in_one_launch(traffic, choice, blocks, device)
    return _in_chunks(problem, traffic, choice, blocks, device)


def _in_chunks(problem: Filter2d, traffic: _Traffic, choice: Filter2dFftChoice, blocks: int, device: Device) -> float:
    """Nanoseconds with launches for each chunk: the longest of the times of memory, cache and arithmetic hides a part
    of the others.
    """
    count, columns = traffic.count, traffic.columns
    pairs = min(choice.pairs, count)
    kept = traffic.stay(choice.buffers * pairs, device)
    memory = problem.operands[0].span_bytes + traffic.results + (0 if kept else traffic.tiles)
    # Narrow columns take more requests for the same bytes.
    through_work = (traffic.tiles + traffic.spectrum * count) * (1.25 if choice.side < 8 else 1.0)
    cache = traffic.image + traffic.results + through_work
    by_points = _OVERHEAD * 2 * (instructions(choice.y) + instructions(choice.x) + TWIDDLE)
    arithmetic = count * traffic.rows * columns * by_points
    rates = device.rates
    memory_ns = memory / (_MEMORY_SHARE * rates.memory_bytes_per_ns)
    cache_ns = cache / (_L2_SHARE * rates.l2_bytes_per_ns)
    arithmetic_ns = arithmetic / (CLOCK_SHARE * rates.multiply_adds_per_ns)
    longest, *others = sorted((memory_ns, cache_ns, arithmetic_ns), reverse=True)
    waves = max(pairs * columns / choice.side / (device.multiprocessors * blocks), 0.2)
    ragged = (ceil(waves) + waves) / (2 * waves) * (1.15 if blocks == 1 else 1.0)
    launches = (4 - choice.buffers) * ceil(count / pairs)
    return _CHUNKED * (longest + _HIDDEN * sum(others)) * (0.6 + 0.4 * ragged) + launches * _LAUNCH_NS


def _in_one_launch(traffic: _Traffic, choice: Filter2dFftChoice, blocks: int, device: Device) -> float:
    """Nanoseconds with one launch: all bytes move at one rate. Blocks wait if few jobs lie between a job and the jobs
    that depend on it.
    """
    chunks = ceil(traffic.count / choice.pairs)
    kept = traffic.stay(min(FLOWING, chunks) * choice.pairs, device)
    through_work = int(_NARROW[choice.side] * (traffic.tiles + traffic.spectrum * traffic.count))
    moved = traffic.image + traffic.results + through_work + (0 if kept else traffic.tiles // 2)
    between = 2 * choice.pairs * min(traffic.columns // choice.side, traffic.rows // _ROWS)
    waits = max(1.0, min(blocks, 2) * device.multiprocessors / between)
    alone = 1 / chunks  # share of the time in which one kind of job runs without the others
    moved_ns = moved / (_FLOWING_SHARE * device.rates.memory_bytes_per_ns)
    return moved_ns * (0.8 + 0.2 * waits + alone) * (1.25 if blocks == 1 else 1.0) + _FILL_NS
