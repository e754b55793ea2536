"""Default start of a search of `filter2d_window`, and which walks fill a device in one wave."""

from __future__ import annotations

from math import ceil

import pytest

from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.window_family import Filter2dWindow
from warpsmith.generator.filter2d.window_geometry import Method
from warpsmith.generator.filter2d.window_walks import WALKS, methods, walks
from warpsmith.generator.presets import H200

WINDOW = Filter2dWindow()
STRUCTURELESS = tuple(float((7 * i * i + 3 * i) % 23 - 11) for i in range(225))


def test_of_long_walks_some_make_one_wave() -> None:
    problem = Filter2d(image=(9216, 9216), filter=(15, 15))
    added = set(walks(problem, H200)) - set(WALKS)
    assert 318 in added
    for rows in added:
        warps = [ceil(9202 / rows) * ceil(9202 / (32 * columns)) / H200.multiprocessors for columns in (2, 4, 8)]
        # At least one width comes within a strip's warps of a number that a multiprocessor can hold.
        assert any(whole - 1.2 < each <= whole for each in warps for whole in (8, 12, 16, 20, 24, 28, 32)), rows


def test_small_images_have_no_long_walks() -> None:
    assert max(walks(Filter2d(image=(64, 64), filter=(3, 3)), H200)) == max(WALKS)


@pytest.mark.parametrize(
    ("fields", "possible"),
    [
        ({}, [Method.DIRECT]),
        ({"accuracy": "normwise"}, [Method.DIRECT, Method.WINOGRAD]),
        ({"accuracy": "imagewise"}, [Method.DIRECT, Method.WINOGRAD]),
        ({"accuracy": "normwise", "channels": 3}, [Method.DIRECT]),
        ({"weights": [1.0] * 225}, [Method.DIRECT, Method.SEPARABLE]),
    ],
)
def test_methods(fields: dict[str, object], possible: list[Method]) -> None:
    assert methods(Filter2d(image=(300, 300), filter=(15, 15), **fields)) == possible  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [None, STRUCTURELESS])
@pytest.mark.parametrize("image", [(9216, 9216), (300, 301), (20, 33), (15, 15)])
def test_a_search_for_accuracy_in_norm_starts_with_pairs_or_what_is_legal(
    image: tuple[int, int], weights: tuple[float, ...] | None
) -> None:
    problem = Filter2d(image=image, filter=(15, 15), accuracy="normwise", weights=weights)  # type: ignore[arg-type]
    config = WINDOW.default(problem, H200)
    assert WINDOW.space(problem, H200).contains(config)
    if image == (9216, 9216):
        assert config.text("method") == "winograd"


@pytest.mark.parametrize("rows", [*range(1, 24), 31])
def test_every_filter_that_fits_has_a_start(rows: int) -> None:
    for fields in ({}, {"accuracy": "normwise"}, {"dtype": "uint8", "channels": 3}, {"filters": 3}):
        problem = Filter2d(image=(600, 701), filter=(rows, 5), **fields)  # type: ignore[arg-type]
        if WINDOW.why_not(problem, H200) is None:
            assert WINDOW.space(problem, H200).contains(WINDOW.default(problem, H200))


@pytest.mark.parametrize(("size", "strips", "blocks"), [(3, 2, 0), (7, 2, 0), (9, 1, 2), (11, 1, 2), (15, 1, 2)])
def test_long_walks_start_in_one_wave_with_registers_for_two_blocks(size: int, strips: int, blocks: int) -> None:
    """The winners of 9x9 to 15x15 on an H200 have these values."""
    config = WINDOW.default(Filter2d(image=(9216, 9216), filter=(size, size)), H200)
    assert (config.integer("block_strips"), config.integer("min_blocks")) == (strips, blocks)
