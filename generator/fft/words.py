"""Choices that both families of transforms have, and the tables of factors that both read."""

from __future__ import annotations

import dataclasses
import enum

from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.render import float_literal


class Packing(enum.StrEnum):
    """Way in which real signals become complex ones."""

    COMPLEX = "complex"
    """The signals are complex already."""
    HALF = "half"
    """Two consecutive columns are one complex number, which halves the number of columns."""
    PAIR = "pair"
    """Two consecutive transforms are one complex transform."""
    ALONE = "alone"
    """Each signal is both the real and the imaginary part: it may not be paired, and its columns are not packed."""

    @property
    def pairs(self) -> bool:
        """True if the real and the imaginary part are a signal each."""
        return self in (Packing.PAIR, Packing.ALONE)

    @property
    def transforms(self) -> int:
        """Transforms of the problem that are one complex transform."""
        return 2 if self is Packing.PAIR else 1


class Loads(enum.StrEnum):
    """Way in which the input is read from memory."""

    PLAIN = "plain"
    BULK = "bulk"
    """One bulk copy of the whole tile to shared memory."""


class Stores(enum.StrEnum):
    """Way in which results are written to memory."""

    PLAIN = "plain"
    STREAMING = "streaming"
    """Streaming stores, for results that nobody reads soon."""
    BULK = "bulk"
    """Results are collected in shared memory, from where one bulk copy stores the whole tile."""


class Twiddles(enum.StrEnum):
    """Source of the twiddle factors. Those within a radix are always literals."""

    TABLE = "table"
    """Each factor is read from a table in memory."""
    POWERS = "powers"
    """Powers 1, 2, 4, 8, 16 of the first factor from memory, the others as products. If only the rounded first power
    were read, the 16th would be eight units in the last place off."""
    COMPUTED = "computed"
    """Powers 1, 4 and 16 by `sincospif`, the others as products."""


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """Table of complex numbers as CUDA literals."""

    name: str
    values: tuple[tuple[str, str], ...]
    meaning: str

    @classmethod
    def of(cls, name: str, values: list[complex], meaning: str) -> Table:
        return cls(name, tuple((float_literal(each.real), float_literal(each.imag)) for each in values), meaning)


def complex_columns(problem: Fft, packing: Packing) -> int:
    """Complex numbers of a row: half the columns under Packing.HALF."""
    return problem.size[-1] // 2 if packing is Packing.HALF else problem.size[-1]
