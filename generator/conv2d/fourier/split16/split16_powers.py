"""Powers of two by which the images of a batch are scaled one by one, before their spectra are split into fp16 numbers.

All numbers of an image are read. If an image's largest number lay outside of a sample, only the results of that image
would be spoilt, and those of no other.
"""

from __future__ import annotations

import dataclasses
from math import ceil

from warpsmith.generator.conv2d.products.split16.split16_maximum import MAX_BLOCKS, NUMBERS_A_BLOCK, THREADS
from warpsmith.generator.fft.block.block_places import Split16Spectra
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.text import text_key
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import Launch, Pointer, Unit, Workspace
from warpsmith.generator.render import render


@dataclasses.dataclass(frozen=True, slots=True)
class ImagePowers:
    """The two launches that find the powers of two."""

    family: str
    operand: Operand
    images: int
    rows: int
    """Rows of the product, for all images together."""
    growth: int
    largest: str
    """Name of the unit, and of the workspace of the largest numbers."""
    power: str
    """Name of the workspace of the powers."""

    @classmethod
    def of(cls, family: str, problem: Fft, halves: Split16Spectra, names: tuple[str, str]) -> ImagePowers:
        assert problem.together is not None
        (signal,) = problem.inputs
        return cls(
            family, signal, problem.batch // problem.together, problem.batch // halves.together, halves.growth, *names
        )

    @property
    def image_rows(self) -> int:
        """Rows of the product per image."""
        return self.rows // self.images

    @property
    def numbers(self) -> int:
        return self.operand.size // self.images

    @property
    def shares(self) -> int:
        """Blocks per image."""
        return max(1, min(ceil(self.numbers / NUMBERS_A_BLOCK), MAX_BLOCKS // self.images))

    @property
    def entry(self) -> str:
        return f"{self.family}_largest"

    @property
    def powers_entry(self) -> str:
        return f"{self.family}_powers"

    def unit(self, problem: Fft) -> Unit:
        """Generated source of both kernels."""
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
