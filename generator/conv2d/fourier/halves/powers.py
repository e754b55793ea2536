"""The powers of two by which the images of a batch are scaled before their spectra become halves: each has its own.

All numbers of an image are looked through: an image whose largest number lay outside of a sample would spoil no other,
but its own results.
"""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.conv2d.halves.maximum import MAX_BLOCKS, NUMBERS_A_BLOCK, THREADS
from warpsmith.generator.fft.block.halves import HalvedSpectra
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.text import text_key
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import Launch, Pointer, Unit, Workspace
from warpsmith.generator.render import render


@dataclasses.dataclass(frozen=True, slots=True)
class ImagePowers:
    """The two launches that find them."""

    family: str
    operand: Operand
    images: int
    rows: int
    """Rows of the product, of all images."""
    growth: int
    largest: str
    """The unit, and the workspace of the largest numbers."""
    power: str
    """The workspace of the powers."""

    @classmethod
    def of(cls, family: str, problem: Fft, halves: HalvedSpectra, names: tuple[str, str]) -> ImagePowers:
        assert problem.together is not None
        (signal,) = problem.inputs
        return cls(
            family, signal, problem.batch // problem.together, problem.batch // halves.together, halves.growth, *names
        )

    @property
    def image_rows(self) -> int:
        """Rows of the product of one image."""
        return self.rows // self.images

    @property
    def numbers(self) -> int:
        """Numbers of an image."""
        return self.operand.size // self.images

    @property
    def shares(self) -> int:
        """Blocks that look through one image."""
        return max(1, min(ceil(self.numbers / NUMBERS_A_BLOCK), MAX_BLOCKS // self.images))

    @property
    def entry(self) -> str:
        return f"{self.family}_largest"

    @property
    def powers_entry(self) -> str:
        return f"{self.family}_powers"

    def unit(self, problem: Fft) -> Unit:
        """The text of both."""
        return Unit(
            self.largest, render("conv2d/halves_powers.cu.jinja", key=text_key(problem), g=self, threads=THREADS)
        )

    def launches(self) -> tuple[Launch, ...]:
        largest, power = Pointer(self.largest), Pointer(self.power)
        first = Launch.of_blocks(self.entry, self.images * self.shares, THREADS, (Pointer(self.operand.name), largest))
        second = Launch.of_blocks(self.powers_entry, ceil(self.rows / THREADS), THREADS, (largest, power))
        return dataclasses.replace(first, unit=self.largest), dataclasses.replace(second, unit=self.largest)

    def workspaces(self) -> tuple[Workspace, ...]:
        return Workspace(self.largest, 4 * self.images * self.shares), Workspace(self.power, 4 * self.rows)
