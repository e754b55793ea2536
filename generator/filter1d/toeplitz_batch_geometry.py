"""Geometry of `filter1d_toeplitz_batch`: tiles of samples of 64 rows, chunks of outputs, and the table of taps."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.space import Config

ROWS = 64
"""Rows of a block, which have one filter: M of wgmma."""
STEP = 16
"""Samples that a product sums over: K of wgmma."""
CORE = 8
"""Rows, and columns, of a core matrix of wgmma."""
CORE_BYTES = 128
WARPGROUP_THREADS = 128
PIECE = 256
"""Samples of each row that one group of asynchronous copies brings."""
EIGHT_SAMPLES = 16 * ROWS + 16
"""Bytes of shared memory for eight samples of all rows: a warp that copies one row meets no bank twice."""


def steps_of(problem: Filter1d, columns: int) -> int:
    """Products of a chunk of `columns` outputs along its windows, those without samples included."""
    return -(-(problem.first_lag % STEP + problem.taps + columns - 1) // STEP)


def filter_rows(problem: Filter1d) -> int:
    """Channels of all signals that share a filter."""
    return problem.batch * problem.channels // problem.filters


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dToeplitzBatchGeometry:
    """Geometry of one config on one problem. Lengths are in samples or outputs of one row, which is a channel of a
    signal; steps are groups of 16 samples, numbered from the first sample of the signal on.
    """

    rows: int
    """Rows that share a filter."""
    filters: int
    columns: int
    """Outputs of a chunk: N of wgmma."""
    groups: int
    """Warpgroups of a block."""
    chunks: int
    """Chunks of a block, which its warpgroups share."""
    outputs: int
    """Outputs of a row."""
    lead: int
    """Samples of the first step before the first window."""
    first_step: int
    """Step in which the first window begins."""
    steps: int
    """Steps of a chunk."""
    signal_steps: int
    """Steps of the signal."""
    held: int
    """Most steps of the samples of a block."""
    load_vector: int
    store_vector: int
    min_blocks: int

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dToeplitzBatchGeometry:
        names = ("columns", "groups", "chunks", "load_vector", "store_vector", "min_blocks")
        columns, groups, chunks, load_vector, store_vector, min_blocks = (config.integer(each) for each in names)
        return cls.shaped(problem, columns, groups, chunks, load_vector, store_vector, min_blocks)

    @classmethod
    def shaped(
        cls,
        problem: Filter1d,
        columns: int,
        groups: int,
        chunks: int,
        load_vector: int = 1,
        store_vector: int = 1,
        min_blocks: int = 0,
    ) -> Filter1dToeplitzBatchGeometry:
        lead = problem.first_lag % STEP
        made = cls(
            rows=filter_rows(problem),
            filters=problem.filters,
            columns=columns,
            groups=groups,
            chunks=chunks,
            outputs=problem.result_length,
            lead=lead,
            first_step=(problem.first_lag - lead) // STEP,
            steps=steps_of(problem, columns),
            signal_steps=-(-problem.signal // STEP),
            held=0,
            load_vector=load_vector,
            store_vector=store_vector,
            min_blocks=min_blocks,
        )
        return dataclasses.replace(made, held=made._most_held())

    def _steps_in(self, number: int, chunks: int) -> int:
        """Steps of samples that a group of chunks reads, those outside of the signal left out."""
        first = self.first_step + number * chunks * self.columns // STEP
        end = min(first + self.steps + (chunks - 1) * self.columns // STEP, self.signal_steps)
        return max(0, end - max(first, 0))

    def _most_held(self) -> int:
        """Most steps of samples of a block. Blocks that begin near the first sample, or end near the last, have most."""
        stride = self.chunks * self.columns // STEP
        behind = self.signal_steps - self.steps - stride
        numbers = {0, self.parts - 1}
        for step in (-self.first_step, behind - self.first_step):
            numbers |= {step // stride, step // stride + 1}
        return max(self._steps_in(each, self.chunks) for each in numbers if 0 <= each < self.parts)

    @property
    def parts(self) -> int:
        """Blocks that share a row's outputs."""
        return -(-self.outputs // (self.columns * self.chunks))

    @property
    def row_tiles(self) -> int:
        """Groups of 64 rows of a filter."""
        return -(-self.rows // ROWS)

    @property
    def blocks(self) -> int:
        return self.filters * self.row_tiles * self.parts

    @property
    def threads(self) -> int:
        return WARPGROUP_THREADS * self.groups

    @property
    def rounds(self) -> int:
        """Chunks of a warpgroup."""
        return -(-self.chunks // self.groups)

    @property
    def pieces(self) -> int:
        """Groups of copies of a block."""
        return -(-self.held * STEP // PIECE)

    @property
    def loads(self) -> int:
        """Copies of a thread for a piece."""
        return -(-ROWS * PIECE // (self.load_vector * self.threads))

    @property
    def cores(self) -> int:
        """Core matrices of taps, one for each distance of a group of samples from a group of outputs."""
        return 2 * self.steps + self.columns // CORE - 1

    @property
    def sample_bytes(self) -> int:
        return 2 * self.held * EIGHT_SAMPLES

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory: samples, and core matrices of taps."""
        return self.sample_bytes + CORE_BYTES * self.cores

    @property
    def padded(self) -> int:
        """Taps with the zeros around them."""
        return CORE * (self.cores + 2)

    @property
    def products(self) -> int:
        """Multiply-adds of all blocks, those of taps of zero and of missing rows included."""
        chunks, edge = -(-self.outputs // self.columns), self.steps * STEP // self.columns + 2
        ends = range(chunks) if chunks <= 2 * edge else (*range(edge), *range(chunks - edge, chunks))
        steps = sum(self._steps_in(each, 1) for each in ends) + self.steps * (chunks - len(ends))
        return steps * STEP * self.columns * ROWS * self.filters * self.row_tiles


def vectors(problem: Filter1d) -> tuple[int, int]:
    """Widest loads and stores, in samples, that all rows of a problem allow."""
    pitch, result_pitch = pitches(problem)
    several = problem.rows > 1
    load = next(each for each in (8, 4, 2, 1) if not several or pitch % each == 0)
    widest = CORE if problem.output_dtype.itemsize == 2 else 2
    store = next(each for each in (widest, 2, 1) if not several or result_pitch % each == 0)
    return load, store
