"""Minimum work of a program: counted by hand, counted by pixels, and below every measured time."""

from __future__ import annotations

import dataclasses
import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from warpsmith.generator.device import Device
from warpsmith.generator.family import Work
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.plain_family import Filter2dPlain, Filter2dPlainGeometry
from warpsmith.generator.presets import H200
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.space import Config
from warpsmith.store.store import Store

PLAIN = Filter2dPlain()
SHIPPED = Path(__file__).parents[2] / "cache.db"


def config(problem: Filter2d, **changes: int | str) -> Config:
    """The default config with some values changed, where that is legal."""
    chosen = Config.of({**PLAIN.default(problem, H200).values(), **changes})
    assert PLAIN.space(problem, H200).why_not(chosen) is None
    return chosen


class TestTime:
    def test_by_hand(self) -> None:
        # 128 multiply-adds and 128 bytes a cycle on each of 132 multiprocessors, 1980 cycles a microsecond.
        a_microsecond = 132 * 128 * 1980
        assert Work(a_microsecond, 0).least_ns(H200) == pytest.approx(1000)
        assert Work(0, a_microsecond).least_ns(H200) == pytest.approx(1000)
        assert Work(a_microsecond, a_microsecond // 2).least_ns(H200) == pytest.approx(1000)
        assert Work(a_microsecond, 3 * a_microsecond).least_ns(H200) == pytest.approx(3000)

    def test_a_device_with_half_of_all_takes_four_times_as_long(self) -> None:
        half: Device = dataclasses.replace(H200, multiprocessors=66, clock_mhz=990)
        work = Work(10**9, 10**8)
        assert work.least_ns(half) == pytest.approx(4 * work.least_ns(H200))


class TestPlain:
    def test_by_hand(self) -> None:
        problem = Filter2d(image=(66, 130), filter=(3, 3))
        # 64 by 128 outputs of 9 products; 1024 threads have 2 by 4 of them, for which they read 4 by 6 pixels.
        work = PLAIN.work(problem, config(problem, rows=2, columns=4))
        assert work == Work(64 * 128 * 9, 1024 * 24 * 4)
        assert work.least_ns(H200) == pytest.approx(98304 / 128 / 132 / 1.98)

    def test_by_hand_of_a_bank_of_colour_filters(self) -> None:
        problem = Filter2d(image=(33, 65), filter=(2, 5), channels=3, filters=4, planes=2, dtype="uint8")
        # 32 by 61 pixels of 3 elements, 2 planes, 4 filters, two of which use a pixel once it is read.
        work = PLAIN.work(problem, config(problem, rows=2, columns=1, filters=2))
        threads = 32 * 61 * 3 * 2 // 2
        assert work == Work(32 * 61 * 3 * 2 * 4 * 10, threads * 2 * (3 * 5))

    def test_rows_that_are_not_unrolled_are_read_for_each_output(self) -> None:
        problem = Filter2d(image=(86, 142), filter=(23, 15))
        chosen = config(problem, rows=2, columns=1)
        geometry = Filter2dPlainGeometry.of(problem, chosen)
        assert (geometry.unroll_rows, geometry.unroll_columns) == (False, True)
        work = PLAIN.work(problem, chosen)
        assert work == Work(64 * 128 * 23 * 15, 64 * 128 // 2 * (2 * 23 * 15) * 4)

    @pytest.mark.parametrize(
        ("of", "changes"),
        [
            ({}, {"path": "texture"}),
            ({"border": Border.CONSTANT}, {}),
            ({"weights": (1.0, 0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)}, {"weights": "literal"}),
            ({"weights": (1.0, -0.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)}, {"weights": "literal"}),
        ],
        ids=["texture", "constant border", "zero taps", "minus zero taps"],
    )
    def test_says_nothing_where_something_may_be_left_out(self, of: dict[str, Any], changes: dict[str, str]) -> None:
        problem = Filter2d(image=(64, 64), filter=(3, 3), **of)
        assert PLAIN.work(problem, config(problem, **changes)) is None

    @pytest.mark.parametrize(
        ("of", "changes"),
        [
            *(({"border": border}, {}) for border in sorted(set(Border) - {Border.CONSTANT})),
            ({"weights": tuple(range(1, 10))}, {"weights": "literal"}),
            ({"weights": tuple(range(9))}, {"weights": "argument"}),  # the zero is not known to the kernel
            ({}, {"weights": "constant"}),
        ],
    )
    def test_tells_else(self, of: dict[str, Any], changes: dict[str, str]) -> None:
        problem = Filter2d(image=(64, 64), filter=(3, 3), **of)
        work = PLAIN.work(problem, config(problem, **changes))
        assert work is not None
        assert work.multiply_adds == problem.output.size * 9

    @pytest.mark.parametrize("channels", [1, 3])
    @pytest.mark.parametrize("size", [(1, 1), (3, 4), (5, 2), (7, 7)])
    def test_is_no_more_than_the_pixels_that_threads_read(self, size: tuple[int, int], channels: int) -> None:
        """Counted thread by thread, also where the last ones have fewer outputs than the others."""
        problem = Filter2d(image=(23, 29), filter=size, channels=channels, filters=3)
        drawn = random.Random(0)
        for chosen in itertools.islice(iter(lambda: PLAIN.space(problem, H200).drawn(drawn), None), 12):
            work = PLAIN.work(problem, chosen)
            if work is not None:
                assert work.loaded_bytes <= 4 * pixels_read(problem, chosen), chosen


def pixels_read(problem: Filter2d, chosen: Config) -> int:
    """Different elements that each thread needs, summed over all threads."""
    geometry = Filter2dPlainGeometry.of(problem, chosen)
    outputs, (r, s) = problem.output_shape, problem.filter
    count = 0
    for top in range(0, outputs[0], geometry.rows):
        for left in range(0, outputs[1] * problem.channels, geometry.columns):
            rows = {row + i for row in span(top, geometry.rows, outputs[0]) for i in range(r)}
            widest = outputs[1] * problem.channels
            columns = {
                column + j * problem.channels for column in span(left, geometry.columns, widest) for j in range(s)
            }
            count += len(rows) * len(columns)
    return count * geometry.filter_groups * problem.planes


def span(first: int, count: int, end: int) -> range:
    return range(first, min(first + count, end))


# Medians in ns of the family's trials on an H200 that came nearest to their bounds, of 1250 over 22 problems.
MEASURED = [
    (((9216, 9216), (2, 2), "float32"), "128x1 columns=1 rows=2 min_blocks=2 argument", 213840),
    (((9216, 9216), (3, 3), "float32"), "256x1 columns=2 rows=1 min_blocks=0 argument", 236704),
    (((9216, 9216), (4, 4), "float32"), "32x8 columns=1 rows=2 min_blocks=0 constant", 287824),
    (((9216, 9216), (6, 6), "float32"), "64x4 columns=1 rows=2 min_blocks=0 argument", 476336),
    (((9216, 9216), (9, 9), "float32"), "64x2 columns=1 rows=1 min_blocks=8 constant", 1872336),
    (((9216, 9216), (11, 11), "float32"), "32x2 columns=1 rows=1 min_blocks=8 argument", 2598432),
    (((9216, 9216), (15, 15), "float32"), "64x8 columns=1 rows=1 min_blocks=2 argument", 4671872),
    (((4320, 7680), (5, 5), "uint8"), "32x4 columns=4 rows=4 min_blocks=0 argument", 65392),
    (((2160, 3840), (5, 5), "uint8"), "16x4 columns=4 rows=4 min_blocks=2 argument", 21331),
    (((4320, 7680), (5, 5), "float16"), "128x4 columns=4 rows=4 min_blocks=0 argument", 102664),
]


@pytest.mark.parametrize(("shape", "words", "median_ns"), MEASURED)
def test_is_below_what_was_measured(shape: tuple[Any, Any, str], words: str, median_ns: float) -> None:
    block, *given, weights = words.split()
    block_columns, block_rows = map(int, block.split("x"))
    values = {name: int(value) for name, value in (word.split("=") for word in given)}
    problem = Filter2d(image=shape[0], filter=shape[1], dtype=shape[2])
    chosen = config(problem, block_columns=block_columns, block_rows=block_rows, weights=weights, **values)
    work = PLAIN.work(problem, chosen)
    assert work is not None
    # A bound far below drops nothing: those of large filters reach half of the time.
    assert (0.4 if shape[1] >= (9, 9) else 0.1) * median_ns < work.least_ns(H200) < median_ns


def test_is_below_every_time_that_is_shipped() -> None:
    families = {family.name: family for family in FAMILIES}
    held = 0
    with Store.open(str(SHIPPED), write=False, immutable=True) as store:
        for record in store.records():
            problem, device = record.problem, record.device
            for trial in (record.trial, *store.trials(problem, device)):
                family = families[trial.family]
                work = family.work(problem, trial.config)
                if trial.median_ns is not None and work is not None:
                    assert work.least_ns(device) < trial.median_ns
            if not isinstance(problem, Filter2d):
                continue
            # A baseline's config is not stored, but all configs have the same multiply-adds.
            work = PLAIN.work(problem, PLAIN.default(problem, device))
            for baseline in record.baselines:
                if baseline.name == PLAIN.name and work is not None:
                    assert Work(work.multiply_adds, 0).least_ns(device) < baseline.timing.median_ns
                    held += 1
    assert held > 0
