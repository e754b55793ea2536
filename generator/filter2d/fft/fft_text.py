"""CUDA text of a config of `filter2d_fft`: the values that its template takes as `g`."""

from __future__ import annotations

import dataclasses
from functools import cached_property

from warpsmith.generator.fft.axes import Pass, modulo, quotient, root
from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.text import Power, Table, Twiddles, powers_of
from warpsmith.generator.filter2d.fft.fft_geometry import Filter2dFftGeometry, Lines
from warpsmith.generator.render import float_literal
from warpsmith.generator.steps import counter_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """Jobs missing in the first and the last turns, which have only some of the parts."""

    start: int
    jobs: int


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """Jobs of one launch that does all chunks of tiles: their order, and their dependencies.

    A job is the work of one block at a time: some rows forward, some columns, or some rows backward, of one chunk.
    Blocks take jobs in one fixed order. A turn of that order has the rows of one chunk, the columns of the chunk before
    it, and the results of the chunk before that. A job thus depends on jobs taken a whole turn earlier, which are
    mostly done when it starts.

    A block waits for earlier jobs only, and does its jobs in their order. So the earliest unfinished job waits for
    none, and some block runs it: however few blocks run at a time, there is no deadlock.
    """

    geometry: Filter2dFftGeometry

    @property
    def rows(self) -> int:
        """Jobs of a chunk that transform rows forward."""
        return self.geometry.row_blocks * self.geometry.chunk

    @property
    def columns(self) -> int:
        return self.geometry.column_blocks * self.geometry.chunk

    @property
    def results(self) -> int:
        return self.geometry.result_blocks * self.geometry.chunk

    @property
    def parts(self) -> tuple[int, int, int]:
        """Jobs of a chunk by part, in the order of a turn."""
        return self.rows, self.columns, self.results

    @property
    def turn(self) -> int:
        """Jobs of a whole turn."""
        return sum(self.parts)

    @property
    def jobs(self) -> int:
        """Jobs of all chunks. Jobs of the last chunk that have no item do nothing."""
        return self.turn * len(self.geometry.chunks)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Gaps in ascending order that map a job's number to its place in an order where all turns are whole."""
        chunks, found = len(self.geometry.chunks), []
        for turn in sorted({0, 1, chunks, chunks + 1}):
            start = turn * self.turn
            for lag, jobs in enumerate(self.parts):
                if not 0 <= turn - lag < chunks:
                    found.append(Gap(start, jobs))
                start += jobs
        return tuple(found)

    @property
    def counters(self) -> int:
        """Number of counters: one for the jobs taken, and one for the jobs done of each chunk and part."""
        return 1 + len(self.parts) * len(self.geometry.chunks)

    @property
    def counter_bytes(self) -> int:
        return counter_bytes(self.counters)


@dataclasses.dataclass(frozen=True, slots=True)
class StepText:
    """One pass over lines."""

    number: int
    first: int
    """Radix of the pass."""
    second: int
    """Values of the digits still to come, on which twiddles depend."""
    items: int
    """Transforms per line."""
    element: int
    """Complex numbers from one element of a transform to the next."""
    place: str
    """CUDA expression of the place in shared memory where item `item` of line `line` begins."""
    later: str
    """CUDA definitions of an item's digits."""
    table: str
    """Name of the table of twiddles; the last pass has none."""
    powers: tuple[Power, ...]

    @classmethod
    def of(cls, number: int, step: Pass, lines: Lines, twiddles: Twiddles) -> StepText:
        width = lines.count if lines.side_by_side else 1
        order = step.radix * step.later
        earlier, later = quotient("item", step.later), modulo("item", step.later)
        if step.later == 1:
            later = "0"
        elif step.earlier == 1:
            earlier, later = "0", "item"
        terms = [
            place.text(name)
            for place, name, value in ((step.earlier_place, "p", earlier), (step.later_place, "q", later))
            if value != "0"
        ]
        inner = " + ".join(terms)
        inner = f"({inner}) * {width} + line" if width > 1 else f"line * {lines.pitch} + {inner}"
        names = [f"p = {earlier}"] * (earlier != "0") + [f"q = {later}"] * (later != "0")
        return cls(
            number=number,
            first=step.radix,
            second=step.later,
            items=lines.points // step.radix,
            element=step.element_place.at(1) * width,
            place=inner,
            later=", ".join(names),
            table=f"kTwiddles{step.radix}x{step.later}",
            powers=() if step.is_last else powers_of(step.radix, order, twiddles, -2),
        )

    @property
    def twiddles(self) -> Table:
        """Table of exp(-2 pi i k q / order), for the powers k that come from memory."""
        order = self.first * self.second
        exponents = [power.exponent for power in self.powers if power.row >= 0]
        values = [root(-exponent * q, order) for exponent in exponents for q in range(self.second)]
        listed = ", ".join(map(str, exponents))
        meaning = f"exp(-2 pi i k q / {order}) for k = {listed}, q = 0 to {self.second - 1}."
        return Table.of(self.table, values, meaning)


@dataclasses.dataclass(frozen=True)
class LinesText:
    """Lines and their passes."""

    lines: Lines
    twiddles: Twiddles

    @cached_property
    def steps(self) -> tuple[StepText, ...]:
        return tuple(
            StepText.of(number, step, self.lines, self.twiddles) for number, step in enumerate(self.lines.axis.passes)
        )

    @property
    def count(self) -> int:
        return self.lines.count

    @property
    def points(self) -> int:
        return self.lines.points

    @property
    def threads(self) -> int:
        return self.lines.threads

    @property
    def side_by_side(self) -> bool:
        return self.lines.side_by_side


@dataclasses.dataclass(frozen=True)
class FftText:
    """Lines of both axes, tables, and the transforms within a thread."""

    passes: Filter2dFftGeometry

    @cached_property
    def rows(self) -> LinesText:
        return LinesText(self.passes.rows, self.passes.twiddles)

    @cached_property
    def columns(self) -> LinesText:
        return LinesText(self.passes.columns, self.passes.twiddles)

    @cached_property
    def codelets(self) -> tuple[Codelet, ...]:
        radices = (*self.passes.rows.axis.radices, *self.passes.columns.axis.radices)
        return codelets(frozenset(radices), inverse=False)

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """Tables of twiddles, each once."""
        steps = (*self.rows.steps, *self.columns.steps)
        return tuple({step.table: step.twiddles for step in steps if step.powers}.values())

    @property
    def scale(self) -> str:
        """Literal factor of the filter's spectrum that undoes the factor of the forward and the inverse transform."""
        return float_literal(1 / (self.passes.rows.points * self.passes.columns.points))

    @staticmethod
    def over(number: str, divisor: int) -> str:
        """`number / divisor` in CUDA."""
        return quotient(number, divisor)

    @staticmethod
    def rest(number: str, divisor: int) -> str:
        """`number % divisor` in CUDA; "0" for a divisor of 1."""
        return "0" if divisor == 1 else modulo(number, divisor)
