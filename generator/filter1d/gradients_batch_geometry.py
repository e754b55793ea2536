"""Geometry of `filter1d_gradients_batch`: tiles of outputs, the lags of a block, and the samples that it holds."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter1d.text import pitches
from warpsmith.generator.filter1d.toeplitz_batch_geometry import (
    CORE,
    ROWS,
    STEP,
    WARPGROUP_THREADS,
    filter_rows,
)
from warpsmith.generator.space import Config

TILE = 64
"""Outputs of a product: M of wgmma."""


def lags_of(problem: Filter1d, columns: int, groups: int) -> int:
    """Taps of a block: a tap's sum is a diagonal of 64 outputs by as many samples, of all columns of a block."""
    return (columns * groups - (TILE - 1) - problem.first_lag % CORE) // CORE * CORE


@dataclasses.dataclass(frozen=True, slots=True)
class Filter1dGradientsBatchGeometry:
    """Geometry of one config on one problem. Lengths are in samples or outputs of one row, a channel of a signal."""

    rows: int
    """Rows that share a filter."""
    filters: int
    taps: int
    outputs: int
    signal: int
    columns: int
    """Samples of a warpgroup beside a tile of outputs: N of wgmma."""
    groups: int
    """Warpgroups of a block."""
    tiles: int
    """Tiles of outputs of a block, one after the other."""
    stage: int
    """Tiles of outputs that come at once."""
    stages: int
    """So many times these are in shared memory."""
    lead: int
    """Samples before the first one of a tap's first sum, so that eight samples are aligned."""
    first: int
    """Sample of the first column, beside output 0: a multiple of 8."""
    lags: int
    """Taps of a block."""
    vector: int
    """Samples of a copy."""

    @classmethod
    def of(cls, problem: Filter1d, config: Config) -> Filter1dGradientsBatchGeometry:
        names = ("columns", "groups", "tiles", "stage", "stages", "vector")
        columns, groups, tiles, stage, stages, vector = (config.integer(each) for each in names)
        lead = problem.first_lag % CORE
        return cls(
            rows=filter_rows(problem),
            filters=problem.filters,
            taps=problem.taps,
            outputs=problem.result_length,
            signal=problem.signal,
            columns=columns,
            groups=groups,
            tiles=tiles,
            stage=stage,
            stages=stages,
            lead=lead,
            first=problem.first_lag - lead,
            lags=lags_of(problem, columns, groups),
            vector=vector,
        )

    @property
    def row_tiles(self) -> int:
        """Groups of 64 rows of a filter."""
        return -(-self.rows // ROWS)

    @property
    def row_steps(self) -> int:
        """Products that sum over the rows of a tile, 16 each."""
        return -(-min(self.rows, ROWS) // STEP)

    @property
    def along(self) -> int:
        """Bytes of shared memory for eight samples of a tile's rows. A warp that copies one row meets no bank twice."""
        return 2 * CORE * STEP * self.row_steps + 2 * CORE

    @property
    def time_parts(self) -> int:
        """Blocks along a signal."""
        return -(-self.outputs // (TILE * self.tiles))

    @property
    def stage_count(self) -> int:
        """Groups of tiles that come at once, of a block."""
        return -(-min(self.tiles, -(-self.outputs // TILE)) // self.stage)

    @property
    def lag_parts(self) -> int:
        """Blocks that share the taps of a filter."""
        return -(-self.taps // self.lags)

    @property
    def parts(self) -> int:
        """Partial sums of a tap."""
        return self.row_tiles * self.time_parts

    @property
    def blocks(self) -> int:
        return self.filters * self.parts * self.lag_parts

    @property
    def threads(self) -> int:
        return WARPGROUP_THREADS * self.groups

    @property
    def width(self) -> int:
        """Columns of a block."""
        return self.columns * self.groups

    def held_of(self, time_part: int, lag_part: int) -> tuple[int, int]:
        """The first sample that a block holds, and the one behind the last. They are multiples of 8; a warpgroup whose
        columns lie in the signal in part finds zeros beyond it.
        """
        first = self.first + time_part * TILE * self.tiles + lag_part * self.lags
        last_tile = min(self.tiles, -(-self.outputs // TILE) - time_part * self.tiles) - 1
        end = min(first + last_tile * TILE + self.width, -(-self.signal // CORE) * CORE + self.columns)
        begin = max(first, -self.columns)
        return begin, max(begin, end)

    @property
    def held(self) -> int:
        """Most samples of a row that a block holds."""
        span = self.tiles * TILE
        found = 0
        for lag_part in range(self.lag_parts):
            first = self.first + lag_part * self.lags
            numbers = {0, self.time_parts - 1}
            for sample in (-self.columns - first, self.signal - first - span):
                numbers |= {sample // span, sample // span + 1}
            inside = [each for each in numbers if 0 <= each < self.time_parts]
            found = max(found, *(end - begin for begin, end in (self.held_of(each, lag_part) for each in inside)))
        return found

    @property
    def main_bytes(self) -> int:
        """Bytes of shared memory for samples, and for tiles of outputs."""
        return (self.held + self.stages * self.stage * TILE) // CORE * self.along

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory. The sums of all diagonals take the place of the samples at the end."""
        return max(self.main_bytes, 4 * TILE * (self.width + 1))

    @property
    def products(self) -> int:
        """Multiply-adds of all blocks, about: those of columns outside of the signal are left out."""
        tiles, steps = -(-self.outputs // TILE), 0
        for lag in range(0, self.lag_parts * self.lags, self.lags):
            for group in range(self.groups):
                first = self.first + lag + group * self.columns
                begin = max(0, -(-(1 - self.columns - first) // TILE))
                end = min(tiles, -(-(self.signal - first) // TILE))
                steps += max(0, end - begin)
        return steps * TILE * self.columns * STEP * self.row_steps * self.row_tiles * self.filters

    @property
    def copied(self) -> int:
        """Samples and outputs that all blocks copy to shared memory, about."""
        held = sum(max(0, end - begin) for begin, end in (self.held_of(0, each) for each in range(self.lag_parts)))
        last = sum(
            max(0, end - begin)
            for begin, end in (self.held_of(self.time_parts - 1, each) for each in range(self.lag_parts))
        )
        outputs = self.tiles * TILE * self.lag_parts
        return ((held + last) // 2 + outputs) * self.time_parts * self.rows * self.filters


def widest_copy(problem: Filter1d) -> int:
    """Samples of the widest copy that all rows of the signal and of the result's gradient allow."""
    pitch, gradient_pitch = pitches(problem)
    several = problem.rows > 1
    return next(each for each in (8, 4, 2, 1) if not several or (pitch % each == 0 and gradient_pitch % each == 0))
