"""Spectra stored as split fp16 numbers, for tensor-core products that read them as they lie.

Each real number is the sum of two fp16 parts, high and low. All numbers are scaled by one power of two, so that the sum
of the magnitudes of a signal's numbers stays below 2^15; no frequency exceeds that sum. Scaled numbers of 2^-3 or more
keep 22 bits in both parts, smaller ones are accurate to 2^-25: 2^-40 of that bound.

If the largest magnitude comes from a sample of the signal, a frequency may still overflow fp16. The transforms record
the largest such frequency, and a second launch repeats all of them, scaled by it. Without such a frequency the second
launch ends at once.
"""

from __future__ import annotations

import dataclasses
import enum
import math

from warpsmith.generator.fft.problem import Fft

RUN = 32
"""fp16 numbers in a run of high parts, followed by their low parts: 64 bytes each, a line of the TMA's swizzle."""
PARTS = 4
"""fp16 numbers per complex number."""
HEADROOM = 2
"""Powers of two by which a number may exceed the largest one of a sample. A frequency is rarely near the sum of all
magnitudes. It equals that sum for a constant signal, in which the sample's largest number is the largest of all."""


class HalvesOrder(enum.StrEnum):
    """Order of the fp16 parts of all spectra: those of real parts come first, then those of imaginary parts."""

    TURNS = "turns"
    """Runs of RUN high parts alternate with runs of their low parts: the terms of a product's sum lie side by side."""
    APART = "apart"
    """All high parts, then all low ones: numbers that a product sums over lie a row apart."""


@dataclasses.dataclass(frozen=True, slots=True)
class HalvedSpectra:
    """Split fp16 spectra of a batch of forward transforms, in the order of the layout `frequency`."""

    order: HalvesOrder
    numbers: int
    """Complex numbers of all spectra."""
    growth: int
    """Powers of two by which a frequency may be larger than the largest number of a signal."""
    largest: int
    """Numbers in memory whose maximum, as bits, is the largest magnitude of the signals."""
    is_sampled: bool
    """True if that magnitude comes from a sample. The first launch takes a pointer to the numbers and stores the
    largest frequency beyond fp16, or 0, at index `largest` + 1 behind it; the second launch takes a pointer to that
    number."""
    together: int = 0
    """Consecutive signals scaled by one power of two, which the other signals of their image share; 0 if one power
    scales all signals."""

    @classmethod
    def of(cls, problem: Fft, order: HalvesOrder, largest: int, *, is_sampled: bool) -> HalvedSpectra:
        growth = math.ceil(math.log2(math.prod(problem.bordered_size))) + (HEADROOM if is_sampled else 0)
        return cls(order, problem.output.size, growth, largest, is_sampled, _of_a_row(problem))

    @property
    def low(self) -> int:
        """fp16 numbers from a high part to its low part."""
        return RUN if self.order is HalvesOrder.TURNS else self.numbers

    @property
    def imaginary(self) -> int:
        """fp16 numbers from a part of a real part to the same part of the imaginary part."""
        return 2 * self.numbers

    @property
    def place(self) -> str:
        """CUDA expression of the place of the high part of real number `number`."""
        return f"number + (number & ~{RUN - 1}ll)" if self.order is HalvesOrder.TURNS else "number"


def _of_a_row(problem: Fft) -> int:
    """Signals in a row of the product that follows: those of a tile or of an image; 0 if all signals share a group."""
    if problem.together is None:
        return 0
    return problem.together if problem.tiling is None else problem.tiling.inner
