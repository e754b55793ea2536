"""One axis of a transform in a tile of memory: its digits, where they lie, and the passes over them.

An axis of n points with radices r1, ..., rk is an array of k digits. The first digit is the most significant one of an
index and the least significant one of a frequency. Pass i transforms digit i in place, from index to frequency, and
multiplies the result by the twiddle that depends on it and on the digits still to come: decimation in frequency. A
place in memory is a sum over digits, so the passes need only the places of each digit's values. If the digits are read
in the order of a frequency, the same passes are decimation in time.
"""

from __future__ import annotations

import dataclasses
import functools
import math

LARGEST_PRIME = 31
"""Largest prime factor: a prime p takes (p-1)^2 multiply-adds and some 4p registers."""
LARGEST_RADIX = 36
"""Largest transform within a thread, in points: with 64 it would hold 128 registers of data alone. 35 and 36 save a
third pass over 245 and some 2-D sizes."""
_LARGEST_OF_MANY = 16
"""Largest radix of plans with one pass more than needed: the extra pass pays where it saves registers."""


@functools.lru_cache(4096)
def prime_factors(n: int) -> tuple[int, ...]:
    """Prime factors of `n`, ascending."""
    factors, prime = [], 2
    while n > 1:
        while n % prime == 0:
            factors.append(prime)
            n //= prime
        prime += 1 if prime * prime <= n else max(1, n - prime)
    return tuple(factors)


@functools.cache
def factorizations(n: int) -> tuple[tuple[int, ...], ...]:
    """Tuples of radices whose product is `n`, in every order, the most even ones first.

    They have as few passes as possible, or one pass more if those are fewer than 3 and each radix is at most
    _LARGEST_OF_MANY. Empty if `n` has a prime factor above LARGEST_PRIME.
    """
    if n == 1:
        return ((),)
    if max(prime_factors(n)) > LARGEST_PRIME:
        return ()
    found: list[tuple[int, ...]] = []
    fewest = next(passes for passes in range(1, n) if _products(n, passes, LARGEST_RADIX))
    found += _products(n, fewest, LARGEST_RADIX)
    found += _products(n, fewest + 1, _LARGEST_OF_MANY) if fewest < 3 else ()
    return tuple(sorted(found, key=lambda radices: (len(radices), max(radices) / min(radices), radices)))


def _products(n: int, passes: int, largest: int) -> list[tuple[int, ...]]:
    if passes == 1:
        return [(n,)] if 2 <= n <= largest else []
    return [
        (radix, *rest)
        for radix in range(2, min(n, largest) + 1)
        if n % radix == 0
        for rest in _products(n // radix, passes - 1, largest)
    ]


def reversed_bits(index: int, n: int) -> int:
    """`index` with its bits reversed; `n` is a power of two above `index`."""
    bits = n.bit_length() - 1
    return int(f"{index:0{bits}b}"[::-1], 2) if bits else 0


def root(exponent: int, n: int) -> complex:
    """exp(2 pi i exponent / n), rounded to 15 decimals; values on the axes are exact."""
    shared = math.gcd(exponent, n)  # so that equal angles are equal numbers
    angle = 2 * math.pi * (exponent // shared % (n // shared)) / (n // shared)
    return complex(round(math.cos(angle), 15) + 0.0, round(math.sin(angle), 15) + 0.0)


def quotient(number: str, divisor: int, *, is_constant: bool = False) -> str:
    """CUDA text of `number / divisor`; `number` is not negative, and `number * divisor` is at most 2^32.

    A compiler that does not know these bounds takes several instructions for what are one shift or one multiplication.
    """
    if divisor == 1:
        return number
    if is_constant:
        return f"{number} / {divisor}"
    return f"quotient<{divisor}>({number})" if divisor & (divisor - 1) else f"{number} / {divisor}u"


def modulo(number: str, divisor: int, *, is_constant: bool = False) -> str:
    """CUDA text of `number % divisor`, under the bounds of `quotient`."""
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
    """Offset of a number's element in memory: the sum over the number's digits, least significant first."""

    digits: tuple[Digit, ...]

    @classmethod
    def of(cls, digits: list[Digit]) -> Place:
        """Place with these digits; neighbouring digits that form one stride are merged."""
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
        """The same elements, numbered in the order of their places in memory."""
        digits, weight = [], 1
        for digit in sorted(self.digits, key=lambda each: each.stride):
            digits.append(dataclasses.replace(digit, weight=weight))
            weight *= digit.extent
        return Place.of(digits)

    def at(self, number: int) -> int:
        """Offset of `number`, in elements."""
        return sum(number // digit.weight % digit.extent * digit.stride for digit in self.digits)

    def text(self, number: str, *, is_constant: bool = False) -> str:
        """CUDA text of `at`, for a variable within the range of the digits; "0" if there are no digits.

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
    """The transforms over one digit: `later` x `earlier` transforms of `radix` elements each.

    Element (later, earlier, j) lies at the sum of the three places. `later` counts the digits that are still indices,
    `earlier` the digits that are frequencies already.
    """

    radix: int
    later: int
    earlier: int
    later_place: Place
    earlier_place: Place
    element_place: Place

    @property
    def is_last(self) -> bool:
        """True if no twiddles follow."""
        return self.later == 1

    def twiddle(self, p: int, later: int) -> complex:
        """Factor of frequency p of the digit; the forward transform takes its conjugate."""
        return root(p * later, self.radix * self.later)


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """Radices of an axis and, for each, the places of the digit's values: one stride, or two if a gap splits them."""

    radices: tuple[int, ...]
    places: tuple[Place, ...]

    @classmethod
    def of(cls, radices: tuple[int, ...], strides: tuple[int, ...]) -> Axis:
        """Axis whose digits' values are `strides` elements apart."""
        digits = zip(radices, strides, strict=True)
        return cls(radices, tuple(Place.of([Digit(1, radix, stride)]) for radix, stride in digits))

    @property
    def points(self) -> int:
        return math.prod(self.radices)

    def index_weights(self) -> tuple[int, ...]:
        """Weight of each digit in an index."""
        return tuple(math.prod(self.radices[i + 1 :]) for i in range(len(self.radices)))

    def frequency_weights(self) -> tuple[int, ...]:
        """Weight of each digit in a frequency."""
        return tuple(math.prod(self.radices[:i]) for i in range(len(self.radices)))

    @property
    def index_place(self) -> Place:
        """Place of each index before the first pass."""
        return self._place(self.index_weights(), range(len(self.radices)))

    @property
    def frequency_place(self) -> Place:
        """Place of each frequency after the last pass."""
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
