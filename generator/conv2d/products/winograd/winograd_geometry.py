"""Tiles of `conv2d_winograd`, and the layer of 1x1 taps that computes their products.

At each of the (m + 2)^2 points, a matrix of transformed weights (results by channels) is multiplied by a matrix of
transformed pixels (channels by tiles). Together these products are a layer of 1x1 taps, with a group for each point and
a pixel for each tile. `conv2d_warpgroup` solves such a layer, so its GEMM kernel is used unchanged and the transforms
write what it reads.
"""

from __future__ import annotations

import dataclasses
import functools

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.wgmma.wgmma_image_geometry import ImageGeometry
from warpsmith.generator.conv2d.products.winograd.minimal import Minimal
from warpsmith.generator.conv2d.products.winograd.winograd_transforms import PREFIX, Axis, Tiles, Weights
from warpsmith.generator.program import Workspace
from warpsmith.generator.space import Config
from warpsmith.generator.steps import aligned

PRODUCTS = "products"
"""Name of the workspace for the products of one part of the batch: [point][channel of the result][tile]."""


@dataclasses.dataclass(frozen=True)
class WinogradGeometry:
    """One config of fprop or dgrad."""

    layer: Conv2d
    minimal: Minimal
    parts: int
    """Parts of the batch, processed one after the other in the same workspace."""
    rows: Axis
    columns: Axis
    product: Conv2d
    """The layer of 1x1 taps."""
    multiply: ImageGeometry
    """Tiles of its GEMM kernel."""
    block_tiles: int
    threads: int
    """Threads per block of the output transform."""

    @classmethod
    def of(cls, layer: Conv2d, config: Config) -> WinogradGeometry:
        tile, parts = config.integer("tile"), config.integer("parts")
        product = product_of(layer, tile, parts)
        return cls(
            layer=layer,
            minimal=Minimal.of(tile),
            parts=parts,
            rows=Axis.of(layer, 0, tile),
            columns=Axis.of(layer, 1, tile),
            product=product,
            multiply=dataclasses.replace(ImageGeometry.of(product, config), stays_scaled=layer.scales > 1),
            block_tiles=config.integer("block_tiles"),
            threads=config.integer("threads"),
        )

    @property
    def images(self) -> int:
        """Images per part."""
        return self.layer.input[0] // self.parts

    @property
    def tiles(self) -> int:
        """Tiles per part and channel."""
        return self.images * self.rows.tiles * self.columns.tiles

    @property
    def results(self) -> int:
        """Channels of the result."""
        return self.multiply.results

    @property
    def vector(self) -> int:
        """Results of a row that one store writes; rows of the result and tiles begin at multiples of it."""
        return next(size for size in (4, 2, 1) if self.minimal.tile % size == 0 and self.columns.results % size == 0)

    @property
    def blocks_across(self) -> int:
        """Blocks of the output transform per channel."""
        return -(-self.tiles // self.threads)

    @property
    def scales_back(self) -> bool:
        """Whether the output transform removes the powers of two. It does if several images have their own, because the
        product kernel has a single image.
        """
        return self.multiply.stays_scaled

    @functools.cached_property
    def pixels(self) -> Tiles:
        """The image transform."""
        images = self.multiply.images
        return Tiles(
            family=PREFIX,
            operand=self.layer.inputs[0],
            arithmetic=Arithmetic.of(self.layer),
            minimal=self.minimal,
            rows=self.rows,
            columns=self.columns,
            step=self.minimal.tile,
            images=self.images,
            channels=images.channels,
            chunks=images.chunks,
            length=images.length,
            block_tiles=self.block_tiles,
            size_bytes=images.nbytes,
        )

    @functools.cached_property
    def weights(self) -> Weights:
        """The weight transform."""
        filters = self.multiply.filters
        return Weights(
            family=PREFIX,
            operand=self.layer.inputs[1],
            arithmetic=Arithmetic.of(self.layer),
            minimal=self.minimal,
            summed=filters.summed,
            results=filters.results,
            columns=filters.columns,
            tiles=filters.tiles,
            block_chunks=filters.block_chunks,
            blocks=filters.blocks,
            is_turned=self.layer.pass_ is Pass.DGRAD,
            size_bytes=filters.nbytes,
        )

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """Workspaces of a part of the batch, and of the weights."""
        products = Workspace(PRODUCTS, self.product.output.nbytes)
        return (*self.weights.workspaces(), *self.pixels.workspaces(), products)

    @property
    def workspace_bytes(self) -> int:
        """Bytes of all workspaces, aligned as a plan lays them out."""
        return sum(aligned(each.nbytes) for each in self.workspaces)


@functools.lru_cache(maxsize=64)  # shared by all configs that a search or a model looks at
def product_of(layer: Conv2d, tile: int, parts: int) -> Conv2d:
    """The products of one part of the batch as a layer of 1x1 taps: its groups are points, its pixels are tiles."""
    minimal = Minimal.of(tile)
    summed, results = layer.input[1], layer.weight[0]
    if layer.pass_ is Pass.DGRAD:
        summed, results = results, summed
    tiles = layer.input[0] // parts
    for axis in (0, 1):
        tiles *= Axis.of(layer, axis, tile).tiles
    return Conv2d(
        input=(1, minimal.products * summed, 1, tiles),
        weight=(minimal.products * results, summed, 1, 1),
        groups=minimal.products,
        precision=layer.precision,
        workspace=layer.workspace_limit,
    )
