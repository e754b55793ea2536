"""One config of the image side of `conv2d_pointwise`: tiles, stages and shared memory."""

from __future__ import annotations

import dataclasses
import math

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.pointwise.pointwise_tiles import PointwiseTile, vector_of
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.space import Config

WARP_PIXELS = 16
"""Pixels of a warp in products by wgmma."""
SUM_TERMS = 32
"""Most terms that tensor cores sum before float32 registers add them up: six instructions of mma, as `conv2d_mma`."""
PADDING = 4
"""Floats between the channels of a stage: 2 channels are 8 banks further, for tiles of a multiple of 16 pixels."""
LOADED = 64
"""Weights that a thread has in flight: each round of loads waits for the L2 cache, and one after the other took a third
of a kernel's time."""


@dataclasses.dataclass(frozen=True, slots=True)
class PointwiseImageGeometry:
    """One config of fprop or dgrad.

    Rows of the product are channels of the result, columns pixels of all images, terms channels of the source.
    """

    tile: PointwiseTile
    parts: int
    """fp16 parts per number."""
    results: int
    terms: int
    columns: int
    """Pixels of all images: those of y."""
    plane: int
    """Pixels of an image."""
    written: int
    """Elements of the result."""
    channels: int
    """Terms per stage."""
    stages: int
    min_blocks: int
    """Blocks that an SM must have registers for (minBlocksPerMultiprocessor of __launch_bounds__)."""
    tiles: int
    """Tiles of pixels per block; a block keeps its weights for all of them."""
    vector: int
    """Pixels that are copied, and stored, at once."""
    is_transposed: bool
    """Whether terms are filters, as in dgrad, so that adjacent weights belong to adjacent results."""
    gathers: bool
    """Whether the source's pixels are those of a strided layer."""
    scatters: bool
    """Whether the result's pixels are, with zeros between them."""
    stores_pairs: bool
    """Whether two adjacent pixels of dy are vectors of four of dx, by strides of two."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> PointwiseImageGeometry:
        plane = math.prod(problem.output_size)
        is_strided, tile = problem.stride != (1, 1), PointwiseTile.of(config)
        return cls(
            tile=tile,
            parts=Arithmetic.of(problem).parts,
            results=problem.result_channels,
            terms=problem.summed_channels,
            columns=problem.input[0] * plane,
            plane=plane,
            written=problem.output.size,
            channels=config.integer("channels"),
            stages=config.integer("stages"),
            min_blocks=config.integer("min_blocks"),
            tiles=config.integer("tiles"),
            vector=vector_of(problem),
            is_transposed=problem.pass_.is_transposed,
            gathers=is_strided and not problem.pass_.is_transposed,
            scatters=is_strided and problem.pass_.is_transposed,
            stores_pairs=_stores_pairs(problem) and tile.warps > 1,
        )

    padding = PADDING

    @property
    def sum_terms(self) -> int:
        return min(SUM_TERMS, self.channels)

    @property
    def steps(self) -> int:
        """Stages per tile."""
        return -(-self.terms // self.channels)

    @property
    def row_tiles(self) -> int:
        return -(-self.results // self.tile.all_rows)

    @property
    def column_tiles(self) -> int:
        return -(-self.columns // self.tile.all_columns)

    @property
    def column_blocks(self) -> int:
        return -(-self.column_tiles // self.tiles)

    @property
    def blocks(self) -> int:
        return self.row_tiles * self.column_blocks

    @property
    def weight_vectors(self) -> int:
        """Vectors of 8 terms of a row of weights, in whole stages."""
        return self.steps * self.channels // 8

    @property
    def weight_floats(self) -> int:
        """Weights that a lane reads at once."""
        return 4 if self.terms % 4 == 0 and self.terms > 64 else 2

    @property
    def weight_loads(self) -> int:
        """Reads of a lane per row of weights."""
        return -(-8 * self.weight_vectors // (32 * self.weight_floats))

    @property
    def weights_at_once(self) -> int:
        """Rows of weights that a warp has in flight in fprop; vectors of 8 terms that a thread has in dgrad."""
        if self.is_transposed:
            all_vectors = self.weight_vectors * self.tile.all_rows
            return min(-(-all_vectors // self.tile.threads), LOADED // 8)
        rows = -(-self.tile.all_rows // self.tile.all_warps)
        return max(1, min(rows, LOADED // (self.weight_loads * self.weight_floats)))

    @property
    def is_uneven(self) -> bool:
        """Whether some threads have no channel in the last round of copies of a stage."""
        return self.channels % (self.tile.threads * self.vector // self.tile.all_columns) > 0

    @property
    def shared_bytes(self) -> int:
        rows, columns = self.tile.all_rows, self.tile.all_columns
        weights = 16 * self.parts * self.weight_vectors * (rows + 1)
        if self.tile.warps > 1:
            own_stages = self.tile.all_warps * self.stages * self.channels * (WARP_PIXELS + PADDING)
            return weights + 4 * own_stages + 4 * rows
        split = 2 * columns * (2 * self.parts * self.channels + 4 * self.channels // self.sum_terms)
        return weights + split + 4 * self.stages * self.channels * (columns + PADDING) + 4 * rows

    @property
    def split_columns(self) -> int:
        """Pixels that a warp splits at once: 16, or 8 where the warps of a block would not all have some otherwise."""
        return 16 if self.tile.all_columns * self.channels // self.sum_terms >= 16 * self.tile.all_warps else 8

    @property
    def split_shift(self) -> bool:
        """Whether other warps split the next terms of a stage."""
        parts = self.tile.all_columns // self.split_columns
        return parts < self.tile.all_warps and self.channels > self.sum_terms


def _stores_pairs(problem: Conv2d) -> bool:
    rows, columns = problem.output_size
    doubled = problem.input[2:] == (2 * rows, 2 * columns) and columns % 2 == 0
    return problem.pass_.is_transposed and problem.stride == (2, 2) and doubled
