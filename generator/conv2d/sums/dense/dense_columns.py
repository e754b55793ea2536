"""dgrad and wgrad of `conv2d_dense`: the second factor is contiguous along the results."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.dense.dense_layer import DenseLayer
from warpsmith.generator.conv2d.sums.dense.dense_model import Cycles, Threads
from warpsmith.generator.conv2d.sums.dense.dense_side import ROWS, THREADS, DenseGeometry, DenseSide
from warpsmith.generator.device import Device
from warpsmith.generator.pair_stores import stores_pairs
from warpsmith.generator.space import Constraint, Parameter, Space

SLICES = (1, 2, 4, 8, 16, 32)
MOST_AHEAD, FEW_ROWS = 8, 2
"""Most terms of a thread whose loads are in flight together, and the rows up to which it has so many."""
MOST_SHARED_BYTES = 32 << 10
"""Most bytes of shared memory for the sums of a block's slices, so that several blocks fit every multiprocessor."""


@dataclasses.dataclass(frozen=True, slots=True)
class DenseColumnsGeometry(DenseGeometry):
    """One config of dgrad or wgrad."""

    slices: int
    """Threads of a block that share a sum."""

    @property
    def across(self) -> int:
        """Threads of a block side by side, each with a vector of columns."""
        return self.threads // self.slices

    @property
    def column_blocks(self) -> int:
        return -(-self.layer.columns // (self.across * self.layer.vector))

    @property
    def blocks(self) -> int:
        return -(-self.layer.rows // self.rows) * self.column_blocks

    @property
    def steps(self) -> int:
        """Terms that all slices have."""
        return self.layer.terms // self.slices

    @property
    def ahead(self) -> int:
        """Terms whose loads are in flight together; a thread has registers for fewer of them if it has many rows."""
        return min(self.steps, MOST_AHEAD if self.rows <= FEW_ROWS else MOST_AHEAD // 2)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory for the sums of all slices; none if there is one."""
        return 0 if self.slices == 1 else 4 * self.threads * self.rows * self.layer.vector

    @property
    def work(self) -> Threads:
        sums = self.rows * self.layer.vector
        return Threads(
            blocks=self.blocks,
            threads=self.threads,
            steps=-(-self.layer.terms // self.slices),
            loads=self.rows + 1,
            multiply_adds=sums,
            ends=0 if self.slices == 1 else 2 * sums,
        )


class DenseColumns(DenseSide):
    """dgrad and wgrad."""

    geometry: ClassVar[type[DenseGeometry]] = DenseColumnsGeometry
    template: ClassVar[str] = "conv2d/dense_columns.cu.jinja"
    cycles: ClassVar[Cycles] = Cycles(
        launches=0.872, step=165, load=13, end=6.7, multiply_add=1.06, load_in_turns=0.0, end_in_turns=1.1, block=179
    )

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if DenseLayer.of(problem).vector > 1 and not stores_pairs(problem.dtype, device):
            return f"stores vectors of {problem.dtype}, which compute capability 8.0 is the first to convert in pairs"
        return None

    def space(self, problem: Conv2d, device: Device) -> Space:  # noqa: ARG002 - one for all devices
        layer = DenseLayer.of(problem)

        def fits(rows: int, slices: int, threads: int) -> bool:
            return DenseColumnsGeometry(layer, rows, threads, slices).shared_bytes <= MOST_SHARED_BYTES

        return Space(
            parameters=(
                Parameter("rows", ROWS, "rows of the result of a thread"),
                Parameter("slices", SLICES, "threads of a block that share the terms of a sum"),
                Parameter("threads", THREADS, "threads of a block"),
            ),
            constraints=(
                Constraint(
                    f"a thread has less than twice the {layer.rows} rows", lambda rows: rows < max(2, 2 * layer.rows)
                ),
                Constraint(f"slices share {layer.terms} terms", lambda slices: slices == 1 or slices < 2 * layer.terms),
                Constraint(f"sums of a block take at most {MOST_SHARED_BYTES} bytes of shared memory", fits),
            ),
        )
