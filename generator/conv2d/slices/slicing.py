"""Numbers as three signed bytes, and the check that these are enough.

With the power of two p that brings the largest number of an operand next to 127.5 * 2^16, q = round(x * 2^p) has three
digits in base 256 from -128 to 127. A product of two numbers is the sum of nine products of digits, eight of which are
taken: that of both lowest digits is about a hundredth of what rounding to q loses. Without the two next smallest, six
products would do: they are three times what rounding loses. Sums of products of digits are exact in 32 bits, so any
order gives the same.

What rounding loses is 0.29 of a step of q, at random; relative to a result it is small where most numbers are not much
smaller than the largest. A launch measures the mean magnitude and the mean square of each channel that is summed over,
of both operands: with their products a channel of large numbers that meets small weights counts as what it adds to a
result. Where the error that they let expect, SIGMAS standard deviations of it, is beyond BOUND of what errors are
measured by (`Accuracy.NORMWISE`), or where a number is not finite, the range is told to be too wide. Images have
powers and ranges of their own.

Source: Ootomo, Ozaki and Yokota 2024, "DGEMM on integer matrix multiplication unit", whose scheme is Ozaki's.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.halves.arithmetic import Arithmetic, scaled_images
from warpsmith.generator.conv2d.halves.halving import RANGE, Filters, Images
from warpsmith.generator.conv2d.halves.maximum import THREADS
from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import text_key
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import Launch, Pointer, Unit, Workspace
from warpsmith.generator.render import render

DIGITS = 3
LEVELS = 4
"""Powers of 256 that products of digits are added up by, each in a sum of its own."""
MOST_TERMS = (2**31 - 1) // (3 * 2**14)
"""Of a sum: three products of a level, 2^14 each at the most, fit into 32 bits."""
LARGEST = 127 * 2**16 + 127 * 2**8 + 127
"""That three digits make."""
SIGMAS = 6.0
BOUND = 1e-6
WARP, BLOCK_NUMBERS = 32, 2048
"""Threads that share a channel of an image, unless it has so many numbers: then a block does."""
MEASURES = 3
"""Of a channel: its largest magnitude, the sum of magnitudes and that of squares."""


@dataclasses.dataclass(frozen=True, slots=True)
class Slices(Arithmetic):
    """Three bytes instead of two halves."""

    chunk: ClassVar[int] = 16
    is_sliced: ClassVar[bool] = True
    template: ClassVar[str] = "conv2d/slices_scale.cu.jinja"

    @classmethod
    def of(cls, problem: Conv2d) -> Slices:
        return cls(problem.dtype, parts=DIGITS, scales=True, promotes=False, images=scaled_images(problem))

    @property
    def products(self) -> int:
        return DIGITS**2 - 1

    @property
    def told(self) -> str:
        return "int8"


@dataclasses.dataclass(frozen=True, slots=True)
class Measure:
    """The launch that measures the channels of an operand that are summed over, group by group; those of a batch image
    by image.
    """

    family: str
    operand: Operand
    blocks: int
    channels: int
    """Of a group."""
    group_stride: int
    """Elements from a group to the next one."""
    channel_stride: int
    outer: int
    """Images, or results of a group, that a channel has numbers for."""
    outer_stride: int
    inner: int
    """Pixels, or taps, of one of them."""
    inner_stride: int
    images: int = 1
    """Images that are measured by themselves; 1 where all are measured together."""

    @classmethod
    def of_images(cls, images: Images) -> Measure:
        operand, strides = images.operand, images.strides
        group_stride = images.channels * strides[1]
        sizes = operand.shape[0], strides[0], operand.shape[2] * operand.shape[3], strides[3]
        own = images.channels, group_stride, strides[1], *sizes, images.scaled_images
        return cls(images.family, operand, operand.shape[1], *own)

    @classmethod
    def of_filters(cls, filters: Filters) -> Measure:
        summed, results, _, column = filters.strides
        sizes = filters.results, results, filters.tap_count, column
        blocks = filters.groups * filters.summed
        return cls(filters.family, filters.operand, blocks, filters.summed, filters.group_stride, summed, *sizes)

    @property
    def entry(self) -> str:
        """The kernel, and its unit."""
        return f"{self.family}_measure_{self.operand.name}"

    @property
    def numbers(self) -> int:
        """Numbers of a channel that are measured together."""
        return self.outer // self.images * self.inner

    @property
    def lines(self) -> int:
        """Channels of all images that are measured by themselves."""
        return self.images * self.blocks

    @property
    def channel_threads(self) -> int:
        """Threads that share a channel: a warp, or a block where they have enough numbers to add up."""
        return THREADS if self.images == 1 or self.numbers >= BLOCK_NUMBERS else WARP

    @property
    def workspace(self) -> Workspace:
        """Where a channel's measures are, side by side."""
        return Workspace(f"measures_{self.operand.name}", 8 * MEASURES * self.lines)

    def launch(self) -> Launch:
        """Of its unit."""
        arguments = (Pointer(self.operand.name), Pointer(self.workspace.name))
        blocks = -(-self.lines * self.channel_threads // THREADS)
        return dataclasses.replace(Launch.of_blocks(self.entry, blocks, THREADS, arguments), unit=self.entry)

    def unit(self, problem: Conv2d) -> Unit:
        """Its text."""
        text = render("conv2d/slices_measure.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        return Unit(self.entry, text)


@dataclasses.dataclass(frozen=True, slots=True)
class Range:
    """The launch that finds the powers of two and whether the range is too wide, image by image."""

    family: str
    measures: tuple[Measure, Measure]
    groups: int
    taps: int
    """That a result sums over, at the most."""

    largest: ClassVar[int] = LARGEST

    @property
    def workspace(self) -> Workspace:
        """The power of each image, that of the weights, and of each image 1 where the range is too wide."""
        return Workspace(RANGE, 4 * (2 * self.measures[0].images + 1))

    @property
    def entry(self) -> str:
        """The kernel, and its unit."""
        return f"{self.family}_range"

    @property
    def most_error(self) -> float:
        """One standard deviation of it, in the unit of errors."""
        return BOUND / SIGMAS

    def launch(self) -> Launch:
        """The launch of its unit: a block for each image, or one for all."""
        arguments = (*(Pointer(each.workspace.name) for each in self.measures), Pointer(RANGE))
        launch = Launch.of_blocks(self.entry, self.measures[0].images, THREADS, arguments)
        return dataclasses.replace(launch, unit=self.entry)

    def unit(self, problem: Conv2d) -> Unit:
        """Its text."""
        text = render("conv2d/slices_range.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        return Unit(self.entry, text)
