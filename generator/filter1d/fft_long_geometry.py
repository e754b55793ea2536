"""Geometry of one config of `filter1d_fft_long` on one problem: blocks, their four-step transforms, jobs.

A block of real samples x[0], ..., x[2 n - 1] is the complex sequence u[m] = x[m] - i x[m + n]. Its values at the n
roots of z^n = -i are an n-point transform of u[m] exp(-i pi m / (2 n)), and their products with those of the taps are
the negacyclic convolution of 2 n samples: each frequency is multiplied by one factor and needs no partner. Complex
samples are transformed as they are.

An n-point transform is one of n1 points along the columns of an n1 x n2 matrix, a multiplication, and one of n2 points
along its rows. Columns, rows, and columns back are jobs of one launch.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from math import ceil

from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.fft_geometry import GRAINS, span_of
from warpsmith.generator.filter1d.fft_long_parameters import Spectra
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config
from warpsmith.generator.steps import counter_bytes
from warpsmith.generator.tiles.lines import Lines, axis_of, points_of, radices_of
from warpsmith.generator.tiles.tile import COMPLEX_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class LongBlocks:
    """Blocks of a channel: `ahead` samples, the windows of `step` outputs, and samples that fill a transform."""

    samples: int
    """Samples that a block's transform takes: two for each point if they are real."""
    ahead: int
    """Samples before the window of the first output, which align loads with the channel's beginning."""
    step: int
    """Outputs from block to block, a multiple of `down`."""
    count: int
    """Blocks of a channel."""

    @classmethod
    def of(cls, problem: Filter1d, points: int) -> LongBlocks | None:
        """The fewest blocks of `points` complex numbers, with the best alignment that takes no more; None if a block
        has no output.
        """
        samples, span = points * samples_of_point(problem), span_of(problem)
        for grain in (*GRAINS, 1):
            ahead = problem.first_lag % grain
            if _is_one(problem, samples, ahead):
                return cls(samples, ahead, span, 1)
        most = (samples - problem.taps + 1) // problem.down * problem.down
        if most < 1:
            return None
        count = ceil(span / most)
        for grain in (*GRAINS, 1):
            multiple = grain * problem.down
            ahead = problem.first_lag % grain
            step = ceil(ceil(span / count) / multiple) * multiple
            if step + ahead <= samples - problem.taps + 1:
                return cls(samples, ahead, step, count)
        return cls(samples, 0, most, count)


def _is_one(problem: Filter1d, samples: int, ahead: int) -> bool:
    """True if a channel is one block of `samples`: they reach its last window's, and zeros before the signal keep the
    outputs apart from those that wrapped samples touch.
    """
    first, span = problem.first_lag - ahead, span_of(problem)
    reach = min(problem.signal, problem.first_lag + span - 1 + problem.taps) - first
    zeros = max(0, -first)
    return reach <= samples and span <= min(samples, samples - problem.taps + 1 - ahead + zeros)


def samples_of_point(problem: Filter1d) -> int:
    """Samples that a complex number of a block stands for."""
    return 1 if problem.dtype is DType.COMPLEX64 else 2


