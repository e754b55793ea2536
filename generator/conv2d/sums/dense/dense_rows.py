"""fprop of `conv2d_dense`: both factors are contiguous along the terms, which neighbouring threads share."""

from __future__ import annotations

import dataclasses
import functools
import itertools

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import LayerSide
from warpsmith.generator.conv2d.layer.text import Conv2dText, conv2d_arguments
from warpsmith.generator.conv2d.products.split16.split16_model import TimedConfig
from warpsmith.generator.conv2d.sums.dense.dense_layer import DenseLayer
from warpsmith.generator.conv2d.sums.dense.dense_model import NAME, Cycles, Threads, dense_ns
from warpsmith.generator.device import Device
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

ROWS, COLUMNS, LANES, THREADS = (1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 8, 16, 32), (64, 128, 256)
MOST_SUMS = 16
"""Most sums of a thread: each takes log2(lanes) shuffles."""

ROWS_CYCLES = Cycles(
    launches=0.673, step=213, load=62, end=20, multiply_add=0.1, load_in_turns=7.3, end_in_turns=1.4, block=124
)


@dataclasses.dataclass(frozen=True, slots=True)
class DenseRowsGeometry:
    """One config of fprop."""

    layer: DenseLayer
    rows: int
    """Images of a thread."""
    columns: int
    """Filters of a thread."""
    lanes: int
    """Neighbouring threads that share a sum."""
    threads: int

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> DenseRowsGeometry:
        sizes = map(config.integer, ("rows", "columns", "lanes", "threads"))
        return cls(DenseLayer.of(problem), *sizes)

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
        """What the model asks about a config."""
        loads, sums = self.rows + self.columns, self.rows * self.columns
        return Threads(
            blocks=self.blocks,
            threads=self.threads,
            steps=self.steps,
            loads=loads,
            multiply_adds=sums * self.layer.vector,
            ends=sums * (self.lanes.bit_length() - 1),
        )


def rows_space(problem: Conv2d) -> Space:
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


@functools.lru_cache(maxsize=256)
def rows_choice(problem: Conv2d, device: Device) -> TimedConfig:
    """The config that is expected to take least time."""
    works = ((config, DenseRowsGeometry.of(problem, config).work) for config in _configs(problem))
    timed = (TimedConfig(config, dense_ns(work, ROWS_CYCLES, problem, device)) for config, work in works)
    return min(timed, key=lambda each: each.ns)


def _configs(problem: Conv2d) -> list[Config]:
    space = rows_space(problem)
    sizes = itertools.product(ROWS, COLUMNS, LANES, THREADS)
    configs = (
        Config.of({"rows": rows, "columns": columns, "lanes": lanes, "threads": threads})
        for rows, columns, lanes, threads in sizes
    )
    return [config for config in configs if space.contains(config)]


class DenseRows(LayerSide):
    """fprop."""

    def space(self, problem: Conv2d, device: Device) -> Space:  # noqa: ARG002 - one for all devices
        return rows_space(problem)

    def default(self, problem: Conv2d, device: Device) -> Config:
        return rows_choice(problem, device).config

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        return rows_choice(problem, device).ns

    def program(self, problem: Conv2d, config: Config) -> Program:
        geometry = DenseRowsGeometry.of(problem, config)
        source = render("conv2d/dense_rows.cu.jinja", p=Conv2dText.of(problem), g=geometry, config=config.key())
        launch = Launch.of_blocks(NAME, geometry.blocks, geometry.threads, conv2d_arguments(problem))
        return Program.of_source(NAME, config, source, (launch,))
