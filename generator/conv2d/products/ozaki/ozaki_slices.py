"""Ozaki scheme: numbers as three int8 slices, and the check that three are enough.

A power of two p brings the largest number of an operand next to 127.5 * 2^16. Then q = round(x * 2^p) has three digits
in base 256, from -128 to 127: the int8 slices. A product of two numbers is the sum of nine products of slices, of which
eight are taken. The product of both lowest slices is about a hundredth of what rounding to q loses. Leaving out the two
next smallest as well would take six products, but they are three times what rounding loses. Sums of products of slices
are exact in 32 bits, so any order gives the same result.

Rounding loses 0.29 of a step of q, at random. Relative to a result this is small if most numbers are not much smaller
than the largest. A launch measures the mean magnitude and the mean square of each summed channel of both operands. With
their products, a channel of large numbers that meets small weights counts as what it adds to a result. The range is too
wide if a number is not finite, or if SIGMAS standard deviations of the expected error exceed BOUND times the scale of
`Accuracy.NORMWISE`. Each image has its own power and its own range.

Source: Ootomo, Ozaki and Yokota 2024, "DGEMM on integer matrix multiplication unit", whose scheme is Ozaki's.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import text_key
from warpsmith.generator.conv2d.products.split16.split16_arithmetic import Arithmetic
from warpsmith.generator.conv2d.products.split16.split16_maximum import THREADS
from warpsmith.generator.conv2d.products.split16.split16_operand import RANGE, Filters, Images
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import Launch, Pointer, Unit, Workspace
from warpsmith.generator.render import render

SLICES = 3
LEVELS = 4
"""Powers of 256 by which products of slices are added up, each in an accumulator of its own."""
MOST_TERMS = (2**31 - 1) // (3 * 2**14)
"""Most terms of a sum: three products per level and term, at most 2^14 each, fit into 32 bits."""
LARGEST = 127 * 2**16 + 127 * 2**8 + 127
"""Largest magnitude that three int8 slices represent."""
SIGMAS = 6.0
BOUND = 1e-6
WARP, BLOCK_NUMBERS = 32, 2048
"""WARP threads share a channel of an image that has fewer than BLOCK_NUMBERS numbers; otherwise a block shares it."""
MEASURES = 3
"""Measures per channel: the largest magnitude, the sum of magnitudes and the sum of squares."""


@dataclasses.dataclass(frozen=True, slots=True)
class OzakiArithmetic(Arithmetic):
    """Three int8 slices per number instead of two fp16 parts."""

    chunk: ClassVar[int] = 16
    is_sliced: ClassVar[bool] = True
    template: ClassVar[str] = "conv2d/slices_scale.cu.jinja"

    @classmethod
    def of(cls, problem: Conv2d) -> OzakiArithmetic:
        return cls(problem.dtype, parts=SLICES, scales=True, promotes=False, images=problem.scales)

    @property
    def products(self) -> int:
        return SLICES**2 - 1

    @property
    def description(self) -> str:
        return "int8"


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelMeasure:
    """The launch that measures the summed channels of an operand, group by group; channels of a batch also image by
    image.
    """

    family: str
    operand: Operand
    blocks: int
    channels: int
    """Channels per group."""
    group_stride: int
    """Elements from one group to the next."""
    channel_stride: int
    outer: int
    """Images, or results of a group, for which a channel has numbers."""
    outer_stride: int
    inner: int
    """Pixels, or taps, of one image or result."""
    inner_stride: int
    images: int = 1
    """Number of images that are measured one by one; 1 if all are measured together."""

    @classmethod
    def of_images(cls, images: Images) -> ChannelMeasure:
        operand, strides = images.operand, images.strides
        group_stride = images.channels * strides[1]
        sizes = operand.shape[0], strides[0], operand.shape[2] * operand.shape[3], strides[3]
        own = images.channels, group_stride, strides[1], *sizes, images.scaled_images
        return cls(images.family, operand, operand.shape[1], *own)

    @classmethod
    def of_filters(cls, filters: Filters) -> ChannelMeasure:
        summed, results, _, column = filters.strides
        sizes = filters.results, results, filters.tap_count, column
        blocks = filters.groups * filters.summed
        return cls(filters.family, filters.operand, blocks, filters.summed, filters.group_stride, summed, *sizes)

    @property
    def entry(self) -> str:
        """Name of the kernel and of its unit."""
        return f"{self.family}_measure_{self.operand.name}"

    @property
    def numbers(self) -> int:
        """Numbers of a channel that are measured together."""
        return self.outer // self.images * self.inner

    @property
    def lines(self) -> int:
        """Channels of all images that are measured one by one."""
        return self.images * self.blocks

    @property
    def channel_threads(self) -> int:
        """Threads that share a channel: a block if it has enough numbers, otherwise a warp."""
        return THREADS if self.images == 1 or self.numbers >= BLOCK_NUMBERS else WARP

    @property
    def workspace(self) -> Workspace:
        """Workspace with the measures of each channel side by side."""
        return Workspace(f"measures_{self.operand.name}", 8 * MEASURES * self.lines)

    def launch(self) -> Launch:
        arguments = (Pointer(self.operand.name), Pointer(self.workspace.name))
        blocks = -(-self.lines * self.channel_threads // THREADS)
        return dataclasses.replace(Launch.of_blocks(self.entry, blocks, THREADS, arguments), unit=self.entry)

    def unit(self, problem: Conv2d) -> Unit:
        """Generated source of the kernel."""
        text = render("conv2d/slices_measure.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        return Unit(self.entry, text)


@dataclasses.dataclass(frozen=True, slots=True)
class RangeCheck:
    """The launch that finds the powers of two, and image by image whether the range is too wide."""

    family: str
    measures: tuple[ChannelMeasure, ChannelMeasure]
    groups: int
    taps: int
    """Most taps that a result sums over."""

    largest: ClassVar[int] = LARGEST

    @property
    def workspace(self) -> Workspace:
        """Powers of the images, the power of the weights, and for each image a flag: 1 if its range is too wide."""
        return Workspace(RANGE, 4 * (2 * self.measures[0].images + 1))

    @property
    def entry(self) -> str:
        """Name of the kernel and of its unit."""
        return f"{self.family}_range"

    @property
    def most_error(self) -> float:
        """Largest standard deviation of the error, relative to the scale of `Accuracy.NORMWISE`."""
        return BOUND / SIGMAS

    def launch(self) -> Launch:
        """The launch, with one block per image, or one block for all images."""
        arguments = (*(Pointer(each.workspace.name) for each in self.measures), Pointer(RANGE))
        launch = Launch.of_blocks(self.entry, self.measures[0].images, THREADS, arguments)
        return dataclasses.replace(launch, unit=self.entry)

    def unit(self, problem: Conv2d) -> Unit:
        """Generated source of the kernel."""
        text = render("conv2d/slices_range.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        return Unit(self.entry, text)
