"""CUDA text of a config of `filter1d_fft_long`: the values that its template takes as `g`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property

from warpsmith.generator.canonical import as_float32
from warpsmith.generator.fft.axes import root
from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.text import Table
from warpsmith.generator.filter1d.fft_long_geometry import Filter1dFftLongGeometry
from warpsmith.generator.render import float_literal
from warpsmith.generator.tiles.lines_text import IndexText, LinesText, StepText


@dataclasses.dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive rounds of jobs with the same parts: columns, rows, results, or some of them."""

    start: int
    """First job."""
    end: int
    """First job of the next stretch."""
    round: int
    """First round; round t has the columns of block t, the rows of an earlier one and the results of one before it."""
    jobs: int
    """Jobs of a round."""
    skipped: int
    """Jobs of a whole round that are missing before these."""


@dataclasses.dataclass(frozen=True, slots=True)
class Factor:
    """Factor of frequency `number` of a column: a product of two others, or a root of its own for number 0."""

    number: int
    of: int
    power: int
    """Power of the ratio of neighbouring factors, 2^j, by which the other is multiplied."""


@dataclasses.dataclass(frozen=True)
class Filter1dFftLongText(IndexText):
    """Passes of columns and rows, their tables, the order of jobs, and the transforms within a thread."""

    passes: Filter1dFftLongGeometry

    @cached_property
    def columns(self) -> LinesText:
        return LinesText(self.passes.columns, self.passes.twiddles)

    @cached_property
    def rows(self) -> LinesText:
        return LinesText(self.passes.rows, self.passes.twiddles)

    @cached_property
    def pairs(self) -> LinesText:
        return LinesText(self.passes.pairs, self.passes.twiddles)

    @cached_property
    def codelets(self) -> tuple[Codelet, ...]:
        radices = (*self.passes.columns.axis.radices, *self.passes.rows.axis.radices)
        return codelets(frozenset(radices), inverse=False)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Tables of twiddles, each once."""
        steps = (*self.columns.steps, *self.rows.steps)
        return tuple({step.table: step.twiddles for step in steps if step.powers}.values())

    @cached_property
    def twist(self) -> Table:
        """Factors of the first samples of a matrix's rows, which make a cyclic transform negacyclic."""
        n = self.passes.columns.points
        return Table.of("kTwist", [root(-m, 4 * n) for m in range(n)], f"exp(-pi i m / {2 * n}) for m = 0 to {n - 1}.")

    @property
    def scale(self) -> str:
        """Literal factor of the taps, which undoes the factor of both transforms.

        Its sign is that of samples which a negacyclic convolution wraps.
        """
        return float_literal((1 if self.passes.is_complex else -1) / self.passes.points)

    @property
    def half_turns(self) -> tuple[str, str]:
        """Half turns of the angle 2 pi / (4 points), rounded to float32, and what rounding lost."""
        exact = 2 / (4 * self.passes.points)
        rounded = as_float32(exact, "angle")
        return float_literal(rounded), float_literal(exact - rounded)

    @property
    def is_exact(self) -> bool:
        """True if every angle is a float32 number of half turns, as it is for up to 2^22 points, a power of two."""
        points = self.passes.points
        return points & (points - 1) == 0 and points <= 1 << 22

    @property
    def is_split(self) -> bool:
        """True if float32 does not hold every number of angles."""
        return 4 * self.passes.points > 1 << 24

    @staticmethod
    def factors(step: StepText) -> tuple[Factor, ...]:
        """Factors of the frequencies of one item of the last pass, each soon after the one that it is made of, so that
        few are in registers at a time.
        """

        def made_of(number: int, powers: tuple[int, ...]) -> Iterator[Factor]:
            for place, power in enumerate(powers):
                if number + power < step.first:
                    yield Factor(number + power, number, power)
                    yield from made_of(number + power, powers[:place])

        return tuple(made_of(0, Filter1dFftLongText.ratios(step)))

    @staticmethod
    def ratios(step: StepText) -> tuple[int, ...]:
        """Powers of the ratio of neighbouring factors that are needed; 1, 4 and 16 are roots, others squares."""
        return tuple(1 << j for j in range((step.first - 1).bit_length()))

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """Jobs in the order in which blocks take them."""
        at = self.passes
        lag, lines = at.lag, at.lines
        parts = (at.forward_jobs, at.row_jobs, at.column_jobs)
        bounds = (0, lag, 2 * lag, lines, lines + lag, lines + 2 * lag)
        present = ((0, 1), (0, 2), (0, 3), (1, 3), (2, 3))
        found: list[Stretch] = []
        job = 0
        for first, end, (left, right) in zip(bounds, bounds[1:], present, strict=False):
            jobs = sum(parts[left:right])
            if end > first:
                found.append(Stretch(job, job + (end - first) * jobs, first, jobs, sum(parts[:left])))
                job = found[-1].end
        return tuple(found)
