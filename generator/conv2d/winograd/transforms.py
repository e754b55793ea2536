"""The kernels of `conv2d_winograd` that transform pixels and weights, and write them as halves.

They write what the main kernel of `conv2d_warpgroup` reads of a layer of 1x1 taps (`geometry.py`). The power of two
that scales the weights, or an image, is that of its own largest number: nothing that is transformed is larger
(`minimal.py`). Where images have a power each, the kernel that transforms products back takes it off.
"""

from __future__ import annotations

import abc
import dataclasses

from warpsmith.generator.conv2d.halves.halving import CHUNK, Halved, images_of
from warpsmith.generator.conv2d.halves.maximum import Maximum
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import text_key
from warpsmith.generator.conv2d.winograd.minimal import TAPS, Minimal
from warpsmith.generator.conv2d.words import Pass
from warpsmith.generator.program import Launch, Pointer, Unit
from warpsmith.generator.render import render

PREFIX = "conv2d_winograd"
FILTER_COLUMNS = 32
"""Channels of the result of a block that transforms weights."""


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """Rows, or columns, of the images."""

    sources: int
    """Rows that are read."""
    results: int
    before: int
    """Rows of zeros before the first that is read; negative where rows are left out."""
    tiles: int

    @classmethod
    def of(cls, layer: Conv2d, axis: int, tile: int) -> Axis:
        """Of fprop, or of dgrad: the same with the filter turned. Of wgrad that of x, whose tiles are those of dy."""
        size, out, before = layer.input[2 + axis], layer.output_size[axis], layer.padding[axis][0]
        if layer.pass_ is Pass.DGRAD:
            size, out, before = out, size, TAPS - 1 - before
        return cls(size, out, before, -(-out // tile))


@dataclasses.dataclass(frozen=True, slots=True)
class Points(Halved, abc.ABC):
    """An operand, transformed, as halves of one matrix for each point."""

    minimal: Minimal
    size_bytes: int

    @property
    def nbytes(self) -> int:
        return self.size_bytes

    @property
    def largest(self) -> Maximum:
        """What finds the largest number, or that of each image of the whole batch: float32 is always scaled."""
        return Maximum(self.family, self.operand, images=self.scaled_images)

    @property
    def maximum(self) -> Maximum:
        return self.largest

    @property
    @abc.abstractmethod
    def threads(self) -> int:
        """Of a block."""

    def powers_from(self, first_image: int) -> tuple[Pointer, ...]:
        """The argument of a kernel that scales back, from an image of the batch on."""
        return tuple(dataclasses.replace(each, offset=each.offset + 4 * first_image) for each in self.powers)

    def _launch(self, blocks: int, first_image: int = 0) -> Launch:
        """The launch that reads the operand from an image on."""
        arguments = (
            Pointer(self.operand.name, first_image * self.operand.strides[0]),
            Pointer(self.largest.workspace.name, 4 * first_image * self.largest.shares),
            *(self.powers_from(first_image) if self.scaled_images > 1 else ()),
            Pointer(self.halves.name),
        )
        return dataclasses.replace(Launch.of_blocks(self.entry, blocks, self.threads, arguments), unit=self.entry)

    def _texts(self, layer: Conv2d, template: str) -> tuple[Unit, ...]:
        """Of the largest number and of the transform."""
        text = render(template, key=text_key(layer), g=self, threads=self.threads)
        return self.largest.unit(layer), Unit(self.entry, text)


@dataclasses.dataclass(frozen=True, slots=True)
class Tiles(Points):
    """The images of a part of the batch, transformed: laid out as the 1x1 layer's own images are (`Images`)."""

    rows: Axis
    columns: Axis
    step: int
    """Rows, and columns, from tile to tile."""
    images: int
    channels: int
    chunks: int
    """Of eight channels, with those that are filled up with zeros."""
    length: int
    """Positions of a chunk: tiles, and zeros behind them."""
    block_tiles: int
    terms: int = 0
    """Tiles that lie in one piece, with their chunks and parts, where it is dy of wgrad that is transformed."""

    @property
    def entry(self) -> str:
        return f"{PREFIX}_tiles_{self.operand.name}"

    @property
    def read(self) -> int:
        """Rows, and columns, that a tile has. Those of dy are the filter of a gradient of weights."""
        return self.minimal.taps if self.terms else self.minimal.window

    @property
    def transform(self) -> tuple[str, ...]:
        """The rows of one dimension's matrix, as text."""
        return self.minimal.weight_rows if self.terms else self.minimal.pixel_rows

    @property
    def threads(self) -> int:
        """Of a block: one for each tile and channel of a chunk."""
        return CHUNK * self.block_tiles

    @property
    def blocks_across(self) -> int:
        """Of a chunk."""
        return -(-self.length // self.block_tiles)

    @property
    def part_length(self) -> int:
        """From high parts to low ones, in eight halves."""
        return self.minimal.products * self.chunks * self.length

    @property
    def scaled_images(self) -> int:
        return self.arithmetic.images

    @property
    def block_images(self) -> int:
        """Images that a block has tiles of, at the most."""
        return images_of(self.block_tiles, self.rows.tiles * self.columns.tiles, self.images)

    def launch(self, first_image: int = 0) -> Launch:
        """Of the part of the batch that begins with that image."""
        return self._launch(self.blocks_across * self.chunks, first_image)

    def units(self, layer: Conv2d) -> tuple[Unit, ...]:
        """The texts of the largest number and of the transform."""
        return self._texts(layer, "conv2d/winograd_tiles.cu.jinja")


@dataclasses.dataclass(frozen=True, slots=True)
class Weights(Points):
    """The weights, transformed: laid out as the 1x1 layer's own weights are."""

    summed: int
    results: int
    columns: int
    """Of a tile: channels of the result."""
    tiles: int
    block_chunks: int
    blocks: int
    """Of channels that are summed over."""
    is_turned: bool
    """Whether the filter is turned by 180 degrees, and its channels are exchanged: for dgrad."""

    @property
    def entry(self) -> str:
        return f"{PREFIX}_weights"

    @property
    def threads(self) -> int:
        """Of a block: a warp for each row of points."""
        return FILTER_COLUMNS * self.minimal.window

    @property
    def blocks_across(self) -> int:
        """That one chunk of channels takes."""
        return -(-self.tiles * self.columns // FILTER_COLUMNS)

    @property
    def block_columns(self) -> int:
        """Channels of the result, of a block."""
        return FILTER_COLUMNS

    def launches(self) -> tuple[Launch, ...]:
        """That of the largest number, and the transform."""
        return self.largest.launch(), self._launch(self.blocks_across * self.blocks * self.block_chunks)

    def units(self, layer: Conv2d) -> tuple[Unit, ...]:
        """Their texts."""
        return self._texts(layer, "conv2d/winograd_weights.cu.jinja")
