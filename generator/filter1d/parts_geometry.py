"""Geometry of one config of `filter1d_parts` on one problem: blocks of both signals, intervals, lines and launches."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator

from warpsmith.generator.fft.text import Twiddles
from warpsmith.generator.filter1d.divisions import Divisions, PartCounts
from warpsmith.generator.filter1d.fft_geometry import span_of
from warpsmith.generator.filter1d.lags_geometry import lines_of
from warpsmith.generator.filter1d.overlap import ceil_div
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.problem import DType
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.lines import Lines, radices_of
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

THREADS = 256
"""Threads of a block that sums taps, and of one that adds buffers."""
NO_LINES = "none"
"""Radices of a way without transforms."""


class Way(enum.StrEnum):
    """The document's ways to convolve two long sequences in parts."""

    BLOCKS = "blocks"
    """Overlap-discard with one block of taps after the other; the results accumulate."""
    SPACE = "space"
    """All pairs of blocks, tap by tap."""
    PAIRS = "pairs"
    """Spectra of all blocks once, and an inverse transform for each pair."""
    DIVISIONS = "divisions"
    """Spectra of all blocks once, and an inverse transform for each interval of each division."""

    @property
    def transforms(self) -> bool:
        return self in (Way.PAIRS, Way.DIVISIONS)


class Accumulation(enum.StrEnum):
    """Way in which sums that reach one output are added."""

    REGISTERS = "registers"
    """A thread block makes all of them (Way.BLOCKS)."""
    SEQUENTIAL = "sequential"
    """A launch for each division adds to the result."""
    BUFFERS = "buffers"
    """Each division has a buffer of its own, and a last launch adds these."""


@dataclasses.dataclass(frozen=True, slots=True)
class DivisionPart:
    """Intervals of one division that the kernels make."""

    division: int
    numbers: range
    begin: int
    """Number of the first of them, counted over all divisions."""

    @property
    def end(self) -> int:
        return self.begin + len(self.numbers)


