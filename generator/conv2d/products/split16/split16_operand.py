"""16-bit operands of the implicit GEMM: the kernels that lay out images and weights, and scale and split float32.

A number x is scaled so that the largest of its image, or of all weights, lies in [2^14, 2^15). It becomes the sum of
high = half(x) and low = half(x - high). The remainder is below 2^-23 of x or below 2^-39 of the largest number; for an
image whose maximum is sampled, below 2^-33. An earlier launch finds the largest finite numbers: `maximum.Maximum`. The
GEMM kernel scales a result back by the power of two of its image. Data of 16 bits are laid out unchanged.

Source: Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", section 3.
"""

from __future__ import annotations

import abc
import dataclasses

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import text_key
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_folding import Folding
from warpsmith.generator.conv2d.products.split16.split16_lattice import Lattice, LatticeLine
from warpsmith.generator.conv2d.products.split16.split16_maximum import MAX_BLOCKS, THREADS, Maximum
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import Launch, Pointer, Unit, Workspace
from warpsmith.generator.render import render

CHUNK = 8
"""Channels in a channel vector: 16 bytes of fp16, a row of a core matrix."""
CHUNK_BYTES = 16
RANGE = "range"
"""Name of the workspace with the scales of int8 slices: `generator.conv2d.slices.slicing`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Split16Operand(abc.ABC):
    """One operand as 16-bit numbers."""

    family: str
    """Family that owns the launches."""
    operand: Operand
    arithmetic: Arithmetic

    @property
    def maximum(self) -> Maximum | None:
        """The launch that finds the largest number, if the operand is scaled."""
        has_own = self.arithmetic.scales and not self.arithmetic.is_sliced
        return Maximum.of(self.family, self.operand, self.scaled_images) if has_own else None

    @property
    def scaled_images(self) -> int:
        """Number of images that are scaled one by one; 1 where the operand has one power of two."""
        return 1

    @property
    def powers(self) -> tuple[Pointer, ...]:
        """Kernel arguments for scaling results back."""
        return () if self.maximum is None else (self.maximum.power,)

    @property
    def range_place(self) -> int:
        """Index of the operand's power of two in the RANGE workspace of int8 slices: images come first, then the
        weights.
        """
        return self.arithmetic.images if self.operand.name == "w" else 0

    @property
    def entry(self) -> str:
        """Name of the kernel and of its unit."""
        return f"{self.family}_pack_{self.operand.name}"

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Bytes of the 16-bit numbers."""

    @property
    def packed(self) -> Workspace:
        """Workspace for the 16-bit numbers. Those of weights depend on weights alone and can be prepacked."""
        name = self.operand.name
        holds_weights = name == "w" and not self.arithmetic.is_sliced
        return Workspace(f"halves_{name}", self.nbytes, holds=(name,) if holds_weights else ())

    def workspaces(self) -> tuple[Workspace, ...]:
        """Workspaces for the largest numbers and for the 16-bit ones."""
        return (self.packed,) if self.maximum is None else (self.maximum.workspace, self.packed)

    @property
    def is_sampled(self) -> bool:
        """Whether numbers may exceed the range that the scale allows, and are then split again."""
        return self.maximum is not None and self.maximum.is_sampled

    @property
    def entry_again(self) -> str:
        """Name of the kernel that splits the numbers again."""
        return f"{self.family}_pack_{self.operand.name}_again"

    def _launches(self, blocks: int) -> tuple[Launch, ...]:
        maximum = self.maximum
        first = () if maximum is None else (maximum.launch(),)
        largest = () if maximum is None else (Pointer(maximum.workspace.name),)
        if maximum is not None and self.scaled_images > 1:
            largest = (*largest, maximum.power)
        if self.arithmetic.is_sliced:
            largest = (Pointer(RANGE, 4 * self.range_place),)
        arguments = (Pointer(self.operand.name), *largest, Pointer(self.packed.name))
        kernels = [(self.entry, blocks)]
        if self.is_sampled:
            kernels.append((self.entry_again, min(blocks, MAX_BLOCKS)))
        launches = (Launch.of_blocks(entry, count, THREADS, arguments) for entry, count in kernels)
        return *first, *(dataclasses.replace(launch, unit=self.entry) for launch in launches)

    def _units(self, problem: Conv2d, template: str) -> tuple[Unit, ...]:
        first = () if self.maximum is None else (self.maximum.unit(problem),)
        return *first, Unit(self.entry, render(template, key=text_key(problem), g=self, threads=THREADS))


