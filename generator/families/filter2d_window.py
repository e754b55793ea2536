"""A window that slides down in registers: global memory to registers, several outputs a thread, no shared memory.

Source: "global to register" of Iandola et al. 2013, sections 3 and 4, extended from a prefetched region to a
sliding window, so that registers grow with the filter's rows and not with the outputs of a thread.
"""

from __future__ import annotations

import dataclasses
from itertools import product
from math import ceil, gcd

from warpsmith.generator.device import Device
from warpsmith.generator.families.filter2d_text import Filter2dText, filter2d_arguments, require_filter2d
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

MAX_REGISTERS = 255
"""Registers that one thread can have, on every architecture since compute capability 3.5."""
MAX_UNROLLED = 4000
"""Multiply-adds in one turn of the loop. Past this ptxas takes tens of seconds, and 16 bytes an instruction
overflow the instruction cache."""
OTHER_REGISTERS = 20
"""Addresses, indices and what the compiler needs, beside pixels and sums (read off ptxas for 3x3 to 15x15)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry:
    """One config on one problem, in pixels, threads and blocks."""

    columns: int
    rows: int
    unroll: int
    load_vector: int
    store_vector: int
    streaming: bool
    lead: int
    loads: int
    block_columns: int
    block_strips: int
    column_blocks: int
    strip_blocks: int
    min_blocks: int

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> Geometry:
        output_rows, output_columns = problem.output_shape
        columns, rows = config.integer("columns"), config.integer("rows")
        block_columns, block_strips = config.integer("block_columns"), config.integer("block_strips")
        lead, loads = _row_loads(problem, columns, config.integer("load_vector"))
        return cls(
            columns=columns,
            rows=rows,
            unroll=config.integer("unroll"),
            load_vector=config.integer("load_vector"),
            store_vector=config.integer("store_vector"),
            streaming=config.text("store") == "streaming",
            lead=lead,
            loads=loads,
            block_columns=block_columns,
            block_strips=block_strips,
            column_blocks=ceil(output_columns / (columns * block_columns)),
            strip_blocks=ceil(output_rows / (rows * block_strips)),
            min_blocks=config.integer("min_blocks"),
        )


def _row_loads(problem: Filter2d, columns: int, vector: int) -> tuple[int, int]:
    """Pixels to read left of the first tap so that loads stay aligned, and loads that cover a thread's row."""
    lead = -problem.anchor[1] % vector
    return lead, ceil((lead + columns + problem.filter[1] - 1) / vector)


class Filter2dWindow(Family):
    """`filter2d` with a window sliding down in registers."""

    name = "filter2d_window"

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if not isinstance(problem, Filter2d):
            return "solves filter2d only"
        if next(self.space(problem, device).configs(), None) is None:
            return f"a filter of {problem.filter[0]}x{problem.filter[1]} does not fit the registers of a thread"
        return None

    def space(self, problem: Problem, device: Device) -> Space:
        filter2d = require_filter2d(problem)
        weights = ("argument",) if filter2d.weights is None else ("argument", "literal")
        return Space(
            parameters=(
                Parameter("columns", (1, 2, 4, 8), "adjacent outputs a thread"),
                Parameter("load_vector", (1, 2, 4), "pixels in one load"),
                Parameter("store_vector", (1, 2, 4), "pixels in one store"),
                Parameter("unroll", (1, 2, 3, 4, 6, 8), "input rows in one turn of the loop"),
                Parameter("rows", (1, 2, 4, 6, 8, 12, 16, 24, 32, 64, 128), "output rows a thread walks down"),
                Parameter("block_columns", (32, 64, 128, 256), "threads across a block"),
                Parameter("block_strips", (1, 2, 4), "threads down a block, each with rows of its own"),
                Parameter("min_blocks", (0, 2, 4, 8, 16), "blocks a multiprocessor must hold; 0 leaves it open"),
                Parameter("store", ("plain", "streaming"), "streaming marks the result as evicted first from L2"),
                Parameter("weights", weights, "filter values as a kernel argument, or as literals in the code"),
            ),
            constraints=(*_shape_constraints(filter2d), *_resource_constraints(filter2d, device)),
        )

    def default(self, problem: Problem, device: Device) -> Config:
        """Aligned vector accesses and short walks, or the nearest point of the space.

        Short walks keep many blocks in flight, and L2 serves the rows that they share: on an H200, 9216x9216, the
        best of 400 random configs walked 2 to 6 rows for 2x2 to 5x5 filters, and 16 to 64 for 7x7.
        """
        filter2d = require_filter2d(problem)
        space = self.space(problem, device)
        pitches = (filter2d.image[1], filter2d.output_shape[1])
        small = max(filter2d.filter) <= 5
        widths, walks = ((4, 2, 1), (4, 2, 1)) if small else ((2, 1), (16, 2, 1))
        # The last of these is legal wherever anything is.
        for columns, block_columns, unroll, rows in product(widths, (64, 32), (4, 2, 1), walks):
            load_vector, store_vector = (gcd(pitch, columns) for pitch in pitches)
            config = Config.of(
                {
                    "columns": columns,
                    "load_vector": load_vector,
                    "store_vector": store_vector,
                    "unroll": unroll,
                    "rows": rows,
                    "block_columns": block_columns,
                    "block_strips": 4,
                    "min_blocks": 0,
                    "store": "streaming",
                    "weights": "argument" if filter2d.weights is None else "literal",
                }
            )
            if space.contains(config):
                return config
        raise ValueError(f"{self.name} has no config for {problem.key()}; ask why_not first")

    def program(self, problem: Problem, config: Config) -> Program:
        filter2d = require_filter2d(problem)
        geometry = Geometry.of(filter2d, config)
        literal = config.text("weights") == "literal"
        source = render(
            "filter2d_window.cu.jinja",
            p=Filter2dText.of(filter2d),
            g=geometry,
            config=config.key(),
            literal=literal,
        )
        launch = Launch(
            entry=self.name,
            grid=(geometry.column_blocks * geometry.strip_blocks * filter2d.planes, 1, 1),
            block=(geometry.block_columns, geometry.block_strips, 1),
            arguments=filter2d_arguments(literal),
        )
        return Program(self.name, config, source, (launch,))


