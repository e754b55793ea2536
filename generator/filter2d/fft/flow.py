"""All chunks of tiles in one launch: the order of its jobs, and their dependencies.

A job is the work of one block at a time: some rows forward, some columns, or some rows backward, of one chunk. Blocks
take jobs in one fixed order. A turn of that order has the rows of one chunk, the columns of the chunk before it, and
the results of the chunk before that. A job thus depends on jobs taken a whole turn earlier, which are mostly done when
it starts.

A block waits for earlier jobs only, and does its jobs in their order. So the earliest unfinished job waits for none,
and some block runs it: however few blocks run at a time, there is no deadlock.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.filter2d.fft.fft_geometry import Geometry
from warpsmith.generator.steps import counter_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """Jobs missing in the first and the last turns, which have only some of the parts."""

    start: int
    jobs: int


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """Jobs of one launch."""

    geometry: Geometry

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