@dataclasses.dataclass(frozen=True, slots=True)
class Images(Split16Operand):
    """16-bit images on the line: [part][group and channel vector][plane][position][channel of the vector].

    If `tile_k` is not 0: [group][block of `tile_k` positions][channel vector][part][position][channel of the vector],
    so that a stage's positions (K) are contiguous.
    """

    images: int
    groups: int
    channels: int
    """Channels per group."""
    chunks: int
    """Channel vectors per group, including those filled with zeros."""
    rows: LatticeLine
    columns: LatticeLine
    length: int
    """Positions per plane, including the zeros behind the last image."""
    tile_k: int = 0
    folding: Folding | None = None
    """Set where rows and columns of the images become channels."""

    @classmethod
    def of_sources(
        cls,
        family: str,
        problem: Conv2d,
        operand: Operand,
        arithmetic: Arithmetic,
        lattice: Lattice,
        chunks: int,
        length: int,
        folding: Folding | None = None,
    ) -> Images:
        """The source that a layer's sum reads: x of fprop and wgrad, dy of dgrad."""
        return cls(
            family=family,
            operand=operand,
            arithmetic=arithmetic,
            images=operand.shape[0],
            groups=problem.groups,
            channels=operand.shape[1] // problem.groups * (folding.count if folding else 1),
            chunks=chunks,
            rows=lattice.rows,
            columns=lattice.columns,
            length=length,
            folding=folding,
        )

    @classmethod
    def of_results(
        cls, family: str, problem: Conv2d, operand: Operand, lattice: Lattice, chunks: int, length: int, tile_k: int
    ) -> Images:
        """dy of wgrad, at the positions of fprop's results."""
        rows, columns = (
            dataclasses.replace(line, sources=size, multiple=1, planes=(0,), before=0)
            for line, size in zip((lattice.rows, lattice.columns), operand.shape[2:], strict=True)
        )
        source = cls.of_sources(family, problem, operand, Arithmetic.of(problem), lattice, chunks, length)
        return dataclasses.replace(source, rows=rows, columns=columns, tile_k=tile_k)

    @property
    def planes(self) -> tuple[tuple[int, int], ...]:
        """First row and first column of each plane."""
        return tuple((row, column) for row in self.rows.planes for column in self.columns.planes)

    @property
    def strides(self) -> tuple[int, ...]:
        """Element strides of the operand."""
        return self.operand.element_strides

    @property
    def is_vector(self) -> bool:
        """Whether a channel vector is contiguous in the operand, in whole 16-byte vectors."""
        return self.strides[1] == 1 and self.channels % self.arithmetic.chunk == 0 and self.folding is None

    @property
    def chunk_length(self) -> int:
        """Positions from one channel vector to the next."""
        return len(self.planes) * self.length

    @property
    def part_length(self) -> int:
        """Positions from the high parts to the low ones."""
        return self.groups * self.chunks * self.chunk_length

    @property
    def nbytes(self) -> int:
        return CHUNK_BYTES * self.arithmetic.parts * self.part_length

    @property
    def scaled_images(self) -> int:
        return self.arithmetic.images

    @property
    def block_images(self) -> int:
        """Most images that the positions of one block of threads can meet."""
        return images_of(THREADS, self.rows.pitch * self.columns.pitch, self.images)

    @property
    def blocks_a_plane(self) -> int:
        """Blocks per plane; each thread has one position."""
        return -(-self.length // THREADS)

    @property
    def blocks(self) -> int:
        return self.blocks_a_plane * len(self.planes) * self.groups * self.chunks

    def launches(self) -> tuple[Launch, ...]:
        return self._launches(self.blocks)

    def units(self, problem: Conv2d) -> tuple[Unit, ...]:
        """Generated source of the kernels."""
        return self._units(problem, "conv2d/halves_images.cu.jinja")


@dataclasses.dataclass(frozen=True, slots=True)
class Filters(Split16Operand):
    """16-bit weights: [group][tile of columns][block of channels][tap][part][channel vector][column][channel of the
    vector].

    Columns are channels of the result; channels are those that a result sums over.
    """

    groups: int
    summed: int
    """Channels of a group that a result sums over."""
    results: int
    """Channels of a group of the result."""
    filter_columns: int
    tap_count: int
    columns: int
    """Columns per tile."""
    tiles: int
    block_chunks: int
    """Channel vectors per block of channels."""
    blocks: int
    """Blocks of channels per group."""
    is_transposed: bool
    """Whether the weights lie transposed, as [summed][result]; they do for dgrad."""
    folding: Folding | None = None
    """Set where rows and columns of the images become channels."""

    @property
    def strides(self) -> tuple[int, ...]:
        """Element strides of the weights: along the summed channels, the result channels, the rows and the columns."""
        first, second, row, column = self.operand.element_strides
        return (first, second, row, column) if self.is_transposed else (second, first, row, column)

    @property
    def group_stride(self) -> int:
        """Elements from one group to the next; groups divide the filters."""
        filters = self.summed if self.is_transposed else self.results
        return filters * self.operand.element_strides[0]

    @property
    def tile_bytes(self) -> int:
        """Bytes of one tap, one block of channels and one tile of columns, all parts included."""
        return CHUNK_BYTES * self.arithmetic.parts * self.block_chunks * self.columns

    @property
    def threads(self) -> int:
        """Threads of the launch, one for each channel vector, column and tap."""
        return self.groups * self.tiles * self.columns * self.blocks * self.block_chunks * self.tap_count

    @property
    def nbytes(self) -> int:
        return self.groups * self.tiles * self.blocks * self.tap_count * self.tile_bytes

    def launches(self) -> tuple[Launch, ...]:
        return self._launches(-(-self.threads // THREADS))

    def units(self, problem: Conv2d) -> tuple[Unit, ...]:
        """Generated source of the kernels."""
        return self._units(problem, "conv2d/halves_filters.cu.jinja")


def images_of(positions: int, pitch: int, images: int) -> int:
    """Most images out of `images` that a range of positions can meet, if an image has `pitch` positions."""
    return min(images, (positions + pitch - 2) // pitch + 1)
