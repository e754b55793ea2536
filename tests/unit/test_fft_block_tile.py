"""Tiles in shared memory: which thread takes which element, addresses, and whether gaps between rows pay off."""

from __future__ import annotations

import collections
import functools
import itertools
import math
from collections.abc import Callable

import pytest

import exhaustive
from warpsmith.generator.fft.block.block_tile import (
    BANKS,
    Address,
    BlockTile,
    Gaps,
    Lead,
    Pool,
    Sets,
    TileShape,
    Touch,
    digits_of,
    set_address,
)
from warpsmith.generator.fft.block.gaps import fitted_tile

Index = Callable[[str, dict[str, int]], int]
"""Value of a CUDA expression."""

SHAPES = [
    TileShape(transforms, y_radices, x_radices, y_first=transforms > 1)
    for x_radices in ((2,), (31,), (2, 7), (4, 15), (8, 8), (4, 4, 4))
    for y_radices in ((), (2, 4), (13,))
    for transforms in (1, 5)
]

STAGED = [
    (shape, touches)
    for shape in SHAPES
    for touches in (
        (),
        (Touch(Pool.of(x=shape.x, y=shape.y, t=shape.transforms), is_after=False),),
        (Touch(Pool.of(y=shape.y, x=shape.x, t=shape.transforms), is_after=True),),
        (
            Touch(Pool.of(x=shape.x, y=shape.y, t=shape.transforms), is_after=False),
            Touch(Pool.of(t=shape.transforms, x=shape.x // 2 + 1, y=shape.y), is_after=True),
            Touch(Pool.of(t=shape.transforms, x=shape.x // 2 + 1, y=shape.y), is_after=True, is_mirrored=True),
        ),
    )
]
"""Tiles and what is copied into and out of them: nothing, rows, columns, rows and then frequencies."""


def no_gaps(shape: TileShape) -> Gaps:
    return ((0, 0),) * len(digits_of(shape))


@pytest.mark.parametrize("after", [False, True])
def test_every_element_of_a_fitted_tile_has_a_place_of_its_own(after: bool) -> None:
    for shape, touches in STAGED:
        tile = fitted_tile(shape, touches)
        address = Address(tile.after if after else tile.before)
        indices = itertools.product(range(shape.transforms), range(shape.y), range(shape.x))
        places = [address.at({"t": t, "y": y, "x": x}) for t, y, x in indices]
        assert len(set(places)) == len(places)
        assert min(places) == 0
        assert max(places) < tile.elements
        assert tile.pitch * shape.transforms == tile.elements


class TestPool:
    @pytest.mark.parametrize(
        "extents", [{}, {"t": 1}, {"x": 5}, {"x": 4, "y": 1, "t": 3}, {"t": 3, "x": 2, "y": 7}, {"later": 2, "x": 31}]
    )
    def test_lines_are_the_values(self, extents: dict[str, int], index: Index) -> None:
        pool = Pool.of(**extents)
        seen = set()
        for item in range(pool.items):
            names = {"i": item}
            for line in pool.lines("i"):
                name, value = line.removeprefix("const int ").removesuffix(";").split(" = ")
                names[name] = index(value, names)
            del names["i"]
            assert names == pool.values(item)
            seen.add(tuple(names.values()))
        assert len(seen) == pool.items

    def test_neighbours_differ_in_the_first_variable(self) -> None:
        pool = Pool.of(x=4, y=1, t=3)
        assert pool.variables == (("x", 4), ("t", 3))
        assert [pool.values(item) for item in (0, 1, 4)] == [{"x": 0, "t": 0}, {"x": 1, "t": 0}, {"x": 0, "t": 1}]

    def test_text_of_an_address_is_the_address(self, index: Index) -> None:
        for shape, touches in STAGED:
            for work in fitted_tile(shape, touches).passes:
                expression = work.address.text(work.pool)
                for item in range(0, work.pool.items, math.ceil(work.pool.items / 50)):
                    values = work.pool.values(item)
                    assert index(expression, dict(values)) == work.address.at(values)


def conflicts(addresses: list[int]) -> int:
    """Memory reads for one access of half a warp: 1 if no bank is hit twice."""
    return max(collections.Counter(address % BANKS for address in set(addresses)).values())


def accesses(tile: BlockTile, touches: tuple[Touch, ...]) -> int:
    """Shared-memory accesses of all warps of all stages, item by item."""
    stages: list[tuple[int, Pool, Callable[[int], int]]] = []
    for work in tile.passes:
        address = functools.partial(lambda work, item: work.address.at(work.pool.values(item)), work)
        stages.append((2 * work.step.radix, work.pool, address))
    for touch in touches:
        terms = Address(tile.after if touch.is_after else tile.before)
        indices = functools.partial(touch.indices, tile.shape)
        address = functools.partial(
            lambda terms, indices, pool, item: terms.at(indices(pool.values(item))), terms, indices, touch.pool
        )
        stages.append((1, touch.pool, address))
    total = 0
    for times, pool, address in stages:
        for start in range(0, pool.items, 16):
            total += times * conflicts([address(item) for item in range(start, min(start + 16, pool.items))])
    return total


class TestGaps:
    def test_cost_no_more_accesses_than_they_save(self) -> None:
        """The fit of a large stage tries only some warps, so up to 1% more accesses are allowed."""
        for shape, touches in exhaustive.share(STAGED, 0, 2):
            dense, fitted = BlockTile.with_gaps(shape, no_gaps(shape)), fitted_tile(shape, touches)
            assert accesses(fitted, touches) <= 1.01 * accesses(dense, touches), (shape, touches)

    def test_are_there_only_where_they_save_some(self) -> None:
        for shape, touches in exhaustive.share(STAGED, 1, 2):
            fitted = fitted_tile(shape, touches)
            dense = BlockTile.with_gaps(shape, no_gaps(shape), fitted.leads)
            if accesses(dense, touches) <= accesses(fitted, touches):
                assert fitted.elements <= dense.elements, (shape, touches)

    @pytest.mark.parametrize("radices", [(8, 8), (4, 8), (32, 2), (2, 32), (16, 4)])
    def test_leave_powers_of_two_without_conflicts(self, radices: tuple[int, ...]) -> None:
        """Square transforms whose last pass writes columns to memory, like those of 128x128 real numbers."""
        shape = TileShape(1, (8, 16), radices, y_first=False, is_global=(False, True))
        pool = Pool.of(x=shape.x, y=shape.y)
        fitted, dense = fitted_tile(shape, (Touch(pool, is_after=False),)), BlockTile.with_gaps(shape, no_gaps(shape))
        touches = (Touch(pool, is_after=False),)
        least = shape.x * shape.y // 16 * (2 * len(fitted.passes) + 1)
        assert accesses(fitted, touches) <= 1.25 * least
        assert accesses(dense, touches) >= 2 * least
        assert fitted.elements <= shape.room

    def test_results_that_are_asked_for_keep_their_numbers_in_any_order_of_threads(self) -> None:
        """Three digits, stored in another order than frequencies: the first 40 of 64 rows are results."""
        shape = TileShape(2, (2, 8, 4), (4,), y_first=True, present=(40, 3), is_signal_first=False)
        works = BlockTile.with_gaps(shape, no_gaps(shape)).passes
        work = next(each for each in works if each.written)
        assert (work.axis, work.written, work.step.earlier) == ("y", 40, 16)
        for each in works:
            for name in ("t", "x", "y", "earlier", "later"):
                places = dict(each.led_by(Lead(name, is_stored=True)).address.terms)
                assert not each.written or places["earlier"] == each.step.earlier_place
                assert each.has_all_lines or places["y"] == dict(each.address.terms)["y"]

    @pytest.mark.parametrize("is_signal_first", [True, False])
    def test_keep_sets_of_frequencies_that_mirror_each_other_apart(self, is_signal_first: bool) -> None:
        """Four pairs of 64x64 transforms: both sets of the pass that reaches the spectrum, and all other passes."""
        mirrored = (not is_signal_first, is_signal_first)
        shape = TileShape(
            4, (8, 8), (8, 8), y_first=is_signal_first, is_signal_first=is_signal_first, is_mirrored=mirrored
        )
        tile = fitted_tile(shape, ())
        (work,) = (each for place, each in enumerate(tile.passes) if shape.is_mirrored_pass(place, 4))
        sets, address = Sets.of_pass(shape, work), set_address(work, "y", "digit")
        for is_there in (False, True):
            found = [address.at(sets.indices(sets.pool.values(item), is_there=is_there)) for item in range(2 * 512)]
            halves = [conflicts(found[start : start + 16]) for start in range(0, len(found), 16)]
            assert sum(halves) <= 1.1 * len(halves)

    def test_of_the_same_tile_are_the_same(self) -> None:
        shape, touches = STAGED[-1]
        first = fitted_tile(shape, touches)
        fitted_tile.cache_clear()
        assert fitted_tile(shape, touches) == first
