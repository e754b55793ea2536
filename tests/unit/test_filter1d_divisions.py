"""Divisions and intervals of "Parallel filters", section 4.3, as it prints them, and where its figures are wrong."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d.divisions import Divisions, Pair, spatial_multiply_adds

PRINTED = """
Division 0 Intervals:
0 : [(0, 0)]
18 : [(1, 1), (3, 0)]
36 : [(0, 3), (2, 2), (4, 1)]
54 : [(1, 4), (3, 3), (5, 2)]
72 : [(4, 4)]
90 : []
Division 1 Intervals:
6 : [(1, 0)]
24 : [(0, 2), (2, 1), (4, 0)]
42 : [(1, 3), (3, 2), (5, 1)]
60 : [(2, 4), (4, 3)]
78 : [(5, 4)]
Division 2 Intervals:
12 : [(0, 1), (2, 0)]
30 : [(1, 2), (3, 1), (5, 0)]
48 : [(0, 4), (2, 3), (4, 2)]
66 : [(3, 4), (5, 3)]
84 : []
"""
"""The document's list for sequences of 36 and 60 elements in blocks of 6 and 12."""
EXAMPLE = Divisions.full(36, 60, 6, 12)


def listed(divisions: Divisions) -> Iterator[str]:
    for division in range(divisions.count):
        yield f"Division {division} Intervals:"
        for start in divisions.printed(division):
            yield f"{start} : {[tuple(pair) for pair in divisions.pairs(start)]}"


def reached(divisions: Divisions, pair: Pair) -> range:
    """Elements of the result that a pair reaches."""
    start = pair.first * divisions.first_block + pair.second * divisions.second_block
    return range(start, start + divisions.length)


def all_pairs(divisions: Divisions) -> list[Pair]:
    both = itertools.product(range(divisions.first_blocks), range(divisions.second_blocks))
    return [Pair(*each) for each in both]


def random_divisions(count: int) -> Iterator[Divisions]:
    rng = random.Random(count)
    for _ in range(count):
        first, second, block, ratio = rng.randint(1, 60), rng.randint(1, 60), rng.randint(1, 9), rng.randint(1, 4)
        begin, end = sorted(rng.sample(range(first + second), 2))
        yield Divisions(first, second, block, block * ratio, begin, end)


def test_the_list_is_the_documents_line_by_line() -> None:
    assert list(listed(EXAMPLE)) == PRINTED.split("\n")[1:-1]
    assert sum(len(EXAMPLE.printed(each)) for each in range(EXAMPLE.count)) == 16
    assert (sum(map(len, EXAMPLE.intervals)), len(EXAMPLE.intervals)) == (30, 14)


def test_the_documents_number_of_intervals_is_one_too_few_for_division_0() -> None:
    printed = -(-(36 + 60 - 12) // (6 + 12))
    assert printed == 5
    assert [len(EXAMPLE.printed(each)) for each in range(3)] == [6, 5, 5]


@pytest.mark.parametrize("divisions", list(random_divisions(60)), ids=str)
def test_a_slice_takes_exactly_the_pairs_that_meet_it(divisions: Divisions) -> None:
    """Each of them once, in an interval that holds all its elements and overlaps no other of its division."""
    wanted = [
        pair
        for pair in all_pairs(divisions)
        if (here := reached(divisions, pair)).start < divisions.end and here.stop > divisions.begin
    ]
    found = Counter(pair for pairs in divisions.intervals for pair in pairs)
    assert found == Counter(wanted)
    for division in range(divisions.count):
        seen: set[int] = set()
        for number in divisions.numbers(division):
            start = divisions.start(division, number)
            interval = range(start, start + divisions.length)
            assert not seen.intersection(interval)
            seen.update(interval)
            assert all(reached(divisions, pair) == interval for pair in divisions.pairs(start))


def test_a_valid_slice_and_a_few_lags_need_few_pairs() -> None:
    """The second case is a signal of 2^14 + 256 samples in 17 blocks, with 2^14 taps in 16: 257 lags."""
    for divisions, pairs, of_all, inverses in (
        (Divisions.valid(36, 60, 6, 12), 18, 30, 6),
        (Divisions.valid(1 << 14, (1 << 14) + 256, 1024, 1024), 32, 272, 2),
    ):
        assert len(all_pairs(divisions)) == of_all
        assert (sum(map(len, divisions.intervals)), len(divisions.intervals)) == (pairs, inverses)


def test_the_sums_of_a_divisions_intervals_are_the_convolution() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.integers(-9, 9, 36), rng.integers(-9, 9, 60)
    result = np.zeros(36 + 60 - 1 + EXAMPLE.length, int)
    for pairs in EXAMPLE.intervals:
        for i, j in pairs:
            here = reached(EXAMPLE, Pair(i, j))
            result[here.start : here.stop] += np.convolve(first[i * 6 : i * 6 + 6], second[j * 12 : j * 12 + 12])
    assert np.array_equal(result[: 36 + 60 - 1], np.convolve(first, second))
    assert not result[36 + 60 - 1 :].any()


def test_the_work_of_all_pairs_is_twice_what_the_document_prints() -> None:
    """Two different sequences have N1 N2 / (L1 L2) pairs, and the document counts half of them."""
    for first, second, one, other in ((36, 60, 6, 12), (1 << 20, 1 << 20, 1 << 10, 1 << 10)):
        pairs = len(all_pairs(Divisions.full(first, second, one, other))) if first < 100 else 1 << 20
        assert spatial_multiply_adds(first, second, one, other) == pairs * (one + other - 1) ** 2


def test_an_inverse_for_each_interval_is_512_times_fewer() -> None:
    """The document estimates 256 times, from half of all pairs and from 2048 intervals."""
    divisions = Divisions.full(1 << 20, 1 << 20, 1 << 10, 1 << 10)
    assert divisions.first_blocks * divisions.second_blocks == 1 << 20
    assert sum(len(divisions.numbers(each)) for each in range(divisions.count)) == 2047


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((36, 60, 5, 12, 0, 95), "blocks of 12 elements are no multiple of the other sequence's, 5"),
        ((36, 60, 6, 12, 0, 96), "a slice must lie in 0 to 95, its end included; got 0 to 96"),
        ((36, 60, 6, 12, 40, 40), "a slice must lie in 0 to 95, its end included; got 40 to 40"),
        ((36, 60, 0, 12, 0, 95), "sequences and their blocks must have 1 element at least"),
    ],
)
def test_what_makes_no_divisions_is_refused(given: tuple[int, ...], message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        Divisions(*given)
