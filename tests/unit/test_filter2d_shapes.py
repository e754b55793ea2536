"""Defaults of wide, tall and large image filters, and the family that answers them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from warpsmith.generator.family import MAX_UNROLLED
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.warpgroup_family import Filter2dWarpgroup
from warpsmith.generator.filter2d.warpgroup_walk import warpgroup_ns
from warpsmith.generator.filter2d.window_family import Filter2dWindow
from warpsmith.generator.filter2d.window_geometry import WindowGeometry
from warpsmith.generator.filter2d.window_shapes import copy_ns, shaped_walks, window_ns
from warpsmith.generator.presets import A100, H200, RTX_4090
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config

WINDOW, WARPGROUP = Filter2dWindow(), Filter2dWarpgroup()
TAPS = (1, 2, 5, 7, 8, 16, 25, 31, 45, 63)


def large(rows: int, columns: int, **fields: Any) -> Filter2d:
    """A filter of an image that fills a device."""
    return Filter2d(**{"image": (3000, 3000), "filter": (rows, columns), "border": "reflect", **fields})


def window_default(problem: Filter2d) -> Config:
    return WINDOW.default(problem, H200)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (large(1, 31), {"order": "taps", "rows": 2, "columns": 4, "prefetch": 0, "path": "global"}),
        (large(1, 31, dtype="uint8"), {"order": "taps", "rows": 2, "columns": 8, "prefetch": 0}),
        (large(1, 63), {"path": "async", "rows": 4, "columns": 4}),
        (large(1, 9, image=(2999, 3001)), {"order": "rows", "rows": 4, "load_vector": 4, "prefetch": 0}),
        (large(5, 31), {"order": "rows", "rows": 4, "unroll": 4, "prefetch": 0}),
        (large(31, 1), {"order": "rows", "rows": 16, "unroll": 16, "columns": 2}),
        (large(63, 3), {"order": "rows", "rows": 8, "unroll": 8, "columns": 2}),
        (large(63, 7), {"order": "loop", "columns": 8}),
        (large(63, 63), {"order": "loop", "rows": 4, "columns": 8}),
        (large(31, 31, dtype="float16"), {"order": "loop", "rows": 2, "columns": 16}),
    ],
    ids=lambda value: value.key() if isinstance(value, Filter2d) else "",
)
def test_the_default_has_the_walk_that_was_fastest(problem: Filter2d, expected: dict[str, Any]) -> None:
    values = window_default(problem).values()
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize("image", [(3000, 3000), (2999, 3001), (300, 410), (70, 64)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_every_shape_has_a_legal_default_that_compiles_fast(image: tuple[int, int], dtype: str) -> None:
    for device, rows, columns in itertools.product((H200, A100, RTX_4090), TAPS, TAPS):
        problem = large(rows, columns, image=image, dtype=dtype)
        family, config = default_answer(problem, device)
        assert family.name != "filter2d_plain"
        assert family.space(problem, device).contains(config)
        assert family.unrolled(problem, config) <= MAX_UNROLLED


@pytest.mark.parametrize(
    ("problem", "family"),
    [
        (large(1, 31), WINDOW),
        (large(31, 1), WINDOW),
        (large(63, 1, dtype="float16"), WINDOW),
        (large(25, 3), WINDOW),
        (large(45, 5), WINDOW),
        (large(41, 5, image=(2048, 2048), dtype="float16"), WINDOW),
        (large(7, 3), WINDOW),
        (large(3, 57), WARPGROUP),
        (large(5, 31), WARPGROUP),
        (large(5, 45, dtype="uint8"), WARPGROUP),
        (large(14, 51, dtype="float16"), WARPGROUP),
        (large(31, 15), WARPGROUP),
        (large(31, 57), WARPGROUP),
        (large(63, 63), WINDOW),
    ],
    ids=lambda value: value.key() if isinstance(value, Filter2d) else value.name,
)
def test_the_family_answers_that_was_fastest(problem: Filter2d, family: Filter2dWindow | Filter2dWarpgroup) -> None:
    assert default_answer(problem, H200)[0].name == family.name


@pytest.mark.parametrize(
    ("problem", "measured_us"),
    [
        (large(3, 3), 26),
        (large(9, 9), 33),
        (large(15, 15), 72),
        (large(31, 31), 299),
        (large(63, 31), 667),
        (large(31, 5), 118),
        (large(45, 1), 114),
        (large(31, 3, image=(9216, 9216)), 739),
        (large(31, 31, dtype="float16"), 242),
        (large(31, 3, dtype="uint8"), 86),
    ],
    ids=lambda value: value.key() if isinstance(value, Filter2d) else "",
)
def test_the_model_of_warpgroups_is_within_two_fifths_of_what_was_measured(
    problem: Filter2d, measured_us: float
) -> None:
    assert warpgroup_ns(problem, H200) / 1e3 == pytest.approx(measured_us, rel=0.4)


@pytest.mark.parametrize(
    ("problem", "measured_us"),
    [
        (large(1, 31), 24),
        (large(3, 25), 34),
        (large(31, 3), 46),
        (large(45, 5), 107),
        (large(63, 3, dtype="float16"), 98),
        (large(15, 31), 202),
        (large(63, 7), 257),
        (large(63, 63), 2025),
        (large(60, 63, dtype="uint8"), 1860),
    ],
    ids=lambda value: value.key() if isinstance(value, Filter2d) else "",
)
def test_the_model_of_windows_is_within_a_fifth_of_what_was_measured(problem: Filter2d, measured_us: float) -> None:
    assert window_ns(problem, H200) / 1e3 == pytest.approx(measured_us, rel=0.2)


def test_models_follow_a_devices_rates() -> None:
    few, many = large(1, 5), large(63, 63)
    assert copy_ns(few, A100) > copy_ns(few, H200)
    assert window_ns(few, A100) == copy_ns(few, A100)
    ratio = H200.rates.multiply_adds_per_ns / A100.rates.multiply_adds_per_ns
    assert window_ns(many, A100) == pytest.approx(ratio * window_ns(many, H200))


@pytest.mark.parametrize("filter_", [(1, 31), (31, 1), (31, 63), (63, 2)])
def test_small_images_have_strips_of_fewer_outputs(filter_: tuple[int, int]) -> None:
    def outputs(size: int) -> int:
        config = window_default(large(*filter_, image=(size, size)))
        return config.integer("rows") * config.integer("columns")

    assert outputs(256) <= outputs(512) <= outputs(4096)
    assert outputs(256) < outputs(4096)


def test_banks_have_no_walks_of_a_shape() -> None:
    assert not shaped_walks(large(31, 1, filters=3), H200)


def test_the_code_of_a_loop_does_not_grow_with_the_filters_rows() -> None:
    short, tall = (large(rows, 63) for rows in (31, 63))
    config = window_default(tall)
    assert config.text("order") == "loop"
    assert WINDOW.space(short, H200).contains(config)
    assert WINDOW.unrolled(short, config) == WINDOW.unrolled(tall, config)
    lengths = [len(WINDOW.program(each, config).units[0].source) for each in (short, tall)]
    assert abs(lengths[0] - lengths[1]) < 50  # numbers of more digits alone


def test_a_strip_of_one_turn_has_no_loop_above_its_first_window() -> None:
    """The compiler then leaves out the sums of outputs below the strip: 63x1 takes 42 us, with that loop 331 (H200)."""
    problem = large(63, 1)
    once = window_default(problem)
    twice = Config.of(once.values() | {"rows": 2 * once.integer("rows")})
    assert not WindowGeometry.of(problem, once).rolled_start
    assert WindowGeometry.of(problem, twice).rolled_start


def test_a_loop_reads_rows_aligned_alike() -> None:
    problem = large(63, 63, image=(2999, 3001))
    loop = window_default(problem)
    assert loop.text("order") == "loop"
    assert loop.integer("load_vector") == 1
    why = WINDOW.space(problem, H200).why_not(Config.of(loop.values() | {"load_vector": 4}))
    assert why is not None
    assert "aligned alike" in why
