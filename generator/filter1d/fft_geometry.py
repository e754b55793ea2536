"""Geometry of one config of `filter1d_fft` on one problem: blocks of a signal, and the lines that transform them.

A block is as many consecutive samples as a transform has points. Circular correlation with the filter leaves `valid`
outputs at its beginning that no wrapped sample touches; the next block begins `step` samples further on.
"""

from __future__ import annotations

import dataclasses
import enum
from math import ceil

from warpsmith.generator.fft.text import Packing, Twiddles
from warpsmith.generator.filter1d.fields import SignalLayout
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.lines import Lines, Radices, axis_of, points_of, radices_of
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

GRAINS = (64, 32, 16, 8, 4, 2)
"""Multiples, in outputs, that the distance of blocks is rounded down to, for aligned loads and stores."""
_MOST_LOST = 1 / 32
"""Largest share of a block's outputs that rounding may cost."""


def packings(problem: Filter1d) -> tuple[Packing, ...]:
    """Ways in which blocks become complex lines. Two channels never share a line."""
    if problem.dtype is DType.COMPLEX64:
        return (Packing.COMPLEX,)
    return (Packing.PAIR, Packing.HALF)


def samples_of(points: int, packing: Packing) -> int:
    """Samples of the block that a line of `points` complex numbers transforms."""
    return 2 * points if packing is Packing.HALF else points


def lines_of(radices: Radices, count: int, is_btc: bool, threads: int) -> Lines:
    """Lines of a thread block: one after the other, or side by side, a channel each."""
    return Lines(axis_of(radices, count if is_btc else 1, not is_btc), count, is_btc, threads, spreads=not is_btc)


def ahead_of(problem: Filter1d, packing: Packing) -> int:
    """Samples of a block before its first output's window: one aligns pairs of adjacent samples of an odd slice."""
    return problem.first_lag % 2 if packing is Packing.HALF and problem.layout is SignalLayout.BCT else 0


