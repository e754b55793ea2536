"""A window that slides down in the accumulators of the tensor cores: uint8 and float16 images.

Source: convolution as products with banded Toeplitz matrices; the bytes of an image are exact as halves, and weights
are split into two halves that keep 22 bits together (Ootomo and Yokota 2022, "Recovering single precision accuracy
from Tensor Cores", section 3, with one product fewer, since the pixels need no second half).
"""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.families.filter2d_text import (
    Filter2dText,
    MemoryPath,
    Weights,
    filter2d_arguments,
    filter2d_constants,
    require_filter2d,
    result_pitch,
    row_pitch,
    words,
)
from warpsmith.generator.families.filter2d_window_geometry import StoreHint, rows_inside
from warpsmith.generator.families.filter2d_window_rules import MAX_REGISTERS
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import DType, Problem
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space

WARP_COLUMNS = 128
"""Outputs of a warp, across: 16 segments of 8, the rows and columns of one product."""
SEGMENT, DEPTH = 8, 16
"""Outputs of a segment, and pixels that a product sums over."""


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry:
    """One config on one problem. Columns count elements, of which a pixel has `channels`."""

    rows: int
    unroll: int
    prefetch: int
    lead: int
    store_vector: int
    streaming: bool
    first_row: int
    interior_rows: int
    first_column: int
    last_column: int
    interior_warps: int
    frame_pixels: int
    block_warps: int
    block_strips: int
    column_blocks: int
    strip_blocks: int
    frame_blocks: int

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> Geometry:
        rows, unroll = config.integer("rows"), config.integer("unroll")
        block_warps, block_strips = config.integer("block_warps"), config.integer("block_strips")
        first_row, interior_rows = rows_inside(problem, 1, unroll)
        first_column, last_column = _interior_columns(problem)
        if interior_rows == 0 or last_column < first_column:
            interior_rows, last_column = 0, first_column - WARP_COLUMNS
        columns = last_column + WARP_COLUMNS - first_column
        outputs = problem.output_shape[0] * problem.output_shape[1] * problem.channels
        frame_pixels = outputs - interior_rows * columns
        return cls(
            rows=rows,
            unroll=unroll,
            prefetch=config.integer("prefetch"),
            lead=_lead(problem),
            store_vector=1 if result_pitch(problem) % 2 else 2,
            streaming=config.text("store") == StoreHint.STREAMING,
            first_row=first_row,
            interior_rows=interior_rows,
            first_column=first_column,
            last_column=last_column,
            interior_warps=ceil(columns / WARP_COLUMNS),
            frame_pixels=frame_pixels,
            block_warps=block_warps,
            block_strips=block_strips,
            column_blocks=max(1, ceil(columns / (WARP_COLUMNS * block_warps))),
            strip_blocks=max(1, ceil(interior_rows / (rows * block_strips))),
            frame_blocks=ceil(frame_pixels * problem.planes / (32 * block_warps * block_strips)),
        )


class Filter2dMatrix(Family):
    """`filter2d` on uint8 and float16 images by products of small matrices."""

    name = "filter2d_matrix"

    def why_not(self, problem: Problem, device: Device) -> str | None:
        if not isinstance(problem, Filter2d):
            return "solves filter2d only"
        if problem.dtype is DType.FLOAT32:
            return "float32 pixels do not fit a half"
        if problem.filters > 1:
            return "applies one filter at a time"
        if device.kind is DeviceKind.CUDA and device.compute_capability < (8, 0):
            return "needs compute capability 8.0, whose tensor cores multiply 16x16 halves"
        if row_pitch(problem) % 2:
            return "reads pairs, which rows an odd number of elements apart do not keep aligned"
        reach = SEGMENT + (problem.filter[1] - 1) * problem.channels + _lead(problem)
        if reach > DEPTH:
            return f"a segment and its filter reach over {reach} elements; a product sums over {DEPTH}"
        if problem.filter[0] > 13:
            return f"a filter of {problem.filter[0]} rows does not fit the registers of a thread"
        return None

    def space(self, problem: Problem, device: Device) -> Space:  # noqa: ARG002 - the same on every device
        filter2d = require_filter2d(problem)

        def registers(unroll: int, prefetch: int) -> int:
            taps = filter2d.filter[0]
            return 8 * (taps - 1 + unroll) + 4 * taps + 4 * (prefetch + 2) + 24

        return Space(
            parameters=(
                Parameter("path", words((MemoryPath.GLOBAL,)), "how pixels come from the image to a thread"),
                Parameter("weights", words((Weights.ARGUMENT, Weights.CONSTANT)), "where a thread finds the weights"),
                Parameter("unroll", (1, 2, 3, 4, 6, 8), "input rows in one turn of the loop"),
                Parameter("rows", (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128), "output rows a warp walks down"),
                Parameter("prefetch", (0, 1, 2, 3, 5), "rows read ahead, into registers"),
                Parameter("block_warps", (1, 2, 4), "warps across a block"),
                Parameter("block_strips", (1, 2, 4), "warps down a block, each with rows of its own"),
                Parameter("store", words(StoreHint), "streaming marks the result as evicted first from L2"),
            ),
            constraints=(
                Constraint("a strip is whole turns of the loop", lambda rows, unroll: rows % unroll == 0),
                Constraint(
                    "rows read ahead stay in place only where a turn is whole rounds of them",
                    lambda unroll, prefetch: unroll % (prefetch + 1) == 0,
                ),
                Constraint(
                    f"sums, weights and pixels of a thread must fit {MAX_REGISTERS} registers",
                    lambda unroll, prefetch: registers(unroll, prefetch) <= MAX_REGISTERS,
                ),
            ),
        )

    def default(self, problem: Problem, device: Device) -> Config:  # noqa: ARG002 - the same on every device
        """Walks of 16 rows, which spread the splitting of the weights over 2048 outputs, and one row read ahead."""
        return Config.of(
            {
                "path": MemoryPath.GLOBAL.value,
                "weights": Weights.ARGUMENT.value,
                "unroll": 2,
                "rows": 16,
                "prefetch": 1,
                "block_warps": 2,
                "block_strips": 2,
                "store": StoreHint.STREAMING.value,
            }
        )

    def program(self, problem: Problem, config: Config) -> Program:
        filter2d = require_filter2d(problem)
        geometry, weights = Geometry.of(filter2d, config), Weights.of(config)
        source = render(
            "filter2d_matrix.cu.jinja",
            p=Filter2dText.of(filter2d),
            g=geometry,
            config=config.key(),
            weights=weights.value,
        )
        interior = geometry.column_blocks * geometry.strip_blocks * filter2d.planes if geometry.interior_warps else 0
        launch = Launch(
            entry=self.name,
            grid=(geometry.frame_blocks + interior, 1, 1),
            block=(32 * geometry.block_warps, geometry.block_strips, 1),
            arguments=filter2d_arguments(weights),
            constants=filter2d_constants(weights),
        )
        return Program(self.name, config, source, (launch,))


def _lead(problem: Filter2d) -> int:
    """Elements that a row is read further left than its first tap, so that pairs are aligned."""
    return problem.before[1] * problem.channels % 2


def _interior_columns(problem: Filter2d) -> tuple[int, int]:
    """Where the first warp begins, and the last one; before the first where there is none."""
    before = problem.before[1] * problem.channels + _lead(problem)
    image_end = problem.image[1] * problem.channels + before - WARP_COLUMNS - SEGMENT
    result_end = problem.output_shape[1] * problem.channels - WARP_COLUMNS
    return before, min(image_end, result_end) // 2 * 2