@dataclasses.dataclass(frozen=True)
class Filter1dFftLongGeometry:
    """Sizes of one config; a line is the matrix of a block, `columns` and `rows` are the lines of a job's tile."""

    blocks: LongBlocks
    columns: Lines
    """Columns of a job, side by side."""
    rows: Lines
    """Rows of a job, one after the other."""
    twiddles: Twiddles
    streaming: bool
    min_blocks: int
    """Thread blocks that an SM must hold."""
    thread_blocks: int
    lag: int
    """Blocks between the columns and the rows of a moment, and between these and the results."""
    spectra: Spectra
    taps: int
    first: int
    """First sample of the first block; negative before the signal."""
    span: int
    """Outputs of a channel before every `down`-th one is kept."""
    down: int
    batch: int
    channels: int
    filters: int
    is_complex: bool
    loads_pairs = False
    stores_pairs = False
    is_half = False

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dFftLongGeometry:
        columns, rows = config.text("columns"), config.text("rows")
        blocks = LongBlocks.of(problem, points_of(columns) * points_of(rows))
        assert blocks is not None  # a constraint of the space
        threads = config.integer("threads")
        return cls(
            blocks=blocks,
            columns=columns_of(columns, config.integer("width"), threads),
            rows=rows_of(rows, config.integer("height"), threads),
            twiddles=Twiddles(config.text("twiddles")),
            streaming=config.text("store") == "streaming",
            min_blocks=config.integer("min_blocks"),
            thread_blocks=config.integer("blocks"),
            lag=config.integer("lag"),
            spectra=Spectra(config.text("spectra")),
            taps=problem.taps,
            first=problem.first_lag - blocks.ahead,
            span=span_of(problem),
            down=problem.down,
            batch=problem.batch,
            channels=problem.channels,
            filters=problem.filters,
            is_complex=problem.dtype is DType.COMPLEX64,
        )

    @property
    def points(self) -> int:
        """Complex numbers of a block."""
        return self.columns.points * self.rows.points

    @property
    def lines(self) -> int:
        """Blocks of all channels."""
        return self.batch * self.channels * self.blocks.count

    @property
    def are_made_once(self) -> bool:
        """True if launches of their own make the filters' spectra."""
        return self.spectra is Spectra.FIRST

    @cached_property
    def pairs(self) -> Lines:
        """Rows of a job, and after them the same rows of their filters."""
        return dataclasses.replace(self.rows, count=2 * self.rows.count)

    @property
    def slots(self) -> int:
        """Blocks whose matrices are in the workspace at a time."""
        return slots_of(self.lag, self.lines)

    @property
    def column_jobs(self) -> int:
        """Jobs of a block's columns, and of its results."""
        return self.rows.points // self.columns.count

    @property
    def forward_jobs(self) -> int:
        """Jobs of a block's columns, and of its filter's if that is transformed with it."""
        return self.column_jobs * (1 if self.are_made_once else 2)

    @property
    def row_jobs(self) -> int:
        return self.columns.points // self.rows.count

    @property
    def shared_bytes(self) -> int:
        rows = self.rows if self.are_made_once else self.pairs
        return max(self.columns.shared_bytes, rows.shared_bytes)

    @property
    def work_bytes(self) -> int:
        """Matrices in the workspace, each with its filter's if that is transformed with it."""
        return COMPLEX_BYTES * self.slots * self.slot_points

    @property
    def slot_points(self) -> int:
        return self.points * (1 if self.are_made_once else 2)

    @property
    def spectrum_bytes(self) -> int:
        return COMPLEX_BYTES * self.filters * self.points

    @property
    def counters(self) -> int:
        """Counters of jobs: one of those taken, three of each block's finished ones, and a flag of each block."""
        return 1 + 4 * self.lines

    @property
    def progress_bytes(self) -> int:
        return counter_bytes(self.counters)

    @property
    def jobs(self) -> int:
        return self.lines * (self.forward_jobs + self.row_jobs + self.column_jobs)

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernels do."""
        n1, n2 = self.columns.points, self.rows.points
        packed = (
            f"A block of complex samples is a matrix of {n1} x {n2}."
            if self.is_complex
            else f"Samples m and m + {self.points} of a block are one number of a matrix of {n1} x {n2}: negacyclic."
        )
        return (
            f"Overlap-discard: blocks of {self.blocks.samples} samples, {self.blocks.step} outputs each.",
            packed,
            "Jobs of one launch transform columns, then rows, which they multiply by the filter's and transform back,",
            "then columns back, whose outputs they store. Matrices wait in a workspace that is to stay in L2.",
        )


def columns_of(radices: str, width: int, threads: int) -> Lines:
    """`width` columns side by side, which share memory transactions."""
    factors = radices_of(radices)
    return Lines(axis_of(factors, width), width, True, threads)


def rows_of(radices: str, height: int, threads: int) -> Lines:
    """`height` rows, one after the other."""
    factors = radices_of(radices)
    return Lines(axis_of(factors, 1, True), height, False, threads, spreads=True)


def slots_of(lag: int, lines: int) -> int:
    """Matrices in the workspace: those of two lags, the one that is filled, and one that is emptied meanwhile."""
    return min(lines, 2 * lag + 2)


def is_contiguous(problem: Filter1d) -> bool:
    return problem.layout is SignalLayout.BCT
