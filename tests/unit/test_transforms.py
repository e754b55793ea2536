"""The arithmetic of fast transforms: factors and roots, the passes over an axis, the transforms within a thread."""

from __future__ import annotations

import cmath
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
from warpsmith.generator.fft.axes import (
    LARGEST_PRIME,
    LARGEST_RADIX,
    Axis,
    Digit,
    Place,
    factorizations,
    modulo,
    prime_factors,
    quotient,
    reversed_bits,
    root,
)
from warpsmith.generator.fft.codelets import Codelet, call, codelets, twiddled

Index = Callable[[str, dict[str, int]], int]
"""Value of a CUDA expression."""
LARGEST = 600
"""Largest of the sizes that are tested one by one."""


def is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, math.isqrt(n) + 1))


def dft(values: NDArray[Any], sign: int = -1) -> NDArray[Any]:
    """Sums by definition."""
    index = np.arange(len(values))
    turns = np.exp(sign * 2j * np.pi * (np.outer(index, index) % len(values)) / len(values))
    return np.asarray(turns @ values)


def some(n: int, seed: int = 0) -> NDArray[Any]:
    """Random complex numbers."""
    parts = np.random.default_rng(seed).standard_normal((n, 2))
    return parts[:, 0] + 1j * parts[:, 1]


class TestFactors:
    def test_primes_multiply_to_the_number_in_ascending_order(self) -> None:
        assert prime_factors(1) == ()
        for n in range(2, LARGEST):
            primes = prime_factors(n)
            assert math.prod(primes) == n
            assert list(primes) == sorted(primes)
            assert all(map(is_prime, primes))

    def test_of_a_large_prime_and_a_large_square(self) -> None:
        assert prime_factors(32749) == (32749,)
        assert prime_factors(181 * 181) == (181, 181)

    def test_radices_multiply_to_the_size(self) -> None:
        for n in range(2, LARGEST):
            found = factorizations(n)
            assert all(math.prod(radices) == n for radices in found)
            assert all(2 <= radix <= LARGEST_RADIX for radix in itertools.chain(*found))
            assert len(set(found)) == len(found)

    def test_there_are_some_for_every_size_without_a_prime_above_the_largest(self) -> None:
        assert factorizations(1) == ((),)
        for n in range(2, LARGEST):
            assert bool(factorizations(n)) is (max(prime_factors(n)) <= LARGEST_PRIME), n

    def test_they_come_in_every_order_the_shortest_and_most_even_first(self) -> None:
        assert factorizations(8)[0] == (8,)
        assert factorizations(64)[0] == (8, 8)
        assert {(4, 16), (8, 8), (16, 4), (4, 4, 4), (2, 4, 8)} <= set(factorizations(64))
        for n in range(2, LARGEST):
            found = factorizations(n)
            assert all(set(itertools.permutations(radices)) <= set(found) for radices in found)
            assert [len(radices) for radices in found] == sorted(len(radices) for radices in found)

    def test_bits_are_turned_round(self) -> None:
        assert [reversed_bits(i, 8) for i in range(8)] == [0, 4, 2, 6, 1, 5, 3, 7]
        assert reversed_bits(0, 1) == 0
        for bits in range(1, 11):
            turned = [reversed_bits(i, 1 << bits) for i in range(1 << bits)]
            assert [turned[i] for i in turned] == list(range(1 << bits))


class TestRoot:
    def test_on_the_axes_is_exact(self) -> None:
        for quarter, turns in itertools.product(range(1, 20), range(-9, 9)):
            assert root(turns * quarter, 4 * quarter) == (1, 1j, -1, -1j)[turns % 4]

    def test_has_no_negative_zero(self) -> None:
        for n, exponent in itertools.product(range(1, 40), range(40)):
            value = root(exponent, n)
            assert all(math.copysign(1, part) == 1 for part in (value.real, value.imag) if part == 0)

    def test_is_as_near_as_15_digits_say(self) -> None:
        for n, exponent in itertools.product(range(1, 70), range(-70, 140)):
            assert abs(root(exponent, n) - cmath.exp(2j * cmath.pi * exponent / n)) < 1e-13


