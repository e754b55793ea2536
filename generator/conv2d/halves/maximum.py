"""The largest number of an operand, or of each image of it, by which it is scaled before it becomes halves.

Images of fprop and dgrad are scaled one by one, so that none reaches another: beside an image that is 1e6 times as
large, halves under one power of two keep 19 bits fewer of the others. Weights are one operand, and wgrad sums over
images: these have one power of two.

Reading all of a large image for that takes as long as half of what follows, which reads it once more. There a sample is
read, and numbers are scaled so that they may be 64 times as large as its largest. Whoever lays them out looks whether
any is larger; only then all are laid out again, by the largest of all.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.text import text_key
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import Launch, Pointer, Unit, Workspace
from warpsmith.generator.render import render

THREADS = 256
"""Of a block that finds the largest number, or splits numbers."""
NUMBERS_A_BLOCK, MAX_BLOCKS = 4096, 1056
"""Of a block that finds the largest number of its share, and such blocks at the most: eight a multiprocessor."""
SAMPLED_SIZE = 1 << 22
"""Numbers of an image from which on a sample pays for the launch that lays out again: 16 MiB, which take 8 us to read.
Weights are read whole: those that a plan holds are read once."""
SAMPLE = 1 << 16
"""Vectors of four numbers that are read, evenly spread: 2 MiB of sectors."""
HEADROOM = 6
"""Powers of two that the largest number may lie above the sample's: of a million log-normal numbers (sigma 3) the
largest is 2^2 to 2^4 above that of a sample."""
LEAST_SAMPLE, LEAST_STEP = 256, 4
"""Vectors of an image at the least that is sampled by itself, and from one to the next: with fewer apart, half of its
sectors would be read."""
MOST_SHARES = 128
"""Blocks that find the largest number of one image at the most: who lays out reads a number of each, four a lane."""


@dataclasses.dataclass(frozen=True, slots=True)
class Maximum:
    """The launch that finds the largest magnitude of a float32 operand: of each share of it one number."""

    family: str
    """Whose launch it is: units of one program have names of their own."""
    operand: Operand
    is_sampled: bool = False
    """Whether it reads a sample."""
    images: int = 1
    """Images that have a largest number each; 1 where the operand has one for all."""

    @classmethod
    def of(cls, family: str, operand: Operand, images: int = 1) -> Maximum:
        """That of a sample, where `samples` says so."""
        return cls(family, operand, samples(operand, images), images)

    @property
    def numbers(self) -> int:
        """Numbers of an image."""
        return self.operand.size // self.images

    @property
    def fours(self) -> int:
        """Aligned vectors of four numbers that lie within an image, wherever it begins."""
        return (self.numbers - (3 if self.numbers % 4 and self.images > 1 else 0)) // 4

    @property
    def headroom(self) -> int:
        """Powers of two that are left above the largest number that was found."""
        return HEADROOM if self.is_sampled else 0

    @property
    def step(self) -> int:
        """From a vector of four numbers that is read to the next one."""
        if not self.is_sampled:
            return 1
        step = self.fours // _sample(self.images)
        if self.images == 1:
            return step
        return step - 1 | 1  # an odd one meets all channels of pixels that lie side by side

    @property
    def entry(self) -> str:
        """The kernel, and its unit."""
        return f"{self.family}_largest_{self.operand.name}"

    @property
    def shares(self) -> int:
        """Blocks that an image has; each writes one partial maximum."""
        most = MAX_BLOCKS if self.images == 1 else min(MOST_SHARES, MAX_BLOCKS // self.images)
        return max(1, min(most, self.numbers // self.step // NUMBERS_A_BLOCK))

    @property
    def blocks(self) -> int:
        """Blocks of all images, and so partial maxima."""
        return self.images * self.shares

    @property
    def workspace(self) -> Workspace:
        """Where the numbers are, and behind them the power of two; of a sample also the largest number beyond it, in no
        less memory than without one: the products of `conv2d_winograd` are a layer whose images would be sampled.
        Images have a power each, and of samples each the largest number beyond its own, then one for all.
        """
        name, numbers = self.operand.name, MAX_BLOCKS + 2 if self.is_sampled else self.blocks + 1
        if self.images > 1:
            numbers = self.blocks + (2 * self.images + 1 if self.is_sampled else self.images)
        return Workspace(f"largest_{name}", 4 * numbers, holds=(name,) if name == "w" else ())

    @property
    def power(self) -> Pointer:
        """The argument of a kernel that reads the power, or those of all images."""
        return Pointer(self.workspace.name, 4 * self.blocks)

    def launch(self) -> Launch:
        """Of its unit."""
        arguments = (Pointer(self.operand.name), Pointer(self.workspace.name))
        return dataclasses.replace(Launch.of_blocks(self.entry, self.blocks, THREADS, arguments), unit=self.entry)

    def unit(self, problem: Conv2d) -> Unit:
        """Its text."""
        text = render("conv2d/halves_largest.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        return Unit(self.entry, text)


def samples(operand: Operand, images: int = 1) -> bool:
    """Whether a sample of an operand's numbers is read in place of all, where so many images are scaled one by one."""
    if operand.name == "w" or operand.size < SAMPLED_SIZE:
        return False
    return images == 1 or operand.size // images // 4 >= LEAST_STEP * _sample(images)


def _sample(images: int) -> int:
    """Vectors of four numbers that are read of an image."""
    return SAMPLE if images == 1 else max(SAMPLE // images, LEAST_SAMPLE)
