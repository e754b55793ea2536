"""`filter2d` with a few outputs per thread and no prefetch: the simplest kernel, which solves every problem.

Source: "without prefetch" of Iandola et al. 2013, section 4, from global memory and through textures.
"""

from __future__ import annotations

import dataclasses
from math import ceil, prod

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Work
from warpsmith.generator.filter2d.problem import Border, Filter2d
from warpsmith.generator.filter2d.text import (
    Filter2dText,
    MemoryPath,
    Weights,
    default_weights,
    filter2d_arguments,
    filter2d_constants,
    image_texture,
    weights_parameter,
)
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

MAX_READS, MAX_UNROLLED = 512, 2048
"""Most pixel reads and multiply-adds that are unrolled: nvcc takes up to 6 s for that many, 20 s for twice the
multiply-adds from constant memory, and no longer unrolls the loops for twice the reads."""
LONG_READS = 256
"""Pixel reads with a border that the compiler handles within 2 s: 441 of them take 2.4 to 3.1 s."""
MAX_SUMS = 64
"""Most accumulators of a thread, one register each: more leave an SM too few threads to hide its loads."""
FILTERS_AT_ONCE = (1, 2, 4, 8, 16)


@dataclasses.dataclass(frozen=True, slots=True)
class Filter2dPlainGeometry:
    """Geometry of one config on one problem, in outputs, threads and blocks; a pixel has `channels` columns."""

    rows: int
    columns: int
    filters: int
    """Filters for which a thread reuses a pixel that it has read."""
    filter_groups: int
    block_columns: int
    block_rows: int
    column_blocks: int
    row_blocks: int
    min_blocks: int
    ragged: bool
    """True if some threads have fewer outputs than others."""
    unroll_rows: bool
    """True if the loop over the rows of the filter is unrolled."""
    unroll_columns: bool
    skips_zeros: bool
    """True if there are zero taps that the compiler can leave out."""

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> Filter2dPlainGeometry:
        output_rows, output_columns = problem.output_shape[0], problem.output_shape[1] * problem.channels
        rows, columns, filters = (config.integer(name) for name in ("rows", "columns", "filters"))
        block_columns, block_rows = config.integer("block_columns"), config.integer("block_rows")
        unroll_columns = _is_unrolled(problem.filter[1] * rows * columns, filters)
        unroll_rows = _is_unrolled(problem.filter[0] * problem.filter[1] * rows * columns, filters)
        literal, grouped = Weights.of(config) is Weights.LITERAL, filters < problem.filters
        return cls(
            rows=rows,
            columns=columns,
            filters=filters,
            filter_groups=ceil(problem.filters / filters),
            block_columns=block_columns,
            block_rows=block_rows,
            column_blocks=ceil(output_columns / (columns * block_columns)),
            row_blocks=ceil(output_rows / (rows * block_rows)),
            min_blocks=config.integer("min_blocks"),
            ragged=output_rows % rows != 0 or output_columns % columns != 0,
            unroll_rows=unroll_rows,
            unroll_columns=unroll_columns,
            skips_zeros=literal and unroll_rows and not grouped and 0.0 in (problem.weights or ()),
        )

    @property
    def blocks(self) -> int:
        """Blocks per plane."""
        return self.column_blocks * self.row_blocks * self.filter_groups


