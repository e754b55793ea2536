"""Geometry of `conv2d_circular`: the part of a plane in a tile, the grid, and the work of a block.

All three passes are correlations: result row p is the sum over t of factor[t] * source[p + t - before]. The factor is
the filter in fprop, the reversed filter in dgrad, and dy in wgrad, whose results are the taps. Row u of a tile holds
row u - before of the source, or zeros if there is no such row, and the correlation wraps around at the tile's end. Rows
that wrap around do no harm where they meet zeros, so a tile may be shorter by the number of zero rows ahead of the
source.
"""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.text import Passes
from warpsmith.generator.tiles.tile import COMPLEX_BYTES

SPECTRUM_COLUMNS = 8
"""Columns of a filter's spectrum per block. There are many filters, and each block reads the taps of its filter."""


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """Rows, or columns, of the correlation. Comments say rows for both."""

    sources: int
    factors: int
    results: int
    before: int
    """Zero rows ahead of the source. If negative, as many source rows are left out."""

    @property
    def least(self) -> int:
        """Fewest rows of a tile."""
        last = self.results + self.factors - 1
        return max(self.before + self.sources, self.results, self.factors, last - max(self.before, 0), ceil(last / 2))


def sides_of(problem: Conv2d) -> tuple[Side, Side]:
    """Rows and columns of a layer of stride and dilation 1."""
    rows, columns = (_side(problem, axis) for axis in (0, 1))
    return rows, columns


def _side(problem: Conv2d, axis: int) -> Side:
    size, out, taps = problem.input[2 + axis], problem.output_size[axis], problem.weight[2 + axis]
    before = problem.padding[axis][0]
    match problem.pass_:
        case Pass.FPROP:
            return Side(size, taps, out, before)
        case Pass.DGRAD:
            return Side(out, taps, size, taps - 1 - before)
        case Pass.WGRAD:
            return Side(size, out, taps, before)


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry:
    """One config. Sizes count elements, pairs of images and threads."""

    passes: Passes
    rows: Side
    columns: Side
    images: int
    channels: int
    ahead: bool
    """Whether the spectrum of a filter is loaded before the transform that it multiplies."""
    splits: int
    """Blocks that share a channel of wgrad."""
    scales: bool
    """Whether the two images of a tile are scaled separately, so that neither affects the other's results."""

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Geometry:
        rows, columns = sides_of(problem)
        is_weight = problem.pass_ is Pass.WGRAD
        return cls(
            passes=Passes.of(config, columns.results, SPECTRUM_COLUMNS),
            rows=rows,
            columns=columns,
            images=problem.input[0],
            channels=problem.input[1],
            ahead=not is_weight and config.integer("ahead") == 1,
            splits=config.integer("splits") if is_weight else 1,
            scales=not is_weight and problem.input[0] > 1,
        )

    @property
    def pairs(self) -> int:
        """Pairs of images; the last image may be alone."""
        return ceil(self.images / 2)

    @property
    def spectrum_bytes(self) -> int:
        """Bytes of the spectra of all filters."""
        return COMPLEX_BYTES * self.channels * self.passes.spectrum_elements

    @property
    def rounds(self) -> int:
        """Groups of rows that a warp transforms one after the other."""
        return ceil(self.passes.shape.groups / self.passes.warps)


def sums_of(passes: Passes) -> int:
    """Complex sums per thread of wgrad."""
    return ceil(passes.shape.groups / passes.warps) * passes.turns * passes.x.second
