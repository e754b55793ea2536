"""One axis of a transform in a tile of memory: its digits, where they lie, and the passes over them.

An axis of n points with radices r1, ..., rk is an array of k digits. An index has the first digit as its most
significant one, a frequency as its least. Pass i transforms digit i in place, from index to frequency, and turns the
result by the twiddle that depends on it and on the digits still to come: decimation in frequency. All memory needs to
know is where the values of each digit lie; a place is a sum over digits. Reading digits that lie in the
order of a frequency, the same passes are decimation in time.
"""

from __future__ import annotations

import dataclasses
import math

from warpsmith.generator.fft.factors import root


def quotient(number: str, divisor: int, *, is_constant: bool = False) -> str:
    """`number / divisor` in CUDA, for a number that is not negative, nor its product with the divisor above 2^32.

    A compiler that does not know as much takes several instructions for what are one shift or one multiplication.
    """
    if divisor == 1:
        return number
    if is_constant:
        return f"{number} / {divisor}"
    return f"quotient<{divisor}>({number})" if divisor & (divisor - 1) else f"{number} / {divisor}u"


def modulo(number: str, divisor: int, *, is_constant: bool = False) -> str:
    """`number % divisor` in the same way."""
    if is_constant:
        return f"{number} % {divisor}"
    return f"modulo<{divisor}>({number})" if divisor & (divisor - 1) else f"{number} % {divisor}u"


@dataclasses.dataclass(frozen=True, slots=True)
class Digit:
    """One digit of a number: (number / weight) % extent, `stride` elements of memory apart."""

    weight: int
    extent: int
    stride: int


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a number's element lies: the sum over its digits, least significant first."""

    digits: tuple[Digit, ...]

    @classmethod
    def of(cls, digits: list[Digit]) -> Place:
        """Digits that continue each other become one."""
        merged: list[Digit] = []
        for digit in sorted((each for each in digits if each.extent > 1), key=lambda each: each.weight):
            last = merged[-1] if merged else None
            if last and last.weight * last.extent == digit.weight and last.stride * last.extent == digit.stride:
                merged[-1] = dataclasses.replace(last, extent=last.extent * digit.extent)
            else:
                merged.append(digit)
        return cls(tuple(merged))

    @property
    def stored(self) -> Place:
        """The same elements, numbered as they follow each other in memory."""
        digits, weight = [], 1
        for digit in sorted(self.digits, key=lambda each: each.stride):
            digits.append(dataclasses.replace(digit, weight=weight))
            weight *= digit.extent
        return Place.of(digits)

    def at(self, number: int) -> int:
        """The place of `number`."""
        return sum(number // digit.weight % digit.extent * digit.stride for digit in self.digits)

    def text(self, number: str, *, is_constant: bool = False) -> str:
        """The same in CUDA, of a variable that is no larger than its digits allow; "0" where there are none.

        Args:
            number: the variable.
            is_constant: whether the compiler knows its value, and needs no help.
        """
        terms = []
        for digit in self.digits:
            term = quotient(number, digit.weight, is_constant=is_constant)
            if digit is not self.digits[-1]:
                term = modulo(term, digit.extent, is_constant=is_constant)
            terms.append(term if digit.stride == 1 else f"{term} * {digit.stride}")
        return " + ".join(terms) or "0"


@dataclasses.dataclass(frozen=True, slots=True)
class Pass:
    """The transforms over one digit: `later` x `earlier` of them, `radix` elements each.

    Element number (later, earlier, j) lies at the sum of the three places. `later` counts the digits still to come, as
    an index; `earlier` those that are frequencies already.
    """

    radix: int
    later: int
    earlier: int
    later_place: Place
    earlier_place: Place
    element_place: Place

    @property
    def is_last(self) -> bool:
        """Whether no twiddles follow."""
        return self.later == 1

    def twiddle(self, p: int, later: int) -> complex:
        """What frequency p of the digit is turned by, in a forward transform's conjugate."""
        return root(p * later, self.radix * self.later)


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """`radices` and, for each, where the values of the digit lie: one stride, or two where it is split by a gap."""

    radices: tuple[int, ...]
    places: tuple[Place, ...]

    @classmethod
    def of(cls, radices: tuple[int, ...], strides: tuple[int, ...]) -> Axis:
        """Of digits whose values are so many elements apart."""
        digits = zip(radices, strides, strict=True)
        return cls(radices, tuple(Place.of([Digit(1, radix, stride)]) for radix, stride in digits))

    @property
    def points(self) -> int:
        return math.prod(self.radices)

    def index_weights(self) -> tuple[int, ...]:
        """Of each digit in an index."""
        return tuple(math.prod(self.radices[i + 1 :]) for i in range(len(self.radices)))

    def frequency_weights(self) -> tuple[int, ...]:
        """Of each digit in a frequency."""
        return tuple(math.prod(self.radices[:i]) for i in range(len(self.radices)))

    @property
    def index_place(self) -> Place:
        """Where an index lies before the first pass."""
        return self._place(self.index_weights(), range(len(self.radices)))

    @property
    def frequency_place(self) -> Place:
        """Where a frequency lies after the last one."""
        return self._place(self.frequency_weights(), range(len(self.radices)))

    @property
    def passes(self) -> tuple[Pass, ...]:
        weights = self.index_weights(), self.frequency_weights()
        return tuple(
            Pass(
                radix=radix,
                later=weights[0][i],
                earlier=weights[1][i],
                later_place=self._place(weights[0], range(i + 1, len(self.radices))),
                earlier_place=self._place(weights[1], range(i)),
                element_place=self.places[i],
            )
            for i, radix in enumerate(self.radices)
        )

    def _place(self, weights: tuple[int, ...], which: range) -> Place:
        digits = [(weights[i], digit) for i in which for digit in self.places[i].digits]
        return Place.of([dataclasses.replace(digit, weight=weight * digit.weight) for weight, digit in digits])
