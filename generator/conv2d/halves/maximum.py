"""The largest number of an operand, by which it is scaled before it becomes halves.

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


@dataclasses.dataclass(frozen=True, slots=True)
class Maximum:
    """The launch that finds the largest magnitude of a float32 operand: of each share of it one number."""

    family: str
    """Whose launch it is: units of one program have names of their own."""
    operand: Operand
    is_sampled: bool = False
    """Whether it reads a sample."""

    @classmethod
    def of(cls, family: str, operand: Operand) -> Maximum:
        """That of a sample, where `samples` says so."""
        return cls(family, operand, samples(operand))

    @property
    def headroom(self) -> int:
        """Powers of two that are left above the largest number that was found."""
        return HEADROOM if self.is_sampled else 0

    @property
    def step(self) -> int:
        """From a vector of four numbers that is read to the next one."""
        return self.operand.size // 4 // SAMPLE if self.is_sampled else 1

    @property
    def entry(self) -> str:
        """The kernel, and its unit."""
        return f"{self.family}_largest_{self.operand.name}"

    @property
    def blocks(self) -> int:
        """And so numbers."""
        return max(1, min(MAX_BLOCKS, self.operand.size // self.step // NUMBERS_A_BLOCK))

    @property
    def workspace(self) -> Workspace:
        """Where the numbers are, and behind them the power of two; of a sample also the largest number beyond it, in no
        less memory than without one: the products of `conv2d_winograd` are a layer whose images would be sampled.
        """
        name, numbers = self.operand.name, MAX_BLOCKS + 2 if self.is_sampled else self.blocks + 1
        return Workspace(f"largest_{name}", 4 * numbers, holds=(name,) if name == "w" else ())

    @property
    def power(self) -> Pointer:
        """The argument of a kernel that reads the power."""
        return Pointer(self.workspace.name, 4 * self.blocks)

    def launch(self) -> Launch:
        """Of its unit."""
        arguments = (Pointer(self.operand.name), Pointer(self.workspace.name))
        return dataclasses.replace(Launch.of_blocks(self.entry, self.blocks, THREADS, arguments), unit=self.entry)

    def unit(self, problem: Conv2d) -> Unit:
        """Its text."""
        text = render("conv2d/halves_largest.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        return Unit(self.entry, text)


def samples(operand: Operand) -> bool:
    """Whether a sample of an operand's numbers is read in place of all."""
    return operand.name != "w" and operand.size >= SAMPLED_SIZE
