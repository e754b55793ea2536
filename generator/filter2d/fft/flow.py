"""All chunks of tiles in one launch: the order of its jobs, and what waits for what.

A job is what one block does at a time: some rows forward, some columns, or some rows backward, of one chunk. Blocks
take jobs in one order. A turn of it has the rows of a chunk, the columns of the chunk before, and the results of the
one before that, so that what a job waits for was taken a whole turn earlier, and is mostly done when it is needed.

A block waits for earlier jobs only, and does its jobs in their order. So the earliest job that is not done waits for
none, and some block is at it: however few blocks run at a time, the next job gets done.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.filter2d.fft.geometry import Geometry
from warpsmith.generator.progress import counter_bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Gap:
    """Jobs that no chunk has: before the first one's and behind the last one's."""

    start: int
    jobs: int


@dataclasses.dataclass(frozen=True, slots=True)
class Flow:
    """The jobs of one launch."""

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
        """All of a chunk's, in the order of a turn."""
        return self.rows, self.columns, self.results

    @property
    def turn(self) -> int:
        """Jobs of a whole turn."""
        return sum(self.parts)

    @property
    def jobs(self) -> int:
        """Of all chunks. Those of the last one that have no item do nothing."""
        return self.turn * len(self.geometry.chunks)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What a job's number has to skip, in ascending order, to be a place in turns that are all whole."""
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
        """The jobs that are taken, and of each chunk and part those that are done."""
        return 1 + len(self.parts) * len(self.geometry.chunks)

    @property
    def counter_bytes(self) -> int:
        return counter_bytes(self.counters)
