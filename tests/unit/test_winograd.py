"""Winograd's minimal filtering: the factors, and correct pairs of outputs."""

from __future__ import annotations

from fractions import Fraction

import pytest

from warpsmith.generator.filter2d.window_geometry import factors, factors_matrix, groups, products

SUMS = {
    3: [(0, lambda x: x[0] - x[2]), (1, lambda x: x[1] + x[2]), (2, lambda x: x[2] - x[1]), (3, lambda x: x[3] - x[1])],
    2: [(0, lambda x: x[0] - x[1]), (1, lambda x: x[1]), (3, lambda x: x[2] - x[1])],
    1: [(0, lambda x: x[0]), (3, lambda x: x[1])],
}
"""Sums of a pair (0 to 3) that each product of a group is added to, and the pixels it multiplies, by size of group."""


def by_pairs(row: list[int], pixels: list[int]) -> tuple[Fraction, Fraction]:
    """Two adjacent outputs of a row of taps, by Winograd's products."""
    sums, given = [Fraction(0)] * 4, [Fraction(factor) for factor in factors([float(tap) for tap in row])]
    for group in groups(len(row)):
        for index, (target, form) in enumerate(SUMS[group.taps]):
            sums[target] += given[group.first_product + index] * form(pixels[group.first_tap :])
    return sums[0] + sums[1] + sums[2], sums[1] - sums[2] + sums[3]


@pytest.mark.parametrize("taps", range(1, 16))
def test_pairs_are_what_taps_give(taps: int) -> None:
    row = [(5 * i + 3) % 11 - 5 for i in range(taps)]
    pixels = [(7 * i + 2) % 13 - 6 for i in range(taps + 1)]
    direct = [sum(tap * pixels[start + i] for i, tap in enumerate(row)) for start in (0, 1)]
    assert list(by_pairs(row, pixels)) == direct


@pytest.mark.parametrize(("taps", "needed"), [(1, 2), (2, 3), (3, 4), (4, 6), (5, 7), (9, 12), (15, 20)])
def test_products_of_two_outputs(taps: int, needed: int) -> None:
    assert products(taps) == needed == len(factors_matrix(taps))


def test_rotated_reads_the_row_backwards() -> None:
    row = [1.0, -2.0, 4.0, 8.0]
    rotated = [sum(a * b for a, b in zip(line, row, strict=True)) for line in factors_matrix(4, rotated=True)]
    assert rotated == factors(row[::-1])
