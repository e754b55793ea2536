"""Images and weights as 16-bit numbers: the kernels that lay them out, and scale and split those of float32.

A number x, scaled so that the largest of its image, or of all weights, lies in [2^14, 2^15), is the sum of high =
half(x) and low = half(x - high); what they leave is below 2^-23 of x, or below 2^-39 of the largest number, and of an
image whose numbers are sampled below 2^-33. The largest finite numbers are found by a launch before:
`maximum.Maximum`. Who multiplies scales a result back by the power of two of its image. Data of 16 bits are laid out
as they are.

Source: Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", section 3.
"""

from __future__ import annotations

import abc
import dataclasses

from warpsmith.generator.conv2d.halves.arithmetic import Arithmetic
from warpsmith.generator.conv2d.halves.folding import Folding
from warpsmith.generator.conv2d.halves.lattice import Lattice, Line
from warpsmith.generator.conv2d.halves.maximum import MAX_BLOCKS, THREADS, Maximum
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import text_key
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import Launch, Pointer, Unit, Workspace
from warpsmith.generator.render import render

CHUNK = 8
"""Halves of channels that lie side by side: 16 bytes, a row of a core matrix."""
CHUNK_BYTES = 16
RANGE = "range"
"""The workspace that slices are scaled by: `generator.conv2d.slices.slicing`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Halved(abc.ABC):
    """An operand as 16-bit numbers."""

    family: str
    """Whose launches these are."""
    operand: Operand
    arithmetic: Arithmetic

    @property
    def maximum(self) -> Maximum | None:
        """What finds the largest number, where the operand is scaled."""
        has_own = self.arithmetic.scales and not self.arithmetic.is_sliced
        return Maximum.of(self.family, self.operand, self.scaled_images) if has_own else None

    @property
    def scaled_images(self) -> int:
        """Images that are scaled one by one; 1 where the operand has one power of two."""
        return 1

    @property
    def powers(self) -> tuple[Pointer, ...]:
        """The argument of a kernel that scales back."""
        return () if self.maximum is None else (self.maximum.power,)

    @property
    def range_place(self) -> int:
        """Place in the range of the power of two of slices, or of the first image's: those of images come first."""
        return self.arithmetic.images if self.operand.name == "w" else 0

    @property
    def entry(self) -> str:
        """The kernel, and its unit."""
        return f"{self.family}_pack_{self.operand.name}"

    @property
    @abc.abstractmethod
    def nbytes(self) -> int:
        """Of the numbers."""

    @property
    def halves(self) -> Workspace:
        """Where they are. Those of weights depend on weights alone."""
        name = self.operand.name
        holds_weights = name == "w" and not self.arithmetic.is_sliced
        return Workspace(f"halves_{name}", self.nbytes, holds=(name,) if holds_weights else ())

    def workspaces(self) -> tuple[Workspace, ...]:
        """Of the largest numbers and of the 16-bit ones."""
        return (self.halves,) if self.maximum is None else (self.maximum.workspace, self.halves)

    @property
    def is_sampled(self) -> bool:
        """Whether numbers may turn out larger than what they are scaled by, and are laid out again then."""
        return self.maximum is not None and self.maximum.is_sampled

    @property
    def entry_again(self) -> str:
        """The kernel that lays out numbers again."""
        return f"{self.family}_pack_{self.operand.name}_again"

    def _launches(self, blocks: int) -> tuple[Launch, ...]:
        maximum = self.maximum
        first = () if maximum is None else (maximum.launch(),)
        largest = () if maximum is None else (Pointer(maximum.workspace.name),)
        if maximum is not None and self.scaled_images > 1:
            largest = (*largest, maximum.power)
        if self.arithmetic.is_sliced:
            largest = (Pointer(RANGE, 4 * self.range_place),)
        arguments = (Pointer(self.operand.name), *largest, Pointer(self.halves.name))
        kernels = [(self.entry, blocks)]
        if self.is_sampled:
            kernels.append((self.entry_again, min(blocks, MAX_BLOCKS)))
        launches = (Launch.of_blocks(entry, count, THREADS, arguments) for entry, count in kernels)
        return *first, *(dataclasses.replace(launch, unit=self.entry) for launch in launches)

    def _units(self, problem: Conv2d, template: str) -> tuple[Unit, ...]:
        first = () if self.maximum is None else (self.maximum.unit(problem),)
        return *first, Unit(self.entry, render(template, key=text_key(problem), g=self, threads=THREADS))


