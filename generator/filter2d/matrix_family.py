"""A window that slides down in the accumulators of the tensor cores: uint8 and float16 images.

Source: convolution as products with banded Toeplitz matrices. uint8 pixels are exact as fp16. Weights are split into
two fp16 parts that keep 22 bits together (Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor
Cores", section 3, with one product fewer, since the pixels need no second part). A product also sums over pixels
outside a window, with weights of zero, so that an fp16 pixel that is not finite spoils sums beside its windows. Unless
a problem allows that, a warp computes those sums again, pixel by pixel, after its strip.
"""

from __future__ import annotations

import dataclasses
from math import ceil
from typing import NamedTuple

from warpsmith.generator.architectures import THREAD_REGISTERS
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d.problem import Filter2d, last_column, outside, reach, rows_inside
from warpsmith.generator.filter2d.text import (
    DEFAULT_REACH,
    Filter2dText,
    MemoryPath,
    Weights,
    filter2d_arguments,
    filter2d_constants,
    result_pitch,
    row_pitch,
    too_many_weights,
)
from warpsmith.generator.filter2d.window_geometry import StoreHint
from warpsmith.generator.problem import DType
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Constraint, Parameter, Space, words
from warpsmith.generator.tensor_cores import TensorType

TILE, SEGMENT = 64, 4
"""Outputs across of a tile, which is one product, and of a segment, which is one row of that product."""
DEPTH = 16
"""Pixels that a product sums over: K of mma.sync.m16n8k16."""
LOAD_BYTES = 4
"""Bytes of a load, four uint8 pixels or two fp16, and of the widest store that is worth its exchange within a quad."""
LIKELY_TAPS, LIKELY_HALF_TAPS, LIKELY_SIZE = 5, 7, 8_000_000
"""Least rows and columns of a filter whose shipped winner is of this family (H200): of uint8 images and large float16
ones, and of smaller float16 images; and the least outputs of a large image."""
HALF_WALKS, HALF_OUTPUTS = (12, 24, 48, 96), 800_000
"""Rows of walks over float16 images, and outputs of an image per row of its walk."""
TALL = 12
"""Least rows of a filter with longer walks on large images: 13x13 on 4096x4096 float16 takes 52 us, with the walk of
smaller filters 68; on 9216x9216 uint8 184 and 250 us (H200)."""
EARLY_WORDS = 32
"""Registers of pixels that a thread reads before the weights arrive, when it has no accumulators yet."""