def _shape_constraints(problem: Filter2d) -> tuple[Constraint, ...]:
    image_columns = problem.image[1]
    output_rows, output_columns = problem.output_shape
    return (
        Constraint(
            f"loads are aligned only where their width divides the row pitch, {image_columns} pixels",
            lambda load_vector: image_columns % load_vector == 0,
        ),
        Constraint(
            "loads are aligned only where their width divides the columns of a thread",
            lambda columns, load_vector: columns % load_vector == 0,
        ),
        Constraint(
            f"stores are aligned only where their width divides the result's row pitch, {output_columns} pixels",
            lambda store_vector: output_columns % store_vector == 0,
        ),
        Constraint(
            "stores are aligned only where their width divides the columns of a thread",
            lambda columns, store_vector: columns % store_vector == 0,
        ),
        Constraint(
            "the loop turns a whole number of times",
            lambda rows, unroll: rows % unroll == 0,
        ),
        Constraint(
            f"a thread taller than the result ({output_rows} rows) computes rows that nobody stores",
            lambda rows: rows == 1 or rows < 2 * output_rows,
        ),
        Constraint(
            f"a block twice as wide as the result ({output_columns} columns) is mostly idle",
            lambda columns, block_columns: block_columns == 32 or columns * block_columns < 2 * output_columns,
        ),
    )


def _resource_constraints(problem: Filter2d, device: Device) -> tuple[Constraint, ...]:
    filter_rows, filter_columns = problem.filter
    taps = f"{filter_rows}x{filter_columns} taps"

    def registers(columns: int, load_vector: int, unroll: int) -> int:
        _, loads = _row_loads(problem, columns, load_vector)
        return columns * (filter_rows - 1 + unroll) + load_vector * loads + OTHER_REGISTERS

    return (
        Constraint(
            f"sums and pixels of a thread must fit {MAX_REGISTERS} registers, for {taps}",
            lambda columns, load_vector, unroll: registers(columns, load_vector, unroll) <= MAX_REGISTERS,
        ),
        Constraint(
            f"one turn of the loop, {taps}, is at most {MAX_UNROLLED} multiply-adds: compiler and instruction cache",
            lambda columns, unroll: columns * unroll * filter_rows * filter_columns <= MAX_UNROLLED,
        ),
        Constraint(
            "a block has at most 512 threads: more leave the multiprocessor no choice",
            lambda block_columns, block_strips: block_columns * block_strips <= 512,
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads",
            lambda block_columns, block_strips, min_blocks: (
                min_blocks * block_columns * block_strips <= device.threads_per_multiprocessor
            ),
        ),
        Constraint(
            f"the blocks asked for must fit the multiprocessor's {device.registers_per_multiprocessor} registers",
            lambda columns, load_vector, unroll, block_columns, block_strips, min_blocks: (
                min_blocks * block_columns * block_strips * registers(columns, load_vector, unroll)
                <= device.registers_per_multiprocessor
            ),
        ),
    )