@dataclasses.dataclass(frozen=True, slots=True)
class Images(Halved):
    """Images on the line: [part][group and chunk][plane][position][channel of the chunk].

    Where `terms` is given: [group][block of so many positions][chunk][part][position][channel of the chunk], so that
    what a product sums over lies in one piece.
    """

    images: int
    groups: int
    channels: int
    """Of a group."""
    chunks: int
    """Of a group, with those that are filled up with zeros."""
    rows: Line
    columns: Line
    length: int
    """Positions of a plane, with zeros behind the last image."""
    terms: int = 0
    folding: Folding | None = None
    """Where rows and columns of the images are channels."""

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
        """What a layer's sum reads: x of fprop and wgrad, dy of dgrad."""
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
        cls, family: str, problem: Conv2d, operand: Operand, lattice: Lattice, chunks: int, length: int, terms: int
    ) -> Images:
        """dy of wgrad, where the results of fprop are."""
        rows, columns = (
            dataclasses.replace(line, sources=size, multiple=1, planes=(0,), before=0)
            for line, size in zip((lattice.rows, lattice.columns), operand.shape[2:], strict=True)
        )
        source = cls.of_sources(family, problem, operand, Arithmetic.of(problem), lattice, chunks, length)
        return dataclasses.replace(source, rows=rows, columns=columns, terms=terms)

    @property
    def planes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns that they begin at."""
        return tuple((row, column) for row in self.rows.planes for column in self.columns.planes)

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the operand, in elements."""
        return self.operand.element_strides

    @property
    def is_vector(self) -> bool:
        """Whether the channels of a chunk lie side by side in memory, in whole vectors of 16 bytes."""
        return self.strides[1] == 1 and self.channels % self.arithmetic.chunk == 0 and self.folding is None

    @property
    def chunk_length(self) -> int:
        """Positions from a chunk to the next one."""
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
        """Images that a block of threads has positions of, at the most."""
        return images_of(THREADS, self.rows.pitch * self.columns.pitch, self.images)

    @property
    def blocks_a_plane(self) -> int:
        """Blocks of threads, a position each."""
        return -(-self.length // THREADS)

    @property
    def blocks(self) -> int:
        """Of threads, in all."""
        return self.blocks_a_plane * len(self.planes) * self.groups * self.chunks

    def launches(self) -> tuple[Launch, ...]:
        """One after the other."""
        return self._launches(self.blocks)

    def units(self, problem: Conv2d) -> tuple[Unit, ...]:
        """Their texts."""
        return self._units(problem, "conv2d/halves_images.cu.jinja")


@dataclasses.dataclass(frozen=True, slots=True)
class Filters(Halved):
    """Weights as products read them: [group][tile of columns][block of channels][tap][part][chunk][column][channel of
    the chunk], where columns are channels of the result and channels those that are summed over."""

    groups: int
    summed: int
    """Channels of a group that a result sums over."""
    results: int
    """Channels of a group of the result."""
    filter_columns: int
    tap_count: int
    columns: int
    """Of a tile."""
    tiles: int
    block_chunks: int
    """Chunks of a block of channels."""
    blocks: int
    """Of channels, in a group."""
    is_turned: bool
    """Whether the weights lie as [summed][result], as for dgrad."""
    folding: Folding | None = None
    """Where rows and columns of the images are channels."""

    @property
    def strides(self) -> tuple[int, ...]:
        """From one weight to the next, in elements: of the channels summed over, the results, and rows and columns."""
        first, second, row, column = self.operand.element_strides
        return (first, second, row, column) if self.is_turned else (second, first, row, column)

    @property
    def group_stride(self) -> int:
        """From a group to the next one: groups divide the filters."""
        filters = self.summed if self.is_turned else self.results
        return filters * self.operand.element_strides[0]

    @property
    def tile_bytes(self) -> int:
        """Of one tap, one block of channels and one tile of columns; all parts."""
        return CHUNK_BYTES * self.arithmetic.parts * self.block_chunks * self.columns

    @property
    def threads(self) -> int:
        """One for each chunk of channels, column and tap."""
        return self.groups * self.tiles * self.columns * self.blocks * self.block_chunks * self.tap_count

    @property
    def nbytes(self) -> int:
        return self.groups * self.tiles * self.blocks * self.tap_count * self.tile_bytes

    def launches(self) -> tuple[Launch, ...]:
        """One after the other."""
        return self._launches(-(-self.threads // THREADS))

    def units(self, problem: Conv2d) -> tuple[Unit, ...]:
        """Their texts."""
        return self._units(problem, "conv2d/halves_filters.cu.jinja")


def images_of(positions: int, pitch: int, images: int) -> int:
    """Images, of so many, that a run of positions meets at the most, where an image has `pitch` positions."""
    return min(images, (positions + pitch - 2) // pitch + 1)