@dataclasses.dataclass(frozen=True, slots=True)
class MatrixGeometry:
    """Geometry of one config on one problem. Columns count elements; a pixel has `channels` of them."""

    tiles: int
    rows: int
    unroll: int
    prefetch: int
    product_rows: int
    """Rows of the image that a product sums over."""
    window_rows: int
    """Rows of the filter, plus one of zeros if windows would otherwise end within a product."""
    streaming: bool
    first_row: int
    interior_rows: int
    adjacent: int
    """Adjacent segments of a thread, which are the outputs that it stores at once, after an exchange with its quad."""
    lead: int
    """Elements read before a segment's windows, so that loads and stores are aligned."""
    early: int
    """Products whose pixels are read before the weights arrive."""
    first_column: int
    last_column: int
    """Column where the last warp begins; left of `first_column` if the image has no interior."""
    interior_warps: int
    frame_pixels: int
    block_warps: int
    block_strips: int
    column_blocks: int
    strip_blocks: int
    frame_blocks: int

    @classmethod
    def of(cls, problem: Filter2d, config: Config) -> MatrixGeometry:
        tiles, rows, unroll = config.integer("tiles"), config.integer("rows"), config.integer("unroll")
        block_warps, block_strips = config.integer("block_warps"), config.integer("block_strips")
        warp_columns = TILE * tiles
        first_row, interior_rows = rows_inside(problem, 1, unroll, _window_rows(problem) - problem.filter[0])
        adjacent, lead, first_column = _alignment(problem, tiles)
        loaded = warp_columns - SEGMENT + DEPTH // _product_rows(problem)
        aligned = max(adjacent, LOAD_BYTES // problem.dtype.itemsize)
        last = last_column(problem, first_column, warp_columns, lead, loaded, aligned)
        if interior_rows == 0 or last < first_column:
            interior_rows, last = 0, first_column - warp_columns
        columns = last + warp_columns - first_column
        frame_pixels = outside(problem, interior_rows, columns)
        return cls(
            tiles=tiles,
            rows=rows,
            unroll=unroll,
            prefetch=config.integer("prefetch"),
            product_rows=_product_rows(problem),
            window_rows=_window_rows(problem),
            streaming=config.text("store") == StoreHint.STREAMING,
            first_row=first_row,
            interior_rows=interior_rows,
            adjacent=adjacent,
            lead=lead,
            early=_early(problem, tiles, config.integer("prefetch")),
            first_column=first_column,
            last_column=last,
            interior_warps=ceil(columns / warp_columns),
            frame_pixels=frame_pixels,
            block_warps=block_warps,
            block_strips=block_strips,
            column_blocks=max(1, ceil(columns / (warp_columns * block_warps))),
            strip_blocks=max(1, ceil(interior_rows / (rows * block_strips))),
            frame_blocks=ceil(frame_pixels * problem.planes / (32 * block_warps * block_strips)),
        )


class Filter2dMatrix(Family[Filter2d]):
    """`filter2d` on uint8 and float16 images by mma.sync products."""

    name = "filter2d_matrix"
    default_reach = DEFAULT_REACH

    def why_not(self, problem: Filter2d, device: Device) -> str | None:
        if reason := too_many_weights(problem):
            return reason
        if problem.dtype is DType.FLOAT32:
            return "float32 pixels do not fit a half"
        if problem.filters > 1:
            return "applies one filter at a time"
        if (why_not := device.why_no_tensor_instruction(TensorType.F16)) is not None:
            return why_not
        pitch = row_pitch(problem) * problem.dtype.itemsize
        if pitch % LOAD_BYTES:
            return f"reads {LOAD_BYTES} bytes at a time, which rows {pitch} bytes apart do not keep aligned"
        if reach(problem, SEGMENT) > DEPTH:
            return (
                f"a segment and its filter reach over {reach(problem, SEGMENT)} elements; a product sums over {DEPTH}"
            )
        if problem.filter[0] > 13:
            return f"a filter of {problem.filter[0]} rows does not fit the registers of a thread"
        return None

    def is_likely(self, problem: Filter2d, device: Device) -> bool:
        """True on a GPU from 5x5 on, but from 7x7 on for float16 results below LIKELY_SIZE; 3x3 tied or lost (H200)."""
        is_large = problem.dtype is DType.UINT8 or problem.output.size >= LIKELY_SIZE
        least = LIKELY_TAPS if is_large else LIKELY_HALF_TAPS
        return device.kind is DeviceKind.CUDA and min(problem.filter) >= least

    def space(self, problem: Filter2d, device: Device) -> Space:
        product_rows = _product_rows(problem)
        return Space(
            parameters=(
                Parameter("path", words((MemoryPath.GLOBAL,)), "how pixels come from the image to a thread"),
                Parameter("weights", words((Weights.ARGUMENT, Weights.CONSTANT)), "where a thread finds the weights"),
                Parameter("tiles", (1, 2, 4), f"tiles of {TILE} outputs that a warp owns, across"),
                Parameter("unroll", (1, 2, 3, 4, 6, 8, 12), "input rows in one turn of the loop"),
                Parameter("rows", (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128), "output rows a warp walks down"),
                Parameter("prefetch", (0, 1, 2, 3, 5), "products whose pixels are read ahead, into registers"),
                Parameter("block_warps", (1, 2, 4, 8), "warps across a block"),
                Parameter("block_strips", (1, 2, 4, 8), "warps down a block, each with rows of its own"),
                Parameter("store", words(StoreHint), "streaming marks the result as evicted first from L2"),
            ),
            constraints=(
                Constraint(
                    f"a turn of the loop is whole products of {product_rows} rows",
                    lambda unroll: unroll % product_rows == 0,
                ),
                Constraint("a strip is whole turns of the loop", lambda rows, unroll: rows % unroll == 0),
                Constraint(
                    "pixels read ahead stay in place only where a turn is whole rounds of them",
                    lambda unroll, prefetch: unroll // product_rows % (prefetch + 1) == 0,
                ),
                Constraint(
                    f"sums, weights and pixels of a thread must fit {THREAD_REGISTERS} registers",
                    lambda tiles, prefetch: _registers(problem, tiles, prefetch) <= THREAD_REGISTERS,
                ),
                Constraint(
                    "a block is at most 8 warps, so that several are resident at once",
                    lambda block_warps, block_strips: block_warps * block_strips <= 8,
                ),
            ),
        )

    def default(self, problem: Filter2d, device: Device) -> Config:
        """A config within 6% of the best of 400 trials, 5x5 to 13x13 on images of 1080x1920 to 9216x9216 (H200)."""
        shared = {"path": MemoryPath.GLOBAL.value, "weights": Weights.ARGUMENT.value}
        walk = _likely_half_walk(problem) if problem.dtype is DType.FLOAT16 else _likely_byte_walk(problem)
        return Config.of(shared | walk._asdict())

    def program(self, problem: Filter2d, config: Config) -> Program:
        geometry, weights = MatrixGeometry.of(problem, config), Weights.of(config)
        source = render(
            "filter2d/matrix.cu.jinja",
            p=Filter2dText.of(problem),
            g=geometry,
            config=config.key(),
            weights=weights.value,
        )
        interior = geometry.column_blocks * geometry.strip_blocks * problem.planes if geometry.interior_warps else 0
        launch = Launch(
            entry=self.name,
            grid=(geometry.frame_blocks + interior, 1, 1),
            block=(32 * geometry.block_warps, geometry.block_strips, 1),
            arguments=filter2d_arguments(weights),
            constants=filter2d_constants(weights),
        )
        return Program.of_source(self.name, config, source, (launch,))


class _Walk(NamedTuple):
    """Parameters of a default config, under their names in the space."""

    tiles: int
    unroll: int
    rows: int
    prefetch: int
    block_warps: int
    block_strips: int
    store: str = StoreHint.STREAMING.value


def _likely_half_walk(problem: Filter2d) -> _Walk:
    """Walk over a float16 image, as long as every SM still gets some walks: each walk reads the rows above its first
    window again.
    """
    if not _is_large(problem):
        return _Walk(1, 12, _half_rows(problem), 5, 2, 2)
    if problem.filter[0] >= TALL:
        return _Walk(1, 8, 64, 3, 4, 1)
    return _Walk(1, 12, _half_rows(problem), 5, 2, 2, StoreHint.PLAIN.value)


def _likely_byte_walk(problem: Filter2d) -> _Walk:
    if _is_large(problem):
        return _Walk(1, 12, 96, 5, 4, 1) if problem.filter[0] >= TALL else _Walk(2, 8, 32, 3, 4, 1)
    is_long = problem.output.size >= LIKELY_SIZE // 2 and problem.filter[0] > 9
    rows = 48 if is_long else 12
    if _product_rows(problem) == 2:
        return _Walk(1, 12, rows, 5, 2, 4)  # a turn is one round of the products read ahead
    return _Walk(1, 4 if is_long else 12, rows, 3, 2, 4)


def _half_rows(problem: Filter2d) -> int:
    return min(HALF_WALKS, key=lambda walk: abs(walk - problem.output.size / HALF_OUTPUTS))


def _is_large(problem: Filter2d) -> bool:
    return problem.output.size >= LIKELY_SIZE


def _product_rows(problem: Filter2d) -> int:
    """Rows that a product sums over: two if half of its depth covers a segment's windows, else one."""
    return 2 if 2 * reach(problem, SEGMENT) <= DEPTH else 1


def _window_rows(problem: Filter2d) -> int:
    """Rows of the filter, plus one of zeros if windows would otherwise end within a product."""
    return problem.filter[0] + (_product_rows(problem) == 2 and problem.filter[0] % 2 == 0)


def _alignment(problem: Filter2d, tiles: int) -> tuple[int, int, int]:
    """Adjacent segments, elements read before windows, and first output, for the widest store that all rows allow."""
    before, step = problem.before[1] * problem.channels, LOAD_BYTES // problem.dtype.itemsize
    spare = DEPTH // _product_rows(problem) - reach(problem, SEGMENT)
    widest = min(2 * tiles, LOAD_BYTES // problem.output.dtype.itemsize)
    for adjacent in (each for each in (4, 2) if each <= widest and result_pitch(problem) % each == 0):
        for lead in range(spare + 1):
            for start in range(0, adjacent, step):
                if (start + lead + before) % adjacent == 0:
                    return adjacent, lead, start + lead + before
    return 1, 0, before


def _early(problem: Filter2d, tiles: int, prefetch: int) -> int:
    """Products read before the weights are there: up to the first turn's, and at least those always read ahead."""
    start = (_window_rows(problem) - 1) // _product_rows(problem)
    return min(start + prefetch, max(prefetch, EARLY_WORDS // (2 * tiles * problem.dtype.itemsize)))


def _registers(problem: Filter2d, tiles: int, prefetch: int) -> int:
    """Registers of a thread: accumulators, weights, pixels read ahead and in use, and 32 others (read off ptxas)."""
    rows = _product_rows(problem)
    sums = 4 * tiles * (_window_rows(problem) - 1 + rows)
    weights = 2 * (problem.filter[0] + rows - 1)
    pixels = 2 * tiles * (prefetch + 1) * problem.dtype.itemsize + 8 * tiles
    return sums + weights + pixels + 32