def test_quotients_are_exact_below_their_limit(index: Index) -> None:
    """The product of number and divisor is below 2^32."""
    for divisor in (*range(3, 200), 997, 32767):
        limit = 2**32 // divisor
        numbers = {0, divisor - 1, divisor, limit - 1, limit // divisor * divisor - 1, *range(0, limit, limit // 50)}
        for number in numbers:
            assert index(quotient("n", divisor), {"n": number}) == number // divisor
            assert index(modulo("n", divisor), {"n": number}) == number % divisor


class TestPlace:
    def test_text_is_the_place(self, index: Index) -> None:
        for radices in ((8,), (2, 4), (3, 5), (4, 4, 4), (2, 3, 5), (5, 1, 2)):
            for strides in itertools.product((1, 7, 20), repeat=len(radices)):
                axis = Axis.of(radices, strides)
                for place in (axis.index_place, axis.frequency_place):
                    texts = [place.text("number", is_constant=known) for known in (False, True)]
                    for number, text in itertools.product(range(axis.points), texts):
                        assert index(text, {"number": number}) == place.at(number), (text, radices)

    def test_digits_that_continue_each_other_are_one(self) -> None:
        dense = Axis.of((2, 3, 4), (12, 4, 1))
        assert dense.index_place == Place((Digit(1, 24, 1),))
        assert dense.index_place.text("i") == "i"
        assert Axis.of((2, 3, 4), (13, 4, 1)).index_place.text("i") == "modulo<12>(i) + quotient<12>(i) * 13"

    def test_stored_numbers_the_same_elements_as_they_lie_in_memory(self) -> None:
        for radices, strides in (((2, 3, 4), (13, 4, 1)), ((2, 3, 4), (1, 2, 6)), ((3, 5), (1, 4)), ((4, 4), (20, 4))):
            axis = Axis.of(radices, strides)
            for place in (axis.index_place, axis.frequency_place):
                stored = [place.stored.at(number) for number in range(axis.points)]
                assert stored == sorted(place.at(number) for number in range(axis.points))
        assert Axis.of((2, 3, 4), (1, 2, 6)).index_place.stored.text("i") == "i"

    def test_of_a_digit_split_by_a_gap_has_two_strides(self) -> None:
        split = Axis((2, 8), (Place.of([Digit(1, 2, 20)]), Place.of([Digit(1, 4, 1), Digit(4, 2, 5)])))
        assert split.index_place.text("i") == "i % 4u + i / 4u % 2u * 5 + i / 8u * 20"
        assert [split.passes[1].element_place.at(j) for j in range(8)] == [0, 1, 2, 3, 5, 6, 7, 8]

    def test_of_no_digits_is_zero(self) -> None:
        assert Place.of([Digit(1, 1, 5)]) == Place(())
        assert Place(()).text("i") == "0"
        assert Place(()).at(0) == 0


def transformed(axis: Axis, memory: NDArray[Any]) -> None:
    """Runs the passes over the axis in memory, forward."""
    for step in axis.passes:
        for later, earlier in np.ndindex(step.later, step.earlier):
            first = step.later_place.at(later) + step.earlier_place.at(earlier)
            places = [first + step.element_place.at(j) for j in range(step.radix)]
            turns = [step.twiddle(p, later).conjugate() for p in range(step.radix)]
            memory[places] = dft(memory[places]) * turns


def gapped(radices: tuple[int, ...], order: tuple[int, ...], gap: int) -> Axis:
    """An axis whose digits lie in memory in this order, innermost first, each followed by a gap."""
    strides, stride = dict[int, int](), 1
    for digit in order:
        strides[digit] = stride
        stride = stride * radices[digit] + gap
    return Axis.of(radices, tuple(strides[digit] for digit in range(len(radices))))


class TestAxis:
    @exhaustive.meeting()
    @pytest.mark.parametrize("n", [2, 3, 8, 12, 31, 60, 64, 105, 128, 210, 243, 256])
    @pytest.mark.parametrize("gap", [0, 3])
    def test_its_passes_are_the_transform(self, n: int, gap: int) -> None:
        """The first digit is outermost, as an index lies in memory, or the digits are in another order."""
        found = factorizations(n)
        for radices in found[:: max(1, len(found) // 6)]:
            digits = range(len(radices))
            for order in list(itertools.permutations(digits))[:3]:
                axis = gapped(radices, order, gap)
                memory, values = np.full(axis.index_place.at(n - 1) + 1, np.nan, complex), some(n)
                memory[[axis.index_place.at(j) for j in range(n)]] = values
                transformed(axis, memory)
                result = memory[[axis.frequency_place.at(k) for k in range(n)]]
                np.testing.assert_allclose(result, dft(values), atol=1e-12 * n)

    @pytest.mark.parametrize("radices", [(2,) * 5, (4, 4), (2, 3, 5), (3, 8), (7, 2, 2)])
    def test_of_an_index_with_its_digits_turned_round_the_spectrum_lies_in_order(
        self, radices: tuple[int, ...]
    ) -> None:
        """Decimation in time; with radices 2 the order is bit-reversed."""
        axis = gapped(radices, tuple(range(len(radices))), gap=0)
        n = axis.points
        assert [axis.frequency_place.at(k) for k in range(n)] == list(range(n))
        if set(radices) == {2}:
            assert [axis.index_place.at(j) for j in range(n)] == [reversed_bits(j, n) for j in range(n)]
        memory, values = np.empty(n, complex), some(n)
        memory[[axis.index_place.at(j) for j in range(n)]] = values
        transformed(axis, memory)
        np.testing.assert_allclose(memory, dft(values), atol=1e-12 * n)

    @pytest.mark.parametrize("radices", [(2,) * 5, (8,) * 2, (4, 8, 2)])
    def test_of_an_index_in_order_the_spectrum_lies_with_its_digits_turned_round(
        self, radices: tuple[int, ...]
    ) -> None:
        """Decimation in frequency, with the spectrum in digit-reversed order."""
        axis = gapped(radices, tuple(reversed(range(len(radices)))), gap=0)
        assert [axis.index_place.at(j) for j in range(axis.points)] == list(range(axis.points))
        backwards = gapped(radices[::-1], tuple(range(len(radices))), gap=0)
        assert [axis.frequency_place.at(k) for k in range(axis.points)] == [
            backwards.index_place.at(k) for k in range(axis.points)
        ]

    @pytest.mark.parametrize("n", [6, 16, 30, 128, 243])
    def test_a_pass_takes_each_element_once_and_only_the_last_has_no_twiddles(self, n: int) -> None:
        for radices in factorizations(n):
            axis = gapped(radices, tuple(reversed(range(len(radices)))), gap=1)
            everywhere = sorted(axis.index_place.at(j) for j in range(n))
            for step in axis.passes:
                assert step.radix * step.later * step.earlier == n
                places = [
                    step.later_place.at(later) + step.earlier_place.at(earlier) + step.element_place.at(j)
                    for later, earlier, j in np.ndindex(step.later, step.earlier, step.radix)
                ]
                assert sorted(places) == everywhere
            assert [step.is_last for step in axis.passes] == [False] * (len(radices) - 1) + [True]


CUDA: dict[str, Callable[..., complex]] = {
    "times_i": lambda value: 1j * value,
    "times_minus_i": lambda value: -1j * value,
    "times": lambda value, re, im: value * complex(re, im),
}
"""The functions of `shared/fft.cu.jinja` on Python's complex numbers."""


def as_python(line: str) -> str:
    """One statement of a codelet in Python. A call changes its arguments; a definition has several names."""
    line = re.sub(r"(?<=\d)f\b", "", line.removesuffix(";"))
    if called := re.fullmatch(r"(dft\d+)\((.*)\)", line):
        return f"{called[2]} = {called[1]}({called[2]})"
    return re.sub(r", (?=\w+ = )", "; ", line.removeprefix("const float2 "))


def as_functions(found: tuple[Codelet, ...]) -> dict[str, Any]:
    """Codelets by their names in CUDA; they return their arguments."""
    names: dict[str, Any] = dict(CUDA)
    for codelet in found:
        arguments = ", ".join(codelet.arguments)
        body = [*map(as_python, codelet.lines), f"return {arguments}"]
        exec("\n    ".join([f"def dft{codelet.n}({arguments}):", *body]), names)
    return names


class TestCodelets:
    @pytest.mark.parametrize("n", range(2, LARGEST_RADIX + 1))
    @pytest.mark.parametrize("inverse", [False, True])
    def test_are_the_transform(self, n: int, inverse: bool) -> None:
        found = codelets(frozenset({n}), inverse=inverse)
        assert (found[-1].n, len(found[-1].arguments)) == (n, n)
        values = some(n)
        result = as_functions(found)[f"dft{n}"](*values)
        # The literals are float32.
        np.testing.assert_allclose(result, dft(values, 1 if inverse else -1), atol=2e-7 * n)

    def test_are_written_once_and_after_those_that_they_call(self) -> None:
        found = codelets(frozenset(range(2, LARGEST_RADIX + 1)), inverse=False)
        written: list[int] = []
        for codelet in found:
            called = {int(number) for number in re.findall(r"\bdft(\d+)\(", "\n".join(codelet.lines))}
            assert called <= set(written), codelet.n
            written.append(codelet.n)
        assert sorted(written) == list(range(2, LARGEST_RADIX + 1))

    def test_are_those_that_are_needed(self) -> None:
        def sizes(*radices: int) -> set[int]:
            return {codelet.n for codelet in codelets(frozenset(radices), inverse=False)}

        assert sizes(2) == {2}
        assert sizes(4) == {4}
        assert sizes(8) == {2, 4, 8}
        assert sizes(30) == {2, 3, 5, 15, 30}
        assert sizes(11, 16) == {4, 11, 16}
        assert sizes() == set()

    def test_every_line_is_a_statement_of_variables_that_there_are(self) -> None:
        for codelet in codelets(frozenset(range(2, LARGEST_RADIX + 1)), inverse=True):
            known = set(codelet.arguments)
            for line in codelet.lines:
                assert line.endswith(";")
                assert "--" not in line
                known |= set(re.findall(r"(?:const float2 |, )(\w+) = ", line))
                used = re.findall(r"\b[a-z]+\d*\b(?!\()", re.sub(r"[\d.]+(e-?\d+)?f\b", "", line))
                assert set(used) - {"const", "float2"} <= known, line


class TestTwiddled:
    @pytest.mark.parametrize(
        ("exponent", "n", "text"),
        [
            (0, 8, None),
            (8, 8, None),
            (-16, 8, None),
            (2, 8, "times_i(x)"),
            (-2, 8, "times_minus_i(x)"),
            (6, 8, "times_minus_i(x)"),
            (4, 8, "-1.0f * x"),
            (-4, 8, "-1.0f * x"),
            (1, 2, "-1.0f * x"),
        ],
    )
    def test_by_a_root_on_an_axis_takes_no_product(self, exponent: int, n: int, text: str | None) -> None:
        assert twiddled("x", exponent, n) == text

    def test_by_any_other_is_one(self) -> None:
        for n, exponent in itertools.product((3, 5, 8, 12, 31), range(-9, 40)):
            text = twiddled("x", exponent, n)
            value = 1 + 2j
            got = value if text is None else eval(re.sub(r"(?<=\d)f\b", "", text), {**CUDA, "x": value})
            assert abs(got - value * cmath.exp(2j * cmath.pi * exponent / n)) < 1e-6
            assert text is None or text.startswith("times(x, ") or 4 * exponent % n == 0


def test_a_call_names_its_size_and_its_variables() -> None:
    assert call(3, ["a", "b", "c"]) == "dft3(a, b, c);"
