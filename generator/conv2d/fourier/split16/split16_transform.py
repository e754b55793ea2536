"""Forward transforms that store spectra as split fp16 numbers: one launch finds the largest number, one transforms.

For a large image only a sample is read, as `split16_maximum` describes, and the transforms are launched twice. The
second launch exits at once if no frequency was too large for the first one's scale.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from math import ceil, prod
from typing import ClassVar

from warpsmith.generator.conv2d.products.split16.split16_maximum import (
    MAX_BLOCKS,
    NUMBERS_A_BLOCK,
    THREADS,
    Maximum,
    samples,
)
from warpsmith.generator.device import Device
from warpsmith.generator.fft.block.block_family import (
    MOST_TOGETHER,
    OF_A_MULTIPROCESSOR,
    ONE_BY_ONE,
    SHORT,
    FftBlock,
    Guess,
    block_launch,
    block_source,
    even_plans,
    guesses_by_sets,
    nearest_config,
)
from warpsmith.generator.fft.block.block_places import Split16Order, Split16Spectra
from warpsmith.generator.fft.block.block_text import FftBlockText
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.text import Loads, Packing, text_key
from warpsmith.generator.problem import Operand
from warpsmith.generator.program import Launch, Pointer, Program, Unit, Workspace
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space

LARGEST = "largest"
"""Name of the unit that finds the largest number, and of the workspace with the partial maxima of its blocks."""
POWER = "power"
"""Name of the workspace with the power of two by which all numbers are scaled."""
TOGETHER = 8
"""Pairs of planes per tile; their contiguous fp16 numbers fill a sector of 32 bytes. With 32x32 points four pairs took
310 us and eight 81, complex numbers 73; with 30x30 points eight pairs took 80 and single planes 270 (H100, 2026-11-26).
"""
SHORT_TOGETHER = 16
"""Pairs of planes per tile of transforms of at most SHORT points."""
MOST_POINTS = MOST_TOGETHER // TOGETHER


@dataclasses.dataclass(frozen=True, slots=True)
class ImagePowers:
    """The two launches that find the powers of two by which the images of a batch are scaled one by one.

    All numbers of an image are read. If an image's largest number lay outside of a sample, only the results of that
    image would be spoilt, and those of no other.
    """

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
    def of(cls, family: str, problem: Fft, spectra: Split16Spectra, names: tuple[str, str]) -> ImagePowers:
        assert problem.together is not None
        (signal,) = problem.inputs
        return cls(
            family, signal, problem.batch // problem.together, problem.batch // spectra.together, spectra.growth, *names
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


class Split16Transform(FftBlock):
    """`fft_block` with a split fp16 spectrum. It is a stage of a layer and solves no problem of its own."""

    order: ClassVar[Split16Order]

    def why_not(self, problem: Fft, device: Device) -> str | None:
        if prod(problem.size) > MOST_POINTS:
            limit = f"stores halves of {2 * TOGETHER} planes side by side, and so transforms of {MOST_POINTS} points"
            return f"{limit} at the most; these have {prod(problem.size)}"
        if not problem.may_pair:
            return "stores halves of two planes side by side, and an image has an odd number of them"
        return super().why_not(problem, device)

    def space(self, problem: Fft, device: Device) -> Space:
        """The space of `fft_block` for pairs of planes only, because a thread stores two numbers side by side."""
        return super().space(problem, device).narrowed({"packing": (Packing.PAIR.value,)})

    def default(self, problem: Fft, device: Device) -> Config:
        return self._likely(problem, device)[0]

    def starts(self, problem: Fft, device: Device) -> tuple[Config, ...]:
        return self._likely(problem, device)[1:]

    def program(self, problem: Fft, config: Config) -> Program:
        (signal,) = problem.inputs
        if problem.together is not None:
            return self._program_of_images(problem, config)
        maximum = Maximum(self.name, signal, samples(signal))
        found = render("conv2d/halves_largest.cu.jinja", key=text_key(problem), g=maximum, threads=THREADS)
        spectra = Split16Spectra.of(problem, self.order, maximum.blocks, is_sampled=maximum.is_sampled)
        text = FftBlockText.of(problem, config, spectra)
        numbers = dataclasses.replace(maximum.workspace, name=LARGEST, holds=(signal.name,))
        largest = dataclasses.replace(
            maximum.launch(), unit=LARGEST, arguments=(Pointer(signal.name), Pointer(LARGEST))
        )
        return Program(
            self.name,
            config,
            (Unit("", block_source(text, config)), Unit(LARGEST, found)),
            (largest, *_launches(text)),
            (numbers, Workspace(POWER, 4, holds=(signal.name,))),
        )

    def _program_of_images(self, problem: Fft, config: Config) -> Program:
        """The program that scales each image by its own power of two."""
        spectra = Split16Spectra.of(problem, self.order, 0, is_sampled=False)
        text = FftBlockText.of(problem, config, spectra)
        powers = ImagePowers.of(self.name, problem, spectra, (LARGEST, POWER))
        signal, spectrum = problem.operands
        arguments = (Pointer(signal.name), Pointer(POWER), Pointer(spectrum.name))
        return Program(
            self.name,
            config,
            (Unit("", block_source(text, config)), powers.unit(problem)),
            (*powers.launches(), block_launch(text, arguments)),
            powers.workspaces(),
        )

    def _likely(self, problem: Fft, device: Device) -> tuple[Config, ...]:
        space = self.space(problem, device)
        configs = (nearest_config(space, each.values(problem.batch, device)) for each in _guesses(problem))
        found = tuple(dict.fromkeys(each for each in configs if each is not None))
        if not found:
            raise ValueError(f"the space of {problem.key()} is empty")
        return found


class TransformInTurns(Split16Transform):
    """High and low parts alternate, for products that sum over contiguous terms."""

    name = "fft_block_halves_in_turns"
    order = Split16Order.TURNS


class TransformApart(Split16Transform):
    """All high parts come before the low parts, for products that sum from row to row."""

    name = "fft_block_halves_apart"
    order = Split16Order.APART


def _launches(text: FftBlockText) -> tuple[Launch, ...]:
    """Launches of the transforms. After a sample there is a second launch, which checks whether any number was too
    large.
    """
    signal, spectrum = text.problem.operands
    first, *others = Pointer(signal.name), Pointer(POWER), Pointer(spectrum.name)
    assert text.split16 is not None
    numbers = Pointer(LARGEST)
    if not text.split16.is_sampled:
        return (block_launch(text, (first, numbers, *others)),)
    checks = (numbers, Pointer(LARGEST, 4 * (text.split16.largest + 1)))
    return tuple(block_launch(text, (first, numbers, each, *others)) for each in checks)


def _guesses(problem: Fft) -> Iterator[Guess]:
    """Configs to try, the likeliest first: by sets of frequencies for planes that are not short."""
    points, (rows, columns) = prod(problem.size), problem.size
    by_sets = (
        dataclasses.replace(each, elements=TOGETHER * points, min_blocks=OF_A_MULTIPROCESSOR // (TOGETHER * points))
        for each in guesses_by_sets(problem)
    )
    staged = (
        Guess(Packing.PAIR, *plans, elements=pairs * points, first="y", way=ONE_BY_ONE._replace(loads=loads))
        for loads in (Loads.PLAIN, Loads.BULK)
        for pairs in (SHORT_TOGETHER, TOGETHER)[:: 1 if points <= SHORT else -1]
        for plans in itertools.product(even_plans(columns, 1), even_plans(rows, 1))
    )
    sets = list(itertools.islice(by_sets, 2))
    yield from sets if points > SHORT else ()
    yield from staged
    yield from sets if points <= SHORT else ()
