"""Geometry of `filter1d_toeplitz_batch`: pieces of samples of 64 rows, chunks of outputs, and the table of taps."""

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
EIGHT_SAMPLES = 16 * ROWS + 16
"""Bytes of shared memory for eight samples of all rows: a warp that copies one row meets no bank twice."""


def steps_of(problem: Filter1d, columns: int) -> int:
    """Products of a chunk of `columns` outputs along its windows, those without samples included."""
    return -(-(problem.first_lag % STEP + problem.taps + columns - 1) // STEP)


def table_bytes(steps: int, columns: int) -> int:
    """Bytes of shared memory for the core matrices of taps. The last step's matrix overlaps itself; compute-sanitizer
    takes it for contiguous, so that there is room for that.
    """
    return CORE_BYTES * 2 * (steps - 1) + 2 * STEP * columns


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
    """Outputs of a warpgroup: N of wgmma."""
    groups: int
    """Warpgroups of a block, which share its samples and taps."""
    piece: int
    """Samples of each row that one group of asynchronous copies brings."""
    stages: int
    """Pieces in shared memory: one of them is multiplied, one may be, and the others are on their way."""
    outputs: int
    """Outputs of a row."""
    lead: int
    """Samples of the first step before the first window."""
    first_step: int
    """Step in which the first window begins."""
    steps: int
    """Steps of a warpgroup."""
    signal_steps: int
    """Steps of the signal."""
    load_vector: int
    store_vector: int
    min_blocks: int

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dToeplitzBatchGeometry:
        columns, lead = config.integer("columns"), problem.first_lag % STEP
        return cls(
            rows=filter_rows(problem),
            filters=problem.filters,
            columns=columns,
            groups=config.integer("groups"),
            piece=config.integer("piece"),
            stages=config.integer("stages"),
            outputs=problem.result_length,
            lead=lead,
            first_step=(problem.first_lag - lead) // STEP,
            steps=steps_of(problem, columns),
            signal_steps=-(-problem.signal // STEP),
            load_vector=config.integer("load_vector"),
            store_vector=config.integer("store_vector"),
            min_blocks=config.integer("min_blocks"),
        )

    def steps_between(self, first_output: int, outputs: int) -> int:
        """Steps of samples under the windows of some outputs, those outside of the signal left out."""
        first = self.first_step + first_output // STEP
        end = min(first + self.steps + outputs // STEP - self.columns // STEP, self.signal_steps)
        return max(0, end - max(first, 0))

    @property
    def block_outputs(self) -> int:
        return self.columns * self.groups

    @property
    def parts(self) -> int:
        """Blocks that share a row's outputs."""
        return -(-self.outputs // self.block_outputs)

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
    def block_steps(self) -> int:
        """Steps of the samples of a block, those outside of the signal included."""
        return self.steps + self.block_outputs // STEP - self.columns // STEP

    @property
    def cores(self) -> int:
        """Core matrices of taps, one for each distance of a group of samples from a group of outputs."""
        return 2 * self.steps + self.columns // CORE - 1

    @property
    def stage_bytes(self) -> int:
        return self.piece // CORE * EIGHT_SAMPLES

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory: pieces of samples, and core matrices of taps."""
        return self.stages * self.stage_bytes + table_bytes(self.steps, self.columns)

    @property
    def padded(self) -> int:
        """Taps with the zeros around them."""
        return CORE * (self.cores + 2)

    @property
    def products(self) -> int:
        """Multiply-adds of all blocks, those of taps of zero and of missing rows included."""
        return self._steps_of_all(self.columns) * STEP * self.columns * ROWS * self.filters * self.row_tiles

    @property
    def copied(self) -> int:
        """Samples that all blocks copy to shared memory."""
        return self._steps_of_all(self.block_outputs) * STEP * self.filters * self.rows

    def _steps_of_all(self, outputs: int) -> int:
        """Sum of the steps of all groups of so many outputs of a row. Those in the middle have equal numbers."""
        count, edge = -(-self.outputs // outputs), self.block_steps * STEP // outputs + 2
        ends = range(count) if count <= 2 * edge else (*range(edge), *range(count - edge, count))
        steps = sum(self.steps_between(each * outputs, outputs) for each in ends)
        return steps + (self.steps + (outputs - self.columns) // STEP) * (count - len(ends))


def vectors(problem: Filter1d) -> tuple[int, int]:
    """Widest loads and stores, in samples, that all rows of a problem allow."""
    pitch, result_pitch = pitches(problem)
    several = problem.rows > 1
    load = next(each for each in (8, 4, 2, 1) if not several or pitch % each == 0)
    widest = CORE if problem.output_dtype.itemsize == 2 else 2
    store = next(each for each in (widest, 2, 1) if not several or result_pitch % each == 0)
    return load, store
