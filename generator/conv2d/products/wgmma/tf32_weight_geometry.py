"""One config of the weight side of `conv2d_warpgroup_tf32`: tiles of a tap, stages of pixels and their tensor maps."""

from __future__ import annotations

import dataclasses
import itertools
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.pointwise.pointwise_weight_geometry import PIXELS, PointwiseWeightGeometry
from warpsmith.generator.conv2d.products.wgmma.im2col_window import WindowTapSet, why_no_map
from warpsmith.generator.conv2d.products.wgmma.wgmma_tiles import BARRIER_BYTES
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import TensorMap
from warpsmith.generator.space import Config

BOX_CHANNELS = 32
"""Channels of a copy: 128 bytes of a pixel, the widest swizzle."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tf32WeightGeometry(PointwiseWeightGeometry):
    """One config of wgrad.

    Rows of the product are filters (channels of dy), columns channels of x at a tap, terms pixels of dy of all images.
    """

    x_map: TensorMap
    dy_map: TensorMap
    offsets: tuple[tuple[int, int], ...]
    """Rows and columns from the first tap's pixel to each tap's."""

    box_channels: ClassVar[int] = BOX_CHANNELS

    @classmethod
    def of(cls, problem: Conv2d, config: Config) -> Tf32WeightGeometry:
        usual = PointwiseWeightGeometry.of(problem, config)
        values = {each.name: getattr(usual, each.name) for each in dataclasses.fields(usual)}
        down, across = (
            range(0, taps * far, far) for taps, far in zip(problem.weight[2:], problem.dilation, strict=True)
        )
        (above, _), (left, _) = problem.padding
        x, dy = problem.inputs
        return cls(
            **values,
            x_map=_map_of(problem, x, (-above, -left), problem.stride),
            dy_map=_map_of(problem, dy),
            offsets=tuple(itertools.product(down, across)),
        )

    @property
    def operands(self) -> tuple[TensorMap, TensorMap]:
        return self.x_map, self.dy_map

    @property
    def threads(self) -> int:
        """Threads of a block: those of its warps, and of one that copies."""
        return 32 * (self.warps + 1)

    @property
    def tap_tiles(self) -> int:
        """Tiles along the channels of x, for each tap."""
        return -(-self.channels // self.tile_columns)

    @property
    def column_tiles(self) -> int:
        return self.taps * self.tap_tiles

    @property
    def shared_bytes(self) -> int:
        return shared_bytes_of(self.tile_rows, self.tile_columns, self.stages)

    @property
    def first_row(self) -> int:
        """Row of x that the first row of dy reads with the first tap; negative in the padding."""
        return self.x_map.first[0]

    @property
    def first_column(self) -> int:
        return self.x_map.first[1]

    @property
    def why_not(self) -> str | None:
        """Why tensor maps cannot describe the operands, in one line; None if they can."""
        taps = [WindowTapSet((0,), (weight,), *offset) for weight, offset in enumerate(self.offsets)]
        return why_no_map(self.x_map, taps) or why_no_map(self.dy_map, ())


def shared_bytes_of(rows: int, columns: int, stages: int) -> int:
    """Bytes of so many stages of a tile, and of their barriers."""
    return stages * (4 * PIXELS * (rows + columns) + 2 * BARRIER_BYTES)


def _map_of(
    problem: Conv2d, operand: Operand, first: tuple[int, int] = (0, 0), step: tuple[int, int] = (1, 1)
) -> TensorMap:
    """Tensor map of images with a position for each pixel of dy."""
    images, channels, rows, columns = operand.shape
    return TensorMap(
        operand.name,
        operand.dtype,
        shape=(images, rows, columns, channels),
        first=first,
        extent=problem.output_size,
        step=step,
        channels=BOX_CHANNELS,
        pixels=PIXELS,
    )
