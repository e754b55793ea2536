"""The launch that finds the largest magnitude of an operand, or of each image, by which the fp16 split is scaled.

Images of fprop and dgrad are scaled one by one, so that no image affects another. Beside an image that is 1e6 times as
large, fp16 parts under one common power of two keep 19 bits fewer of the other images. Weights are one operand and
wgrad sums over images, so each of these has one power of two.

Reading all of a large image takes as long as half of what follows, which reads the image once more. For large images
the launch therefore reads a sample, and numbers are scaled so that they may be 64 times as large as the sample's
largest. The split kernel checks whether any number is larger; only then all are split again, scaled by the largest of
all.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.text import text_key
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import Launch, Pointer, Unit, Workspace
from warpsmith.generator.render import render

THREADS = 256
"""Threads per block of the maximum kernel and of the split kernels."""
NUMBERS_A_BLOCK, MAX_BLOCKS = 4096, 1056
"""Numbers per block of the maximum kernel, and the most such blocks: eight per SM."""
SAMPLED_SIZE = 1 << 22
"""Fewest numbers of an operand for which sampling pays for the extra launch that splits again: 16 MiB, which take 8 us
to read. Weights are always read whole, because prepacked weights are read only once.
"""
SAMPLE = 1 << 16
"""Vectors of four numbers in a sample, evenly spaced: 2 MiB of sectors."""
HEADROOM = 6
"""Powers of two that the largest number may lie above the sample's largest. Among a million log-normal numbers (sigma
3) the largest is 2^2 to 2^4 above that of a sample.
"""
LEAST_SAMPLE, LEAST_STEP = 256, 4
"""Fewest vectors in the sample of one image, and the smallest step between vectors. With a smaller step, the sample
would read half of the image's sectors or more.
"""
MOST_SHARES = 128
"""Most blocks per image: a split kernel reads one partial maximum of each block, four per lane."""


@dataclasses.dataclass(frozen=True, slots=True)
class Maximum:
    """The launch that finds the largest magnitude of a float32 operand; each block writes one partial maximum."""

    family: str
    """Family whose launch this is; it keeps the names of a program's units apart."""
    operand: Operand
    is_sampled: bool = False
    """Whether the launch reads a sample instead of all numbers."""
    images: int = 1
    """Number of images with a maximum each; 1 where the operand has one maximum."""

    @classmethod
    def of(cls, family: str, operand: Operand, images: int = 1) -> Maximum:
        """Maximum kernel; reads a sample if `samples(operand, images)` is true."""
        return cls(family, operand, samples(operand, images), images)

    @property
    def numbers(self) -> int:
        """Numbers per image."""
        return self.operand.size // self.images

    @property
    def fours(self) -> int:
        """Aligned vectors of four numbers that lie within an image, whatever the alignment of its first number."""
        return (self.numbers - (3 if self.numbers % 4 and self.images > 1 else 0)) // 4

    @property
    def headroom(self) -> int:
        """Powers of two that the scale leaves above the largest number found."""
        return HEADROOM if self.is_sampled else 0

    @property
    def step(self) -> int:
        """Distance between two vectors that are read, in vectors of four numbers."""
        if not self.is_sampled:
            return 1
        step = self.fours // _sample(self.images)
        if self.images == 1:
            return step
        return step - 1 | 1  # an odd step meets all channels of channels-last pixels

    @property
    def entry(self) -> str:
        """Name of the kernel and of its unit."""
        return f"{self.family}_largest_{self.operand.name}"

    @property
    def shares(self) -> int:
        """Blocks per image; each writes one partial maximum."""
        most = MAX_BLOCKS if self.images == 1 else min(MOST_SHARES, MAX_BLOCKS // self.images)
        return max(1, min(most, self.numbers // self.step // NUMBERS_A_BLOCK))

    @property
    def blocks(self) -> int:
        """Blocks of all images, which is also the number of partial maxima."""
        return self.images * self.shares

    @property
    def workspace(self) -> Workspace:
        """The partial maxima, followed by the power of two. A sample adds the largest number beyond its range.

        Images with own maxima have one power each, and if sampled, one largest number beyond the range each and one for
        all images. With one maximum, a sampled operand gets no less memory than without sampling, because the product
        of `conv2d_winograd` is a layer whose images would be sampled.
        """
        name, numbers = self.operand.name, MAX_BLOCKS + 2 if self.is_sampled else self.blocks + 1
        if self.images > 1:
            numbers = self.blocks + (2 * self.images + 1 if self.is_sampled else self.images)
        return Workspace(f"largest_{name}", 4 * numbers, holds=(name,) if name == "w" else ())

    @property
    def power(self) -> Pointer:
        """Kernel argument that points to the power of two, or to the powers of all images."""
        return Pointer(self.workspace.name, 4 * self.blocks)

    def launch(self) -> Launch:
        arguments = (Pointer(self.operand.name), Pointer(self.workspace.name))
        return dataclasses.replace(Launch.of_blocks(self.entry, self.blocks, THREADS, arguments), unit=self.entry)

    def unit(self, problem: Conv2d) -> Unit:
        """Generated source of the kernel."""
        text = render("conv2d/halves_largest.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        return Unit(self.entry, text)


def samples(operand: Operand, images: int = 1) -> bool:
    """Whether the maximum kernel reads a sample of an operand with `images` separately scaled images."""
    if operand.name == "w" or operand.size < SAMPLED_SIZE:
        return False
    return images == 1 or operand.size // images // 4 >= LEAST_STEP * _sample(images)


def _sample(images: int) -> int:
    """Vectors of four numbers per image in a sample."""
    return SAMPLE if images == 1 else max(SAMPLE // images, LEAST_SAMPLE)
