"""CUDA text of a config of `filter2d_fft`: the values that its template takes as `g`."""

from __future__ import annotations

import dataclasses
from functools import cached_property

from warpsmith.generator.fft.codelets import Codelet, codelets
from warpsmith.generator.fft.text import Table
from warpsmith.generator.filter2d.fft.fft_geometry import Filter2dFftGeometry
from warpsmith.generator.render import float_literal
from warpsmith.generator.steps import counter_bytes
from warpsmith.generator.tiles.lines_text import IndexText, LinesText


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


@dataclasses.dataclass(frozen=True)
class FftText(IndexText):
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
