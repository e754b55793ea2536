"""Kernels of `conv2d_winograd` that transform pixels and weights, and write them as fp16 parts.

They write the layout that the GEMM kernel of `conv2d_warpgroup` reads for a layer of 1x1 taps (`winograd_image.py`).
The power of two that scales the weights, or an image, comes from the largest number before the transform, because no
transformed number is larger (`minimal.py`). If images have a power each, the output transform removes it.
"""

from __future__ import annotations

import abc
import dataclasses

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import text_key
from warpsmith.generator.conv2d.products.split16.split16_maximum import Maximum
from warpsmith.generator.conv2d.products.split16.split16_operand import CHUNK, Split16Operand, images_of
from warpsmith.generator.conv2d.products.winograd.minimal import TAPS, Minimal
from warpsmith.generator.program import Launch, Pointer, Unit
from warpsmith.generator.render import render

NAME = PREFIX = "conv2d_winograd"
MODEL_SHARE = 0.87
"""Share of the model's time, fitted on an H100, that an H200 takes: 0.82 to 0.99 in ten passes of L5, OverFeat and
ResNet, the less the more channels there are."""
FILTER_COLUMNS = 32
"""Channels of the result per block of the weight transform."""


@dataclasses.dataclass(frozen=True, slots=True)
class WinogradAxis:
    """Rows, or columns, of the images. Comments say rows for both."""

    sources: int
    """Rows of the source."""
    results: int
    before: int
    """Zero rows before the first source row; negative where source rows are left out."""
    tiles: int

    @classmethod
    def of(cls, layer: Conv2d, axis: int, tile: int) -> WinogradAxis:
        """The axis of one pass.

        dgrad exchanges results and sources, and rotates the filter. wgrad gets the axis of x, tiled by the tiles of dy.
        """
        size, out, before = layer.input[2 + axis], layer.output_size[axis], layer.padding[axis][0]
        if layer.pass_.is_transposed:
            size, out, before = out, size, TAPS - 1 - before
        return cls(size, out, before, -(-out // tile))


@dataclasses.dataclass(frozen=True, slots=True)
class TransformedOperand(Split16Operand, abc.ABC):
    """A transformed operand as fp16 parts of one matrix for each point."""

    minimal: Minimal
    size_bytes: int

    @property
    def nbytes(self) -> int:
        return self.size_bytes

    @property
    def largest(self) -> Maximum:
        """The launch that finds the largest number of the whole batch, or of each image; float32 is always scaled."""
        return Maximum(self.family, self.operand, images=self.scaled_images)

    @property
    def maximum(self) -> Maximum:
        return self.largest

    @property
    @abc.abstractmethod
    def threads(self) -> int:
        """Threads per block."""

    def powers_from(self, first_image: int) -> tuple[Pointer, ...]:
        """Kernel arguments for scaling results back, starting at an image of the batch."""
        return tuple(dataclasses.replace(each, offset=each.offset + 4 * first_image) for each in self.powers)

    def _launch(self, blocks: int, first_image: int = 0) -> Launch:
        """The launch that reads the operand starting at `first_image`."""
        arguments = (
            Pointer(self.operand.name, first_image * self.operand.strides[0]),
            Pointer(self.largest.workspace.name, 4 * first_image * self.largest.shares),
            *(self.powers_from(first_image) if self.scaled_images > 1 else ()),
            Pointer(self.packed.name),
        )
        return dataclasses.replace(Launch.of_blocks(self.entry, blocks, self.threads, arguments), unit=self.entry)

    def _texts(self, layer: Conv2d, template: str) -> tuple[Unit, ...]:
        """Units of the maximum kernel and of the transform."""
        text = render(template, key=text_key(layer), g=self, threads=self.threads)
        return self.largest.unit(layer), Unit(self.entry, text)


@dataclasses.dataclass(frozen=True, slots=True)
class WinogradTiles(TransformedOperand):
    """The transformed images of one part of the batch, laid out like the 1x1 layer's own images (`Images`)."""

    rows: WinogradAxis
    columns: WinogradAxis
    step: int
    """Rows, and columns, from one tile to the next."""
    images: int
    channels: int
    chunks: int
    """Channel vectors, including those filled with zeros."""
    length: int
    """Positions per channel vector: the tiles, and zeros behind them."""
    block_tiles: int
    tile_k: int = 0
    """Tiles that are contiguous with their channel vectors and parts, if this is dy of wgrad; otherwise 0."""

    @property
    def entry(self) -> str:
        return f"{PREFIX}_tiles_{self.operand.name}"

    @property
    def read(self) -> int:
        """Rows, and columns, per tile. A tile of dy acts as a filter, so it has one per tap."""
        return self.minimal.taps if self.tile_k else self.minimal.window

    @property
    def transform(self) -> tuple[str, ...]:
        """Rows of the one-dimensional transform matrix, as CUDA expressions."""
        return self.minimal.weight_rows if self.tile_k else self.minimal.pixel_rows

    @property
    def threads(self) -> int:
        """Threads per block: one for each tile and channel of a channel vector."""
        return CHUNK * self.block_tiles

    @property
    def blocks_across(self) -> int:
        """Blocks per channel vector."""
        return -(-self.length // self.block_tiles)

    @property
    def part_length(self) -> int:
        """Channel vectors (16 bytes) from the high parts to the low ones."""
        return self.minimal.products * self.chunks * self.length

    @property
    def scaled_images(self) -> int:
        return self.arithmetic.images

    @property
    def block_images(self) -> int:
        """Most images that the tiles of one block can meet."""
        return images_of(self.block_tiles, self.rows.tiles * self.columns.tiles, self.images)

    def launch(self, first_image: int = 0) -> Launch:
        """The transform of the part of the batch that begins with `first_image`."""
        return self._launch(self.blocks_across * self.chunks, first_image)

    def units(self, layer: Conv2d) -> tuple[Unit, ...]:
        """Units of the maximum kernel and of the transform."""
        return self._texts(layer, "conv2d/winograd_tiles.cu.jinja")


@dataclasses.dataclass(frozen=True, slots=True)
class WinogradFilters(TransformedOperand):
    """The transformed weights, laid out like the 1x1 layer's own weights."""

    summed: int
    results: int
    columns: int
    """Channels of the result per tile."""
    tiles: int
    block_chunks: int
    blocks: int
    """Blocks of summed channels."""
    is_transposed: bool
    """Whether the filter is rotated by 180 degrees and its channels are exchanged, as for dgrad."""

    @property
    def entry(self) -> str:
        return f"{PREFIX}_weights"

    @property
    def threads(self) -> int:
        """Threads per block: one warp for each row of points."""
        return FILTER_COLUMNS * self.minimal.window

    @property
    def blocks_across(self) -> int:
        """Blocks per channel vector."""
        return -(-self.tiles * self.columns // FILTER_COLUMNS)

    @property
    def block_columns(self) -> int:
        """Channels of the result per block."""
        return FILTER_COLUMNS

    def launches(self) -> tuple[Launch, ...]:
        """Launches of the maximum kernel and of the transform."""
        return self.largest.launch(), self._launch(self.blocks_across * self.blocks * self.block_chunks)

    def units(self, layer: Conv2d) -> tuple[Unit, ...]:
        """Units of the maximum kernel and of the transform."""
        return self._texts(layer, "conv2d/winograd_weights.cu.jinja")