def divisions_of(problem: Filter1d, signal_block: int, taps_block: int) -> Divisions:
    """Divisions of a filter: the signal is the first sequence, the taps in the order of a convolution the second."""
    begin = problem.first_lag + problem.taps - 1
    return Divisions(problem.signal, problem.taps, signal_block, taps_block, begin, begin + span_of(problem))


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dPartsGeometry:
    """Sizes in elements. Element n of the full convolution is the output of lag n - taps + 1."""

    way: Way
    accumulation: Accumulation
    signal_block: int
    taps_block: int
    span: int
    """Outputs of a channel before every `down`-th one is kept."""
    divisions: Divisions | None
    """None for Way.BLOCKS."""
    lines: Lines | None
    """The line of a thread block; None without transforms."""
    packed: int
    """Blocks of a line: two of real elements, or one of complex elements."""
    number_bytes: int
    rows: int
    filters: int
    signal: int
    taps: int
    first_lag: int
    outputs: int

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dPartsGeometry:
        way, is_complex = Way(config.text("way")), problem.dtype is DType.COMPLEX64
        blocks = config.integer("signal_block"), config.integer("taps_block")
        return cls(
            way=way,
            accumulation=Accumulation(config.text("accumulation")),
            signal_block=blocks[0],
            taps_block=blocks[1],
            span=span_of(problem),
            divisions=None if way is Way.BLOCKS else divisions_of(problem, *blocks),
            lines=lines_of(radices_of(config.text("radices")), 1) if way.transforms else None,
            packed=1 if is_complex else 2,
            number_bytes=COMPLEX_BYTES if is_complex else COMPLEX_BYTES // 2,
            rows=problem.rows,
            filters=problem.filters,
            signal=problem.signal,
            taps=problem.taps,
            first_lag=problem.first_lag,
            outputs=problem.result_length,
        )

    @property
    def twiddles(self) -> Twiddles:
        return Twiddles.POWERS

    @property
    def threads(self) -> int:
        """Threads of a block that makes outputs."""
        return self.lines.threads if self.lines else THREADS

    @property
    def needed(self) -> Divisions:
        """The divisions of a way that has any."""
        if self.divisions is None:
            raise ValueError(f"way {self.way} has no divisions")
        return self.divisions

    @property
    def points(self) -> int:
        """Complex numbers of a line; 0 without transforms."""
        return self.lines.points if self.lines else 0

    @property
    def length(self) -> int:
        """Sums of a thread block: an interval, or the outputs of a block."""
        return self.signal_block if self.way is Way.BLOCKS else self.needed.length

    @property
    def own(self) -> int:
        """Sums of a thread that sums taps."""
        return ceil_div(self.length, THREADS)

    @property
    def factors(self) -> int:
        """Elements of the block whose elements all sums multiply: taps for Way.BLOCKS, else samples."""
        return self.taps_block if self.way is Way.BLOCKS else self.signal_block

    @property
    def places(self) -> int:
        """Elements of the other sequence in shared memory, those under the windows of sums that do not exist too."""
        return self.own * THREADS + self.factors - 1

    @property
    def shared_bytes(self) -> int:
        """Static shared memory of a block that sums taps, or dynamic shared memory of one that transforms."""
        return self.lines.shared_bytes if self.lines else self.number_bytes * (self.places + self.factors)

    @property
    def taps_blocks(self) -> int:
        return ceil_div(self.taps, self.taps_block)

    @property
    def parts(self) -> tuple[DivisionPart, ...]:
        """Intervals that are made. A first division that stores outputs has all intervals, also those without pairs."""
        made, begin, found = self.needed, 0, []
        for division in range(made.count):
            numbers = made.numbers(division)
            if division == 0 and self.accumulation is Accumulation.SEQUENTIAL:
                numbers = range(made.begin // made.step, (made.end - 1) // made.step + 1)
            if numbers:
                found.append(DivisionPart(division, numbers, begin))
                begin += len(numbers)
        return tuple(found)

    @property
    def intervals(self) -> int:
        """Intervals of a channel, in all divisions."""
        return self.parts[-1].end if self.parts else 0

    @property
    def groups(self) -> int:
        """Thread blocks that make sums for a channel."""
        return ceil_div(self.span, self.signal_block) if self.way is Way.BLOCKS else self.intervals

    @property
    def buffer_elements(self) -> int:
        """Sums of all intervals of all channels, if divisions have buffers of their own."""
        return self.rows * self.intervals * self.length if self.accumulation is Accumulation.BUFFERS else 0

    @property
    def ratio(self) -> int:
        """Blocks of the signal that are as long as one of the taps."""
        return self.needed.ratio

    @property
    def signal_lines(self) -> int:
        """Lines of a channel: blocks i and i + ratio are one, for even i // ratio, or each block of complex samples."""
        blocks = self.needed.first_blocks
        return blocks if self.packed == 1 else ceil_div(blocks, 2 * self.ratio) * self.ratio

    @property
    def taps_lines(self) -> int:
        """Lines of a filter: block j and the one before it are line j, or each block of complex samples is one."""
        return self.needed.second_blocks + self.packed - 1

    @property
    def units(self) -> range:
        """Beginnings of all intervals, in blocks of the signal."""
        starts = [
            self.needed.start(each.division, number) // self.signal_block
            for each in self.parts
            for number in (each.numbers[0], each.numbers[-1])
        ]
        return range(min(starts), max(starts) + 1)

    @property
    def needed_signal_lines(self) -> range:
        """Lines of the signal that some pair of the slice needs; the others are never computed."""
        first = max(0, self.units[0] - (self.needed.second_blocks - 1) * self.ratio)
        last = min(self.needed.first_blocks - 1, self.units[-1])
        if self.packed == 1:
            return range(first, max(first, last + 1))
        period = 2 * self.ratio
        return range(first // period * self.ratio, min(self.signal_lines, (last // period + 1) * self.ratio))

    @property
    def needed_taps_lines(self) -> range:
        """Lines of the taps that some pair of the slice needs."""
        first = max(0, ceil_div(self.units[0] - self.needed.first_blocks + 1, self.ratio))
        last = min(self.needed.second_blocks - 1, self.units[-1] // self.ratio)
        return range(first, max(first, last + self.packed))

    @property
    def spectrum_lines(self) -> int:
        """Lines that are transformed, of all channels and filters."""
        return self.rows * len(self.needed_signal_lines) + self.filters * len(self.needed_taps_lines)

    @property
    def pairs(self) -> int:
        """Pairs of blocks of a channel that meet the slice; blocks of taps of all blocks of outputs for Way.BLOCKS."""
        if self.way is Way.BLOCKS:
            return sum(self.met(group) for group in range(self.groups))
        return sum(map(self.pairs_at, self._interval_units))

    @property
    def _interval_units(self) -> Iterator[int]:
        """Beginnings of all intervals in blocks of the signal."""
        starts = (self.needed.start(each.division, r) for each in self.parts for r in each.numbers)
        return (start // self.signal_block for start in starts)

    def pairs_at(self, unit: int) -> int:
        """Pairs of the interval that begins at `unit` blocks of the signal."""
        return len(self._taps_at(unit))

    def products_at(self, unit: int) -> int:
        """Products of lines of that interval: a line of the signal has even i // ratio, which may take a pair more."""
        blocks = self._taps_at(unit)
        if self.packed == 1 or not blocks:
            return len(blocks)
        return ceil_div(len(blocks) + (blocks[-1] - unit // self.ratio) % 2, 2)

    def _taps_at(self, unit: int) -> range:
        """Blocks of taps of the pairs of an interval."""
        lowest = max(0, ceil_div(unit - self.needed.first_blocks + 1, self.ratio))
        return range(lowest, max(lowest, min(self.needed.second_blocks - 1, unit // self.ratio) + 1))

    def met(self, group: int) -> int:
        """Blocks of taps under which a block of outputs has samples (Way.BLOCKS)."""
        first, reach = self.first_lag + group * self.signal_block, self.signal_block + self.taps_block - 1
        begin = 0 if first + reach > 0 else -(first + reach) // self.taps_block + 1
        end = 0 if first >= self.signal else (self.signal - first - 1) // self.taps_block + 1
        return max(0, min(end, self.taps_blocks) - begin)

    @property
    def launches(self) -> int:
        if self.way is Way.BLOCKS:
            return 1
        return self.way.transforms + (2 if self.accumulation is Accumulation.BUFFERS else len(self.parts))

    @property
    def counts(self) -> PartCounts:
        """Counts of the kernels for one channel and one filter; what the additions of buffers move is left out."""
        writes = self.intervals * self.length if self.divisions else self.span
        if self.lines is None:
            tile = self.taps_block if self.divisions else self.signal_block + self.taps_block - 1
            return PartCounts(
                groups=self.groups,
                pairs=self.pairs,
                transforms=0,
                inverses=0,
                global_reads=self.pairs * (self.factors + tile),
                global_writes=writes,
                local_elements=self.places + self.factors,
                launches=self.launches,
            )
        products = sum(map(self.products_at, self._interval_units))
        lines = len(self.needed_signal_lines), len(self.needed_taps_lines)
        return PartCounts(
            groups=self.groups + sum(lines),
            pairs=self.pairs,
            transforms=sum(lines),
            inverses=self.intervals if self.way is Way.DIVISIONS else products,
            global_reads=self.packed * (lines[0] * self.signal_block + lines[1] * self.taps_block)
            + 2 * self.points * products,
            global_writes=self.points * sum(lines) + writes,
            local_elements=self.points,
            launches=self.launches,
        )

    @property
    def summary(self) -> tuple[str, ...]:
        """Header lines that say what the kernels do."""
        blocks = f"Convolution in parts: blocks of {self.signal_block} samples and of {self.taps_block} taps."
        if self.way is Way.BLOCKS:
            return (
                f"Convolution in parts: a thread block makes {self.signal_block} outputs from one block of",
                f"{self.taps_block} taps after the other.",
            )
        each = {
            Way.SPACE: "A thread block multiplies the pairs of blocks of an interval of the result, tap by tap.",
            Way.PAIRS: "Spectra of all blocks are made once. Each product of an interval is transformed back.",
            Way.DIVISIONS: "Spectra of all blocks are made once. Each interval's sum of products is transformed back.",
        }[self.way]
        added = {
            Accumulation.SEQUENTIAL: "The divisions of the result are added one after the other.",
            Accumulation.BUFFERS: "Each division of the result has a buffer of its own; a last launch adds them.",
        }[self.accumulation]
        return (blocks, each, added)
