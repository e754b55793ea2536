"""What both families of transforms choose between, and the tables of factors that both read."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.literals import float_literal
from warpsmith.generator.problem import Problem


class Packing(enum.StrEnum):
    """How real signals become complex ones."""

    COMPLEX = "complex"
    """They are."""
    HALF = "half"
    """Two columns that follow each other are one complex number: half as many columns."""
    PAIR = "pair"
    """Two transforms that follow each other are one."""
    ALONE = "alone"
    """Each is a pair with itself: nothing may be paired with it, and two columns are no complex number."""

    @property
    def pairs(self) -> bool:
        """Whether the real and the imaginary part are a signal each."""
        return self in (Packing.PAIR, Packing.ALONE)

    @property
    def transforms(self) -> int:
        """Of the problem, that are one here."""
        return 2 if self is Packing.PAIR else 1


class Loads(enum.StrEnum):
    """How what is transformed is read from memory."""

    PLAIN = "plain"
    BULK = "bulk"
    """All of a tile's at once, to shared memory."""


class Stores(enum.StrEnum):
    """How results are written to memory."""

    PLAIN = "plain"
    STREAMING = "streaming"
    """As data that nobody reads soon."""
    BULK = "bulk"
    """Collected in shared memory, from where all of a tile's are copied at once."""


class Twiddles(enum.StrEnum):
    """Where twiddle factors come from. Those within a radix are literals in any case."""

    TABLE = "table"
    """One for each, in memory."""
    POWERS = "powers"
    """Powers 1, 2, 4, 8, 16 of the first from memory, the others as products. Of the first alone, rounded, the 16th
    power is eight units in the last place away."""
    COMPUTED = "computed"
    """Powers 1, 4 and 16 by `sincospif`, the others as products."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Complex numbers as literals."""

    name: str
    values: tuple[tuple[str, str], ...]
    meaning: str

    @classmethod
    def of(cls, name: str, values: list[complex], meaning: str) -> Table:
        return cls(name, tuple((float_literal(each.real), float_literal(each.imag)) for each in values), meaning)


def complex_columns(problem: Fft, packing: Packing) -> int:
    """Complex numbers of a row: half as many as columns where two of these are one."""
    return problem.size[-1] // 2 if packing is Packing.HALF else problem.size[-1]


def require_fft(problem: Problem) -> Fft:
    """`problem` as what it is. Raises TypeError for another operation."""
    if not isinstance(problem, Fft):
        raise TypeError(f"no fft: {problem.operation}")
    return problem
