"""Choices and CUDA text that the families of transforms share."""

from __future__ import annotations

import dataclasses
import enum
from math import prod

from warpsmith.generator.fft.problem import Fft, Kind, Layout, Order
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


PACKED = {
    Packing.COMPLEX: "",
    Packing.HALF: " Two columns of a real signal are one complex number.",
    Packing.PAIR: " Two real signals are one complex one.",
    Packing.ALONE: " Each real signal is the real and the imaginary part of a complex one.",
}
"""Sentence on each packing, appended to a kernel's summary."""


@dataclasses.dataclass(frozen=True, slots=True)
class Power:
    """Power `exponent` of a twiddle, from one of three sources.

    It is row `row` of a table, the root of `angle` (in units of pi), or the product of the powers `factors`.
    """

    exponent: int
    row: int = -1
    angle: str = ""
    factors: tuple[int, int] = (0, 0)


def text_key(problem: Fft) -> str:
    """Key that a kernel's text begins with, without `together`: no text depends on the groups, only configs do."""
    return problem.key() if problem.together is None else dataclasses.replace(problem, together=None).key()


def powers_of(count: int, order: int, twiddles: Twiddles, turn: int) -> tuple[Power, ...]:
    """Sources of powers 1 to count - 1 of a root of order `order`, factors first.

    `turn` is a full circle in units of pi, 2 or -2.
    """
    powers: list[Power] = []
    rows = 0
    for j in range(1, count):
        highest = 1 << (j.bit_length() - 1)
        is_square_of_square = j == highest and j.bit_length() % 2 == 1
        if twiddles is Twiddles.TABLE or (twiddles is Twiddles.POWERS and j == highest):
            powers.append(Power(j, row=rows))
            rows += 1
        elif twiddles is Twiddles.COMPUTED and is_square_of_square:
            powers.append(Power(j, angle=float_literal(turn * j / order)))
        else:
            powers.append(Power(j, factors=(j // 2, j // 2) if j == highest else (highest, j - highest)))
    return tuple(powers)


def scale(problem: Fft) -> str:
    """Literal factor of the results; empty if it is 1, or if `half_scale` contains it."""
    return float_literal(problem.scale) if problem.scale != 1 and not half_scale(problem) else ""


def half_scale(problem: Fft) -> str:
    """Literal of half the scale, for splitting a spectrum (`r2c`); else empty."""
    return float_literal(problem.scale / 2) if problem.kind is Kind.R2C else ""


def half_root(problem: Fft) -> str:
    """Factor for frequency x that separates a spectrum of packed columns, or packs it, as a formula for comments."""
    sign = "" if problem.inverse else "-"
    return f"{sign}i exp({sign}2 pi i x / {problem.size[-1]})"


def frequency_place(problem: Fft, y: str = "y") -> tuple[str, str]:
    """CUDA expressions of the row and the column at which frequency (y, x) lies in the spectrum."""
    if problem.order is not Order.REVERSED:
        return y, "x"
    if not problem.is_real:
        return _reversed(y, problem.size[0]), _reversed("x", problem.size[-1])
    half = problem.size[-1] // 2
    return _reversed(y, problem.size[0]), f"(x == {half} ? x : {_reversed('x', half)})"


def spectrum_place(problem: Fft, y: str = "y") -> str:
    """CUDA expression of the place of frequency (y, x) of a transform, counted from the first spectrum."""
    columns = problem.spectrum_size[-1]
    y, x = frequency_place(problem, y)
    has_y = len(problem.size) == 2
    match problem.layout:
        case Layout.BATCH:
            return f"transform * {prod(problem.spectrum_size)}{f' + {y} * {columns}' if has_y else ''} + {x}"
        case Layout.TRANSPOSED:
            return f"transform * {prod(problem.spectrum_size)} + {x} * {problem.size[0]} + {y}"
        case Layout.FREQUENCY:
            inner = f"{y} * {columns} + {x}" if has_y else x
            return f"static_cast<long long>({inner}) * {problem.batch} + transform"


def _reversed(name: str, points: int) -> str:
    """CUDA expression of a number with its bits reversed; `points` is a power of two above it."""
    bits = points.bit_length() - 1
    return f"static_cast<int>(__brev({name}) >> {32 - bits})" if bits else "0"
