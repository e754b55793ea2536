"""Convolution of two long sequences in parts: pairs of blocks, and divisions of the result into intervals.

Block i of the first sequence and block j of the second one reach L1 + L2 - 1 elements of their convolution, from i L1 +
j L2 on. If L1 divides L2, the result can be divided in L2 / L1 + 1 ways into disjoint intervals, so that each pair
reaches one interval of one division. The spectra of an interval's pairs can then be added before one inverse transform.

Source: "Parallel filters", section 4.3, convolution in parts. It prints three figures that its own rules contradict:
L1 / L2 + 1 divisions instead of L2 / L1 + 1, ceil((N1 + N2 - L2) / (L1 + L2)) intervals for each division (5 where its
list has 6 for division 0), and half of all pairs, as if both sequences were one.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import NamedTuple

from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d.overlap import ceil_div


class Pair(NamedTuple):
    """A block of the first sequence and a block of the second one."""

    first: int
    second: int


@dataclasses.dataclass(frozen=True, slots=True)
class Divisions:
    """Divisions of the convolution of two sequences, and the intervals of each that a slice of the result needs.

    Raises:
        BadArgument: the blocks of the first sequence do not divide those of the second one, or the slice is empty or
            not a part of the full result.
    """

    first: int
    """Elements of the first sequence: N1."""
    second: int
    """Elements of the second sequence: N2."""
    first_block: int
    """Elements of a block of the first sequence: L1."""
    second_block: int
    """Elements of a block of the second sequence: L2, a multiple of L1."""
    begin: int
    """First element of the slice: 0 for the full convolution, N1 - 1 for the valid one if N1 <= N2."""
    end: int
    """End of the slice: N1 + N2 - 1 for the full convolution, N2 for the valid one."""

    def __post_init__(self) -> None:
        if min(self.first, self.second, self.first_block, self.second_block) < 1:
            raise BadArgument("sequences and their blocks must have 1 element at least")
        if self.second_block % self.first_block:
            raise BadArgument(
                f"blocks of {self.second_block} elements are no multiple of the other sequence's, {self.first_block}: "
                "a pair would reach two intervals"
            )
        full = self.first + self.second - 1
        if not 0 <= self.begin < self.end <= full:
            raise BadArgument(f"a slice must lie in 0 to {full}, its end included; got {self.begin} to {self.end}")

    @classmethod
    def full(cls, first: int, second: int, first_block: int, second_block: int) -> Divisions:
        """Divisions of the full convolution."""
        return cls(first, second, first_block, second_block, 0, first + second - 1)

    @classmethod
    def valid(cls, first: int, second: int, first_block: int, second_block: int) -> Divisions:
        """Divisions of the elements to which the whole first sequence contributes; it is the shorter one."""
        return cls(first, second, first_block, second_block, first - 1, second)

    @property
    def ratio(self) -> int:
        """Blocks of the first sequence that are as long as one of the second."""
        return self.second_block // self.first_block

    @property
    def count(self) -> int:
        """Number of divisions."""
        return self.ratio + 1

    @property
    def first_blocks(self) -> int:
        return ceil_div(self.first, self.first_block)

    @property
    def second_blocks(self) -> int:
        return ceil_div(self.second, self.second_block)

    @property
    def length(self) -> int:
        """Elements of an interval."""
        return self.first_block + self.second_block - 1

    @property
    def step(self) -> int:
        """Elements from the beginning of an interval to that of the next one of its division."""
        return self.first_block + self.second_block

    def printed(self, division: int) -> tuple[int, ...]:
        """Beginnings of a division's intervals, as the document lists them: all that begin in the full result."""
        return tuple(range(division * self.first_block, self.first + self.second - 1, self.step))

    def numbers(self, division: int) -> range:
        """Numbers of a division's intervals that meet the slice, up to the last one that has a pair."""
        start = division * self.first_block
        last_pair = (self.first_blocks - 1) * self.first_block + (self.second_blocks - 1) * self.second_block
        low = max(0, (self.begin - start - self.length) // self.step + 1)
        high = (min(self.end - 1, last_pair) - start) // self.step + 1
        return range(low, max(low, high))

    def start(self, division: int, number: int) -> int:
        """First element of an interval."""
        return division * self.first_block + number * self.step

    def pairs(self, start: int) -> tuple[Pair, ...]:
        """Pairs that reach the interval that begins at `start`, by ascending blocks of the first sequence."""
        unit = start // self.first_block
        lowest = max(0, ceil_div(unit - self.first_blocks + 1, self.ratio))
        highest = min(self.second_blocks - 1, unit // self.ratio)
        return tuple(Pair(unit - j * self.ratio, j) for j in range(highest, lowest - 1, -1))

    @property
    def intervals(self) -> tuple[tuple[Pair, ...], ...]:
        """Pairs of each interval that needs an inverse transform, division by division."""
        found = (self.pairs(self.start(each, r)) for each in range(self.count) for r in self.numbers(each))
        return tuple(pairs for pairs in found if pairs)


def spatial_multiply_adds(first: int, second: int, first_block: int, second_block: int) -> Fraction:
    """Multiply-adds of all pairs, (L1 + L2 - 1)^2 each, as the document counts them but for its leading 1/2."""
    ratio = Fraction(first_block, second_block)
    sizes = Fraction(1 - 2 * (first_block + second_block), first_block * second_block)
    return first * second * (ratio + 2 + 1 / ratio + sizes)


@dataclasses.dataclass(frozen=True, slots=True)
class PartCounts:
    """Counts of one way to convolve in parts, for one channel."""

    groups: int
    """Thread blocks that make outputs, in all launches."""
    pairs: int
    """Pairs of blocks that are multiplied."""
    transforms: int
    """Forward transforms of a block."""
    inverses: int
    global_reads: int
    """Samples, taps and, with transforms, complex numbers of spectra that thread blocks read."""
    global_writes: int
    """Complex numbers of spectra, and outputs that thread blocks store or add to."""
    local_elements: int
    """Elements of shared memory of a thread block."""
    launches: int
