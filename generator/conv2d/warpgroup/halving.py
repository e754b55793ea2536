"""Images and weights as halves: the kernels that scale float32 numbers by a power of two and split them.

A number x, scaled so that the largest of its operand lies in [2^14, 2^15), is the sum of high = half(x) and low =
half(x - high); what they leave is below 2^-23 of x, or below 2^-39 of the largest number. The largest finite number of an
operand is found by a launch before.

Source: Ootomo and Yokota 2022, "Recovering single precision accuracy from Tensor Cores", section 3.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import text_key
from warpsmith.generator.conv2d.warpgroup.lattice import Lattice, Line
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import Launch, Pointer, Unit, Workspace
from warpsmith.generator.render import render

CHUNK = 8
"""Channels that lie side by side: 16 bytes of halves, a row of a core matrix."""
THREADS = 256
"""Of a block that finds the largest number, or splits numbers."""
NUMBERS_A_BLOCK, MAX_BLOCKS = 4096, 1056
"""Of a block that finds the largest number of its share, and such blocks at the most: eight a multiprocessor."""


@dataclasses.dataclass(frozen=True, slots=True)
class Maximum:
    """The launch that finds the largest magnitude of an operand: of each share of it one number."""

    operand: Operand

    @property
    def entry(self) -> str:
        """The kernel."""
        return f"conv2d_warpgroup_largest_{self.operand.name}"

    @property
    def workspace(self) -> str:
        """Where the numbers are, and behind them the power of two."""
        return f"largest_{self.operand.name}"

    @property
    def blocks(self) -> int:
        """And so numbers."""
        return max(1, min(MAX_BLOCKS, self.operand.size // NUMBERS_A_BLOCK))

    @property
    def nbytes(self) -> int:
        """Of the workspace."""
        return 4 * (self.blocks + 1)

    @property
    def power_offset(self) -> int:
        """Bytes from the workspace's begin to the power."""
        return 4 * self.blocks

    @property
    def power(self) -> Pointer:
        """The argument of a kernel that reads the power."""
        return Pointer(self.workspace, self.power_offset)

    def launch(self) -> Launch:
        """Of the unit named like its kernel."""
        arguments = (Pointer(self.operand.name), Pointer(self.workspace))
        return dataclasses.replace(Launch.of_blocks(self.entry, self.blocks, THREADS, arguments), unit=self.entry)

    def unit(self, problem: Conv2d) -> Unit:
        """Its text."""
        return Unit(
            self.entry, render("conv2d/warpgroup_largest.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Images:
    """An operand of images on the line, as halves: [part][group and chunk][plane][position][channel of the chunk].

    Where `terms` is given: [group][block of so many positions][chunk][part][position][channel of the chunk], so that what
    a product sums over lies in one piece.
    """

    maximum: Maximum
    parts: int
    """2: high and low; 1: high alone."""
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

    @classmethod
    def of_sources(cls, problem: Conv2d, operand: Operand, lattice: Lattice, parts: int, chunks: int, length: int) -> Images:
        """What a layer's sum reads: x of fprop and wgrad, dy of dgrad."""
        channels = operand.shape[1] // problem.groups
        rows, columns = lattice.rows, lattice.columns
        return cls(Maximum(operand), parts, operand.shape[0], problem.groups, channels, chunks, rows, columns, length)

    @classmethod
    def of_results(
        cls, problem: Conv2d, operand: Operand, lattice: Lattice, parts: int, chunks: int, length: int, terms: int
    ) -> Images:
        """dy of wgrad, where the results of fprop are."""
        channels = operand.shape[1] // problem.groups
        rows, columns = (
            dataclasses.replace(line, sources=size, multiple=1, planes=(0,), before=0)
            for line, size in zip((lattice.rows, lattice.columns), operand.shape[2:], strict=True)
        )
        images, groups = operand.shape[0], problem.groups
        return cls(Maximum(operand), parts, images, groups, channels, chunks, rows, columns, length, terms)

    @property
    def name(self) -> str:
        """Of the operand."""
        return self.maximum.operand.name

    @property
    def entry(self) -> str:
        """The kernel, and its unit."""
        return f"conv2d_warpgroup_halve_{self.name}"

    @property
    def workspace(self) -> str:
        """Where the halves are."""
        return f"halves_{self.name}"

    @property
    def planes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns that they begin at."""
        return tuple((row, column) for row in self.rows.planes for column in self.columns.planes)

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
        """Of the workspace."""
        return 2 * CHUNK * self.parts * self.part_length

    @property
    def blocks_a_plane(self) -> int:
        """Blocks of threads, a position each."""
        return -(-self.length // THREADS)

    def workspaces(self) -> tuple[Workspace, ...]:
        """Of its largest numbers and its halves."""
        return Workspace(self.maximum.workspace, self.maximum.nbytes), Workspace(self.workspace, self.nbytes)

    def launches(self) -> tuple[Launch, ...]:
        """One after the other."""
        blocks = self.blocks_a_plane * len(self.planes) * self.groups * self.chunks
        arguments = (Pointer(self.name), Pointer(self.maximum.workspace), Pointer(self.workspace))
        halve = dataclasses.replace(Launch.of_blocks(self.entry, blocks, THREADS, arguments), unit=self.entry)
        return self.maximum.launch(), halve

    def units(self, problem: Conv2d) -> tuple[Unit, ...]:
        """Their texts."""
        text = render("conv2d/warpgroup_images.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        return self.maximum.unit(problem), Unit(self.entry, text)


@dataclasses.dataclass(frozen=True, slots=True)
class Filters:
    """Weights as halves, as products read them: [group][tile of columns][block of channels][tap][part][chunk][column]
    [channel of the chunk], where columns are channels of the result and channels those that are summed over."""

    maximum: Maximum
    parts: int
    groups: int
    summed: int
    """Channels of a group that a result sums over."""
    results: int
    """Channels of a group of the result."""
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

    @property
    def entry(self) -> str:
        """The kernel, and its unit."""
        return "conv2d_warpgroup_halve_w"

    @property
    def workspace(self) -> str:
        """Where the halves are."""
        return "halves_w"

    @property
    def tile_halves(self) -> int:
        """Of one tap, one block of channels and one tile of columns; all parts."""
        return self.parts * self.block_chunks * self.columns * CHUNK

    @property
    def threads(self) -> int:
        """One for each chunk of channels, column and tap."""
        return self.groups * self.tiles * self.columns * self.blocks * self.block_chunks * self.tap_count

    @property
    def nbytes(self) -> int:
        """Of the workspace."""
        return 2 * self.groups * self.tiles * self.blocks * self.tap_count * self.tile_halves

    def workspaces(self) -> tuple[Workspace, ...]:
        """Of its largest numbers and its halves, which depend on the weights alone."""
        return (
            Workspace(self.maximum.workspace, self.maximum.nbytes, holds=("w",)),
            Workspace(self.workspace, self.nbytes, holds=("w",)),
        )

    def launches(self) -> tuple[Launch, ...]:
        """One after the other."""
        arguments = (Pointer("w"), Pointer(self.maximum.workspace), Pointer(self.workspace))
        blocks = -(-self.threads // THREADS)
        halve = dataclasses.replace(Launch.of_blocks(self.entry, blocks, THREADS, arguments), unit=self.entry)
        return self.maximum.launch(), halve

    def units(self, problem: Conv2d) -> tuple[Unit, ...]:
        """Their texts."""
        text = render("conv2d/warpgroup_filters.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        return self.maximum.unit(problem), Unit(self.entry, text)
