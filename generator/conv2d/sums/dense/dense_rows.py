"""fprop of `conv2d_dense`: both factors are contiguous along the terms, which neighbouring threads share."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.sums.dense.dense_layer import DenseLayer
from warpsmith.generator.conv2d.sums.dense.dense_model import Cycles, Threads
from warpsmith.generator.conv2d.sums.dense.dense_side import ROWS, THREADS, DenseGeometry, DenseSide
from warpsmith.generator.device import Device
from warpsmith.generator.space import Constraint, Parameter, Space

COLUMNS, LANES = (1, 2, 4), (1, 2, 4, 8, 16, 32)
MOST_SUMS = 16
"""Most sums of a thread: each takes log2(lanes) shuffles."""


@dataclasses.dataclass(frozen=True, slots=True)
class DenseRowsGeometry(DenseGeometry):
    """One config of fprop."""

    columns: int
    """Filters of a thread."""
    lanes: int
    """Neighbouring threads that share a sum."""

    @property
    def column_tiles(self) -> int:
        return -(-self.layer.columns // self.columns)

    @property
    def tiles(self) -> int:
        """Tiles of results, one for each `lanes` threads."""
        return -(-self.layer.rows // self.rows) * self.column_tiles

    @property
    def blocks(self) -> int:
        return -(-self.tiles * self.lanes // self.threads)

    @property
    def steps(self) -> int:
        """Rounds of a thread's loop over its terms."""
        return -(-self.layer.terms // (self.lanes * self.layer.vector))

    @property
    def work(self) -> Threads:
        loads, sums = self.rows + self.columns, self.rows * self.columns
        return Threads(
            blocks=self.blocks,
            threads=self.threads,
            steps=self.steps,
            loads=loads,
            multiply_adds=sums * self.layer.vector,
            ends=sums * (self.lanes.bit_length() - 1),
        )


class DenseRows(DenseSide):
    """fprop."""

    geometry: ClassVar[type[DenseGeometry]] = DenseRowsGeometry
    template: ClassVar[str] = "conv2d/dense_rows.cu.jinja"
    cycles: ClassVar[Cycles] = Cycles(
        launches=0.673, step=213, load=62, end=20, multiply_add=0.1, load_in_turns=7.3, end_in_turns=1.4, block=124
    )

    def space(self, problem: Conv2d, device: Device) -> Space:  # noqa: ARG002 - one for all devices
        layer = DenseLayer.of(problem)
        return Space(
            parameters=(
                Parameter("rows", ROWS, "images of a thread"),
                Parameter("columns", COLUMNS, "filters of a thread"),
                Parameter("lanes", LANES, "neighbouring threads that share the terms of a sum"),
                Parameter("threads", THREADS, "threads of a block"),
            ),
            constraints=(
                Constraint(f"a thread has at most {MOST_SUMS} sums", lambda rows, columns: rows * columns <= MOST_SUMS),
                Constraint(
                    f"a thread has less than twice the {layer.rows} images", lambda rows: rows < max(2, 2 * layer.rows)
                ),
                Constraint(
                    f"a thread has less than twice the {layer.columns} filters",
                    lambda columns: columns < max(2, 2 * layer.columns),
                ),
                Constraint(
                    f"lanes share {layer.terms} terms, {layer.vector} at once",
                    lambda lanes: lanes == 1 or lanes * layer.vector < 2 * layer.terms,
                ),
            ),
        )