def step_of(problem: Filter1d, points: int, packing: Packing) -> int:
    """Outputs from block to block, of which every `down`-th is kept: a multiple of `down`; 0 if a block has too few."""
    valid = samples_of(points, packing) - ahead_of(problem, packing) - problem.taps + 1
    for grain in GRAINS:
        multiple = grain * problem.down
        if (step := valid // multiple * multiple) >= (1 - _MOST_LOST) * valid and step > 0:
            return step
    return max(0, valid // problem.down * problem.down)


def span_of(problem: Filter1d) -> int:
    """Outputs of a row before every `down`-th one is kept."""
    return (problem.result_length - 1) * problem.down + 1


class Coverage(enum.StrEnum):
    """Coverage of some samples of a block relative to the signal."""

    INSIDE = "inside"
    ACROSS = "across"
    OUTSIDE = "outside"


@dataclasses.dataclass(frozen=True, slots=True)
class LoadRun:
    """Consecutive loads of an item with one coverage."""

    start: int
    stop: int
    coverage: Coverage


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dFftGeometry:
    """Sizes in samples, outputs before every `down`-th one is kept, lines and threads."""

    lines: Lines
    packing: Packing
    twiddles: Twiddles
    streaming: bool
    min_blocks: int
    """Thread blocks that an SM must hold; 0 leaves it open."""
    taps: int
    ahead: int
    """Samples of a block before the window of its first output."""
    signal: int
    first: int
    """First sample of the first block; negative before the signal."""
    step: int
    """Outputs from block to block."""
    span: int
    """Outputs of a row."""
    down: int
    rows: int
    channels: int
    filters: int
    is_btc: bool
    loads_pairs: bool
    """True if two adjacent samples are one aligned load (Packing.HALF)."""
    guards_pairs: bool
    """True if these lie inside or outside of a row together."""
    stores_pairs: bool

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dFftGeometry:
        packing = Packing(config.text("packing"))
        radices, is_btc = radices_of(config.text("radices")), problem.layout is SignalLayout.BTC
        count = config.integer("lines")
        ahead, step = ahead_of(problem, packing), step_of(problem, points_of(config.text("radices")), packing)
        adjacent = packing is Packing.HALF and not is_btc and step % 2 == 0
        is_even, is_result_even = (problem.rows == 1 or each % 2 == 0 for each in pitches(problem))
        loads_pairs = adjacent and is_even
        return cls(
            lines=lines_of(radices, count, is_btc, config.integer("threads")),
            packing=packing,
            twiddles=Twiddles(config.text("twiddles")),
            streaming=config.text("store") == "streaming",
            min_blocks=config.integer("min_blocks"),
            taps=problem.taps,
            ahead=ahead,
            signal=problem.signal,
            first=problem.first_lag - ahead,
            step=step,
            span=span_of(problem),
            down=problem.down,
            rows=problem.rows,
            channels=problem.channels,
            filters=problem.filters,
            is_btc=is_btc,
            loads_pairs=loads_pairs,
            guards_pairs=loads_pairs and problem.signal % 2 == 0,
            stores_pairs=adjacent and is_result_even and problem.down == 1,
        )

    @property
    def points(self) -> int:
        """Complex numbers of a line."""
        return self.lines.points

    @property
    def samples(self) -> int:
        """Samples of a block."""
        return samples_of(self.points, self.packing)

    @property
    def is_pair(self) -> bool:
        """True if the real and the imaginary part are a block each."""
        return self.packing is Packing.PAIR

    @property
    def is_half(self) -> bool:
        """True if two adjacent samples are one complex number."""
        return self.packing is Packing.HALF

    @property
    def line_step(self) -> int:
        """Outputs from line to line of a row."""
        return 2 * self.step if self.is_pair else self.step

    @property
    def reach(self) -> int:
        """Samples from the first one of a line to its last one, both included."""
        return self.step + self.samples if self.is_pair else self.samples

    @property
    def row_lines(self) -> int:
        """Lines of a row."""
        return ceil(self.span / self.line_step)

    @property
    def groups(self) -> int:
        """Groups of channels side by side, one channel for each line of a thread block; 1 if `not is_btc`."""
        return ceil(self.channels / self.lines.count) if self.is_btc else 1

    @property
    def batch(self) -> int:
        return self.rows // self.channels

    @property
    def blocks(self) -> int:
        """Thread blocks that filter the signal."""
        if self.is_btc:
            return self.groups * self.row_lines * self.batch
        return ceil(self.rows * self.row_lines / self.lines.count)

    @property
    def are_all_lines(self) -> bool:
        """True if every line of every thread block exists."""
        if self.is_btc:
            return self.channels % self.lines.count == 0
        return self.rows * self.row_lines % self.lines.count == 0

    @property
    def spectrum_blocks(self) -> int:
        """Thread blocks that transform the filters."""
        return ceil(self.filters / self.lines.count)

    @property
    def spectrum_points(self) -> int:
        """Complex factors of one filter: two for each point if two adjacent samples are one complex number."""
        return self.points * (2 if self.is_half else 1)

    @property
    def spectrum_bytes(self) -> int:
        return COMPLEX_BYTES * self.filters * self.spectrum_points

    def runs(self, items: int, radix: int) -> tuple[LoadRun, ...]:
        """Loads of an item of the first pass, if a channel is one block: which of them meet the signal is known."""
        width = 2 if self.is_half else 1
        found: list[LoadRun] = []
        for k in range(radix):
            start = self.first + k * items * width
            end = start + items * width
            if end <= 0 or start >= self.signal:
                coverage = Coverage.OUTSIDE
            else:
                coverage = Coverage.INSIDE if start >= 0 and end <= self.signal else Coverage.ACROSS
            if found and found[-1].coverage is coverage:
                found[-1] = dataclasses.replace(found[-1], stop=k + 1)
            else:
                found.append(LoadRun(k, k + 1, coverage))
        return tuple(found)

    @property
    def is_one_block(self) -> bool:
        """True if a channel is one block, so that each load is known to meet the signal or not."""
        return self.row_lines == 1 and not self.is_pair

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernels do."""
        packed = {
            Packing.PAIR: "Two consecutive blocks of a channel are the real and the imaginary part of a complex line.",
            Packing.HALF: "Two adjacent samples are one complex number, so that a line has half as many as a block.",
            Packing.COMPLEX: "A block of complex samples is a line.",
        }[self.packing]
        return (
            f"Overlap-discard: blocks of {self.samples} samples, {self.step} outputs each.",
            packed,
            f"A thread block transforms {self.lines.count} lines in shared memory, multiplies them by the filter's",
            "spectrum, transforms them back and stores the outputs. Decimation in frequency leaves an order that",
            "decimation in time undoes; the filter's spectrum is made by the same passes.",
        )
