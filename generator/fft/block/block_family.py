"""Transforms in a tile of shared memory, a few points of them in the registers of a thread at a time.

Where fbfft exchanges data between the lanes of a warp at each radix 2, a thread here transforms up to 32 points by
itself, and shared memory carries them to the next digit: one exchange where fbfft has five. A 2-D transform is one
kernel, and passes over memory once.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 5 (one kernel, zero padding by clipped
loads and stores, transposed results); Cooley and Tukey 1965 for the passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import prod

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.fft.block.block_space import fits, packings, shares_of, space_of
from warpsmith.generator.fft.block.block_text import FftBlockText
from warpsmith.generator.fft.block.border import border_of
from warpsmith.generator.fft.block.guesses import (
    Guess,
    guesses,
    guesses_by_sets,
    packings_of_planes,
    together,
    way_of_planes,
)
from warpsmith.generator.fft.block.mirrored import may_mirror
from warpsmith.generator.fft.factors import LARGEST_PRIME, factorizations
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.fft.words import Packing, complex_columns
from warpsmith.generator.program import Argument, Launch, Pointer, Program
from warpsmith.generator.render import render
from warpsmith.generator.space import Config, Space, Value

PAIRED = 1024
"""Most points of a real two-dimensional transform for which shipped winners pack two transforms as a complex one."""
USUAL_RADIX = 16
"""Largest radix of a default config: a radix of 32 takes 80 registers."""


class FftBlock(Family[Fft]):
    """`fft` of any size whose primes are small and whose transform fits into shared memory."""

    name = "fft_block"

    def why_not(self, problem: Fft, device: Device) -> str | None:
        if not all(factorizations(points) for points in problem.size):
            return f"has no radix for a prime above {LARGEST_PRIME}"
        if problem.product is not None and not may_mirror(problem):
            return "multiplies spectra for pairs of columns, on even rows and columns that are a multiple of 4"
        rows = prod(problem.size[:-1]) // max(shares_of(problem))
        elements = min(rows * complex_columns(problem, packing) for packing in packings(problem))
        if not fits(elements, device):
            nbytes, memory = 8 * elements, device.shared_per_block_bytes
            part = "one transform" if max(shares_of(problem)) == 1 else "half of one transform"
            return f"{part} takes {nbytes} bytes of shared memory; a block has {memory}"
        # Gaps, copies and products may leave no legal config for a tile that fills a block's memory. Others have
        # thousands.
        if problem.product is not None or not fits(2 * elements, device):
            return _why_empty(problem, device)
        return None

    def space(self, problem: Fft, device: Device) -> Space:
        return space_of(problem, device)

    def default(self, problem: Fft, device: Device) -> Config:
        return _default(problem, device)

    def starts(self, problem: Fft, device: Device) -> tuple[Config, ...]:
        return _starts(problem, device)

    def program(self, problem: Fft, config: Config) -> Program:
        text = FftBlockText.of(problem, config)
        launch = block_launch(text, tuple(Pointer(operand.name) for operand in problem.operands))
        return Program.of_source(self.name, config, block_source(text, config), (launch,))


@lru_cache(maxsize=256)
def _why_empty(problem: Fft, device: Device) -> str | None:
    """Reason why the space is empty, cached: it takes 2 ms, and each family of a layer asks for the same transform."""
    if (why := space_of(problem, device).why_empty) is None:
        return None
    return f"has no tile for {device.shared_per_block_bytes} bytes of shared memory in a block: {why}"


@lru_cache(maxsize=256)
def _default(problem: Fft, device: Device) -> Config:
    guess = _first_guess(problem, device) if len(problem.size) == 1 else _square_guess(problem, device)
    config = nearest_config(space_of(problem, device), guess.values(problem.batch, device))
    if config is None:
        raise ValueError(f"the space of {problem.key()} is empty")
    return config


@lru_cache(maxsize=256)
def _starts(problem: Fft, device: Device) -> tuple[Config, ...]:
    space = space_of(problem, device)
    configs = (nearest_config(space, guess.values(problem.batch, device)) for guess in guesses(problem, device))
    return tuple(dict.fromkeys(config for config in configs if config is not None))


def block_source(text: FftBlockText, config: Config) -> str:
    """CUDA source of the transforms' kernel."""
    return render("fft/block.cu.jinja", g=text, border=border_of(text), config=config.key())


def block_launch(text: FftBlockText, arguments: tuple[Argument, ...]) -> Launch:
    """Launch of the transforms' kernel."""
    return Launch(
        entry=FftBlock.name,
        grid=(text.walk.blocks, 1, 1),
        block=(text.choice.threads * text.choice.tiles, 1, 1),
        arguments=arguments,
        shared_bytes=text.shared_bytes,
    )


def nearest_config(space: Space, wanted: Mapping[str, Value]) -> Config | None:
    """Legal config nearest to the values `wanted`, some of which may name no parameter of the space."""
    return space.like({parameter.name: wanted[parameter.name] for parameter in space.parameters})


def _first_guess(problem: Fft, device: Device) -> Guess:
    """First guess of the search's starts with radices up to USUAL_RADIX, or else the first one."""
    found = guesses(problem, device)
    return next((guess for guess in found if max(guess.x_radices) <= USUAL_RADIX), found[0])


def _square_guess(problem: Fft, device: Device) -> Guess:
    """Guess for a 2-D transform.

    It uses mirrored sets of frequencies if possible, else two small real signals as a complex one. A tile has one
    transform, or a few small ones.
    """
    if (by_sets := next(guesses_by_sets(problem), None)) is not None:
        return by_sets
    is_small = problem.is_real and prod(problem.size) <= PAIRED and Packing.PAIR in packings(problem)
    may_pair = is_small and problem.batch > 1 and problem.layout is not Layout.FREQUENCY
    packing = Packing.PAIR if may_pair else packings_of_planes(problem)[0]
    x, y = complex_columns(problem, packing), prod(problem.size[:-1])
    shares = 1 if fits(x * y, device) else max(shares_of(problem))
    first, elements = "x" if problem.inverse else "y", together(problem, packing, x * y)
    return Guess(packing, _usual(x), _usual(y // shares), shares, elements, first, *way_of_planes(problem, packing))


def _usual(points: int) -> tuple[int, ...]:
    """First radices up to USUAL_RADIX, which leave registers for enough threads; without such, the first radices."""
    found = factorizations(points)
    return next((radices for radices in found if max(radices, default=1) <= USUAL_RADIX), found[0])
