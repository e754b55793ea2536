"""Spectra that are stored as halves, for products of tensor cores that read them as they lie.

Each real number is the sum of two halves, high and low, and all are scaled by one power of two, so that the sum of the
magnitudes of a signal's numbers, which none of its frequencies exceeds, stays below 2^15. Of what is scaled to 2^-3 or
more the two halves keep 22 bits, of what is smaller 2^-25: 2^-40 of that bound.

Where the largest magnitude is that of a sample, frequencies may be too large for halves all the same: the transforms
remember the largest of those, and a second launch transforms all once more, scaled by it; where there are none, it
ends as it begins.
"""

from __future__ import annotations

import dataclasses
import enum
import math

from warpsmith.generator.fft.problem import Fft

RUN = 32
"""High parts that lie side by side before their low ones do: 64 bytes of each, a line of the copy engine's swizzle."""
PARTS = 4
"""Halves of a complex number."""
HEADROOM = 2
"""Powers of two by which a number may be larger than those of a sample. A frequency is rarely near the sum of all
magnitudes; of a constant signal it is that sum, and the sample's number the largest."""


class HalvesOrder(enum.StrEnum):
    """How the halves of all spectra lie: those of real parts first, then those of imaginary ones."""

    TURNS = "turns"
    """High and low parts take turns, RUN numbers of each: what is summed over lies side by side."""
    APART = "apart"
    """All high parts, then all low ones: what is summed over lies from row to row."""


@dataclasses.dataclass(frozen=True, slots=True)
class HalvedSpectra:
    """The spectra of a batch of forward transforms, whose numbers have the order of the layout `frequency`."""

    order: HalvesOrder
    numbers: int
    """Complex ones, of all spectra."""
    growth: int
    """Powers of two by which a frequency may be larger than the largest number of a signal."""
    largest: int
    """Numbers in memory whose maximum is the largest magnitude of a signal's number, as bits."""
    is_sampled: bool
    """Whether that is the largest one of a sample. The largest frequency that is beyond halves is two numbers behind
    them, 0 where there is none: after the first launch, which takes the numbers by a pointer to them; the second launch
    takes a pointer to that one.
    """
    together: int = 0
    """Signals that follow each other and are scaled by one power of two, which they have in common with others of their
    image; 0 where all signals are scaled by one.
    """

    @classmethod
    def of(cls, problem: Fft, order: HalvesOrder, largest: int, *, is_sampled: bool) -> HalvedSpectra:
        growth = math.ceil(math.log2(math.prod(problem.bordered_size))) + (HEADROOM if is_sampled else 0)
        return cls(order, problem.output.size, growth, largest, is_sampled, _of_a_row(problem))

    @property
    def low(self) -> int:
        """Halves from a high part to the low one."""
        return RUN if self.order is HalvesOrder.TURNS else self.numbers

    @property
    def imaginary(self) -> int:
        """Halves from a part of a real number to that of the imaginary one."""
        return 2 * self.numbers

    @property
    def place(self) -> str:
        """Where the high part of real number `number` lies, as text for CUDA."""
        return f"number + (number & ~{RUN - 1}ll)" if self.order is HalvesOrder.TURNS else "number"


def _of_a_row(problem: Fft) -> int:
    """Signals of a row of the product that follows: those of a tile, or of an image; 0 where no images are apart."""
    if problem.together is None:
        return 0
    return problem.together if problem.tiling is None else problem.tiling.inner
