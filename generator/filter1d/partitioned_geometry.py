"""Geometry of one config of `filter1d_partitioned` on one problem: partitions of the filter, lines, thread blocks.

A partition is `part_taps` consecutive taps. Its outputs are the first `samples` of a circular convolution as long as a
line, that no wrapped sample touches. A line of real samples has two partitions: the samples of the first are its real
part and those of the second its imaginary part. With taps g = h1 - i h2 the real part of the convolution of x1 + i x2
with g is x1 * h1 + x2 * h2, the sum of both, so that a line costs one complex product for each frequency.
"""

from __future__ import annotations

import dataclasses
import textwrap
from math import ceil

from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.states import state_width
from warpsmith.generator.filter1d.text import is_strict
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.lines import Lines, axis_of, radices_of
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

COLUMNS = 32
"""Samples of a thread block that adds the parts' sums."""
MOST_GROUPS = 32
"""Most threads that add the parts of one output."""
GROUP_PARTS = 4
"""Parts that a thread adds, as long as there are no more than MOST_GROUPS such threads: their loads overlap."""


def part_taps(points: int, samples: int) -> int:
    """Taps of a partition: so many that `samples` outputs of a line of `points` are valid; not above 0 if none are."""
    return points - samples + 1


def line_taps(problem: Filter1d, points: int) -> int:
    """Taps of a line: one partition of complex samples, or two of real ones."""
    return part_taps(points, problem.signal) * (1 if problem.dtype is DType.COMPLEX64 else 2)


def lines_of_filter(problem: Filter1d, points: int) -> int:
    """Lines of `points` complex numbers that all taps of a filter take."""
    return ceil(problem.taps / line_taps(problem, points))


def writes_ring(problem: Filter1d) -> bool:
    """True if the launch that adds the parts also writes the new samples into a circular state.

    A strict problem's launch may still read older samples, so its ring must have room for both.
    """
    has_room = state_width(problem) >= problem.taps - 1 + problem.signal
    return problem.circular and (has_room or not is_strict(problem))


@dataclasses.dataclass(frozen=True, slots=True)
class PartitionedGeometry:
    """Sizes in samples, lines and threads."""

    lines: Lines
    twiddles: Twiddles
    samples: int
    """Samples of the chunk."""
    taps: int
    part_taps: int
    line_taps: int
    line_count: int
    """Lines of a filter."""
    block_lines: int
    """Lines whose products a thread block adds, before it transforms the sum back."""
    is_early: bool
    """True if a thread loads its factors before the samples are transformed, into registers of their own."""
    rows: int
    channels: int
    filters: int
    is_complex: bool
    number_bytes: int
    """Bytes of a sum: float32 or complex64."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> PartitionedGeometry:
        radices, is_complex = radices_of(config.text("radices")), problem.dtype is DType.COMPLEX64
        lines = Lines(axis_of(radices, 1, True), 1, False, config.integer("threads"), spreads=True)
        return cls(
            lines=lines,
            twiddles=Twiddles(config.text("twiddles")),
            samples=problem.signal,
            taps=problem.taps,
            part_taps=part_taps(lines.points, problem.signal),
            line_taps=line_taps(problem, lines.points),
            line_count=lines_of_filter(problem, lines.points),
            block_lines=config.integer("block_lines"),
            is_early=config.text("factors") == "early",
            rows=problem.rows,
            channels=problem.channels,
            filters=problem.filters,
            is_complex=is_complex,
            number_bytes=8 if is_complex else 4,
        )

    @property
    def points(self) -> int:
        """Complex numbers of a line."""
        return self.lines.points

    @property
    def reach(self) -> int:
        """Samples from the first one of a line to its last one, both included."""
        return self.points if self.is_complex else self.part_taps + self.points

    @property
    def last_items(self) -> int:
        """Transforms of the last pass, whose frequencies a thread each adds in registers."""
        return self.points // self.lines.axis.radices[-1]

    @property
    def parts(self) -> int:
        """Thread blocks of a channel; each makes a sum of all its outputs."""
        return ceil(self.line_count / self.block_lines)

    @property
    def blocks(self) -> int:
        return self.rows * self.parts

    @property
    def spectrum_bytes(self) -> int:
        """Bytes of all filters' spectra."""
        return COMPLEX_BYTES * self.filters * self.line_count * self.points

    @property
    def sum_bytes(self) -> int:
        """Bytes of the parts' sums."""
        return self.number_bytes * self.blocks * self.samples

    @property
    def chunk_bytes(self) -> int:
        """Bytes that a chunk reads if no cache keeps any: the spectra, and a chunk's and its past's samples once."""
        return self.spectrum_bytes + self.number_bytes * self.rows * (self.taps - 1 + self.samples)

    @property
    def groups(self) -> int:
        """Threads that add the parts of one output: a power of two."""
        groups = 1
        while groups < MOST_GROUPS and groups * GROUP_PARTS < self.parts:
            groups *= 2
        return groups

    @property
    def columns(self) -> int:
        """Samples of a thread block that adds parts."""
        return COLUMNS

    @property
    def finish_threads(self) -> int:
        """Threads of a block that adds parts: at least two warps, which share the repair of outputs."""
        return COLUMNS * max(2, self.groups)

    @property
    def row_blocks(self) -> int:
        """Thread blocks that add the parts of one channel."""
        return ceil(self.samples / COLUMNS)

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernels do."""
        kind = "a partition" if self.is_complex else "two partitions, as real and imaginary part"
        some = "a line" if self.block_lines == 1 else f"{self.block_lines} lines"
        text = (
            f"Overlap-discard with a partitioned filter: {self.line_count} lines of {self.points} complex numbers, "
            f"each {kind}. A thread block transforms the samples of {some}, adds the products with the filter's "
            "spectra, and transforms the sum back. A second launch adds the sums of all thread blocks of a channel, "
            "and stores the outputs."
        )
        return tuple(textwrap.wrap(text, 112))
