"""One output a thread: the simplest kernel, and the baseline that a winner has to beat.

Source: "global memory only" of Iandola et al. 2013, section 4.
"""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.device import Device
from warpsmith.generator.families.filter2d_text import Filter2dText, filter2d_arguments, require_filter2d
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

MAX_TAPS = 1024
"""The loop over the taps is unrolled: past this, compile times reach minutes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry:
    """Block shape in threads, grid in blocks."""

    block_columns: int
    block_rows: int
    column_blocks: int
    row_blocks: int


class Filter2dPlain(Family):
    """`filter2d` with one output a thread and every tap read from global memory."""

    name = "filter2d_plain"

    def why_not(self, problem: Problem, device: Device) -> str | None:  # noqa: ARG002 - part of the interface
        if not isinstance(problem, Filter2d):
            return "solves filter2d only"
        r, s = problem.filter
        return f"a filter of {r}x{s} has over {MAX_TAPS} taps" if r * s > MAX_TAPS else None

    def space(self, problem: Problem, device: Device) -> Space:  # noqa: ARG002 - the same on every device
        filter2d = require_filter2d(problem)
        weights = ("argument",) if filter2d.weights is None else ("argument", "literal")
        return Space(
            parameters=(
                Parameter("block_columns", (16, 32, 64, 128, 256), "threads across a block"),
                Parameter("block_rows", (1, 2, 4, 8, 16), "threads down a block"),
                Parameter("weights", weights, "filter values as a kernel argument, or as literals in the code"),
            ),
            constraints=(
                Constraint(
                    "a block has 64 to 512 threads: fewer leave the multiprocessor empty, more leave it no choice",
                    lambda block_columns, block_rows: 64 <= block_columns * block_rows <= 512,
                ),
            ),
        )

    def default(self, problem: Problem, device: Device) -> Config:  # noqa: ARG002 - the same on every device
        weights = "argument" if require_filter2d(problem).weights is None else "literal"
        return Config.of({"block_columns": 32, "block_rows": 8, "weights": weights})

    def program(self, problem: Problem, config: Config) -> Program:
        filter2d = require_filter2d(problem)
        output_rows, output_columns = filter2d.output_shape
        block_columns, block_rows = config.integer("block_columns"), config.integer("block_rows")
        literal = config.text("weights") == "literal"
        geometry = Geometry(
            block_columns=block_columns,
            block_rows=block_rows,
            column_blocks=ceil(output_columns / block_columns),
            row_blocks=ceil(output_rows / block_rows),
        )
        source = render(
            "filter2d_plain.cu.jinja",
            p=Filter2dText.of(filter2d),
            g=geometry,
            config=config.key(),
            literal=literal,
        )
        launch = Launch(
            entry="filter2d_plain",
            grid=(geometry.column_blocks * geometry.row_blocks * filter2d.planes, 1, 1),
            block=(block_columns, block_rows, 1),
            arguments=filter2d_arguments(literal),
        )
        return Program(self.name, config, source, (launch,))