class Filter2dPlain(Family[Filter2d]):
    """`filter2d` with every tap's pixel read where it is used."""

    name = "filter2d_plain"

    def why_not(self, problem: Filter2d, device: Device) -> str | None:
        return None

    def space(self, problem: Filter2d, device: Device) -> Space:
        paths = (MemoryPath.GLOBAL, *((MemoryPath.TEXTURE,) if image_texture(problem) else ()))
        fewer = tuple(count for count in FILTERS_AT_ONCE if count < problem.filters)
        filters = fewer if problem.filters > max(FILTERS_AT_ONCE) else (*fewer, problem.filters)
        return Space(
            parameters=(
                Parameter("path", tuple(path.value for path in paths), "where pixels are read from"),
                Parameter("rows", (1, 2, 4), "outputs a thread, down"),
                Parameter("columns", (1, 2, 4), "and across, in elements of a row"),
                Parameter("filters", filters, "filters of a bank that use a pixel once it is read"),
                Parameter("block_columns", (16, 32, 64, 128, 256), "threads across a block"),
                Parameter("block_rows", (1, 2, 4, 8, 16), "threads down a block"),
                Parameter("min_blocks", (0, 2, 4, 8), "blocks a multiprocessor must hold; 0 leaves it open"),
                weights_parameter(problem),
            ),
            constraints=_constraints(problem, device),
        )

    def default(self, problem: Filter2d, device: Device) -> Config:
        # The loop over the filter's rows, with two outputs across, stays a loop for that many reads with a border.
        is_long = problem.border is not Border.VALID and LONG_READS < prod(problem.filter) <= MAX_READS
        return Config.of(
            {
                "path": MemoryPath.GLOBAL.value,
                "rows": 1,
                "columns": 2 if is_long and problem.output_shape[1] * problem.channels > 1 else 1,
                "filters": min(problem.filters, max(FILTERS_AT_ONCE)),
                "block_columns": 32,
                "block_rows": 8,
                "min_blocks": 0,
                "weights": default_weights(problem),
            }
        )

    def unrolled(self, problem: Filter2d, config: Config) -> int:
        geometry, (rows, columns) = Filter2dPlainGeometry.of(problem, config), problem.filter
        taps = rows * columns if geometry.unroll_rows else columns if geometry.unroll_columns else 1
        return taps * geometry.rows * geometry.columns * geometry.filters

    def program(self, problem: Filter2d, config: Config) -> Program:
        filter2d, weights = problem, Weights.of(config)
        geometry = Filter2dPlainGeometry.of(filter2d, config)
        texture = image_texture(filter2d) if config.text("path") == MemoryPath.TEXTURE else None
        source = render(
            "filter2d/plain.cu.jinja",
            p=Filter2dText.of(filter2d),
            g=geometry,
            config=config.key(),
            weights=weights.value,
            texture=texture,
        )
        launch = Launch(
            entry=self.name,
            grid=(geometry.blocks * filter2d.planes, 1, 1),
            block=(geometry.block_columns, geometry.block_rows, 1),
            arguments=filter2d_arguments(weights, texture, known=filter2d.weights is not None),
            constants=filter2d_constants(weights),
        )
        return Program.of_source(self.name, config, source, (launch,))

    def work(self, problem: Filter2d, config: Config) -> Work | None:
        geometry = Filter2dPlainGeometry.of(problem, config)
        is_whole = Weights.of(config) is not Weights.LITERAL or 0.0 not in (problem.weights or ())
        if not is_whole or problem.border is Border.CONSTANT or config.text("path") == MemoryPath.TEXTURE:
            return None  # some taps or pixels are never read, or not through global loads
        # A thread reads a pixel at best once for all of its outputs.
        rows, columns = geometry.rows + problem.filter[0] - 1, geometry.columns + problem.filter[1] - 1
        if not geometry.unroll_rows:
            rows = geometry.rows * problem.filter[0]
        threads = problem.output.size // (problem.filters * geometry.rows * geometry.columns)
        reads = threads * geometry.filter_groups * rows * columns
        return Work(problem.flops // 2, reads * problem.dtype.itemsize)


def _is_unrolled(reads: int, filters: int) -> bool:
    return reads <= MAX_READS and reads * filters <= MAX_UNROLLED


def _constraints(problem: Filter2d, device: Device) -> tuple[Constraint, ...]:
    output_rows, output_columns = problem.output_shape[0], problem.output_shape[1] * problem.channels
    return (
        Constraint(
            f"a thread larger than the result ({output_rows} by {output_columns} elements) has outputs to spare",
            lambda rows, columns: rows < 2 * output_rows and columns < 2 * output_columns,
        ),
        Constraint(
            f"a thread has at most {MAX_SUMS} outputs in progress: more leave too few threads to hide the loads",
            lambda rows, columns, filters: rows * columns * filters <= MAX_SUMS,
        ),
        Constraint(
            f"several outputs a thread pay where the loop over {problem.filter[1]} taps of a row is unrolled: at most "
            f"{MAX_READS} pixels and {MAX_UNROLLED} multiply-adds",
            lambda rows, columns, filters: (
                rows * columns == 1 or _is_unrolled(rows * columns * problem.filter[1], filters)
            ),
        ),
        Constraint(
            "a block has 64 to 512 threads: fewer leave the multiprocessor empty, more leave it no choice",
            lambda block_columns, block_rows: 64 <= block_columns * block_rows <= 512,
        ),
        Constraint(
            f"a multiprocessor holds {device.threads_per_multiprocessor} threads",
            lambda block_columns, block_rows, min_blocks: (
                min_blocks * block_columns * block_rows <= device.threads_per_multiprocessor
            ),
        ),
    )
