"""Tiles in shared memory: who takes which element, where it lies, and whether the gaps between rows pay."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import pytest

from warpsmith.generator.families.fft_block_tile import Address, Pool, Tile, TileShape, conflicts, fitted_tile

SHAPES = [
    TileShape(transforms, y_radices, x_radices, y_first=transforms > 1)
    for x_radices in ((2,), (31,), (2, 7), (4, 15), (8, 8), (4, 4, 4))
    for y_radices in ((), (2, 4), (13,))
    for transforms in (1, 5)
]

STAGED = [
    (shape, pools)
    for shape in SHAPES
    for pools in (
        (),
        ((Pool.of(x=shape.x, y=shape.y, t=shape.transforms), False),),
        ((Pool.of(y=shape.y, x=shape.x, t=shape.transforms), True),),
        (
            (Pool.of(x=shape.x, y=shape.y, t=shape.transforms), False),
            (Pool.of(t=shape.transforms, x=shape.x // 2 + 1, y=shape.y), True),
        ),
    )
]
"""Tiles with what is copied into them and from them: nothing, rows, columns, rows and then frequencies."""


@pytest.mark.parametrize("after", [False, True])
def test_every_element_of_a_fitted_tile_has_a_place_of_its_own(after: bool) -> None:
    for shape, pools in STAGED:
        tile = fitted_tile(shape, pools)
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
    def test_lines_are_the_values(self, extents: dict[str, int]) -> None:
        """CUDA divides integers as Python's // does, where none is negative."""
        pool = Pool.of(**extents)
        seen = set()
        for item in range(pool.items):
            names: dict[str, Any] = {"i": item}
            for line in pool.lines("i"):
                exec(re.sub(r"const int (.*);", r"\1", line).replace("/", "//"), {}, names)
            del names["i"]
            assert names == pool.values(item)
            seen.add(tuple(names.values()))
        assert len(seen) == pool.items

    def test_neighbours_differ_in_the_first_variable(self) -> None:
        pool = Pool.of(x=4, y=1, t=3)
        assert pool.variables == (("x", 4), ("t", 3))
        assert [pool.values(item) for item in (0, 1, 4)] == [{"x": 0, "t": 0}, {"x": 1, "t": 0}, {"x": 0, "t": 1}]

    def test_text_of_an_address_is_the_address(self) -> None:
        for shape, pools in STAGED:
            for work in fitted_tile(shape, pools).passes:
                expression = work.address.text(work.pool).replace("/", "//")
                for item in range(0, work.pool.items, math.ceil(work.pool.items / 50)):
                    values = work.pool.values(item)
                    assert eval(expression, {}, dict(values)) == work.address.at(values)


def accesses(tile: Tile, pools: tuple[tuple[Pool, bool], ...]) -> int:
    """How often the first warp of each stage reads or writes shared memory, times the warps of the stage."""
    stages = [(2 * work.step.radix, work.pool, work.address) for work in tile.passes]
    stages += [(1, pool, Address(tile.after if after else tile.before)) for pool, after in pools]
    total = 0
    for times, pool, address in stages:
        lanes = [address.at(pool.values(item)) for item in range(min(32, pool.items))]
        halves = [half for half in (lanes[:16], lanes[16:]) if half]
        total += times * max(1, pool.items // 32) * sum(map(conflicts, halves))
    return total


class TestGaps:
    def test_conflicts_are_different_places_of_one_bank(self) -> None:
        assert conflicts([0]) == 1
        assert conflicts(list(range(16))) == 1
        assert conflicts([0] * 16) == 1
        assert conflicts([16 * i for i in range(16)]) == 16
        assert conflicts([17 * i for i in range(16)]) == 1
        assert conflicts([0, 16, 1, 17, 33]) == 3

    def test_never_cost_more_accesses_than_they_save(self) -> None:
        for shape, pools in STAGED:
            gaps = (0,) * len(shape.x_radices + shape.y_radices)
            dense = [Tile.with_gaps(shape, gaps, down=down) for down in (False, True)[: 2 if shape.y_radices else 1]]
            fitted = fitted_tile(shape, pools)
            assert accesses(fitted, pools) <= min(accesses(tile, pools) for tile in dense), (shape, pools)

    def test_are_there_only_where_they_save_some(self) -> None:
        for shape, pools in STAGED:
            gaps = (0,) * len(shape.x_radices + shape.y_radices)
            dense, fitted = Tile.with_gaps(shape, gaps), fitted_tile(shape, pools)
            if accesses(dense, pools) == accesses(fitted, pools) and not fitted.down:
                assert fitted.elements <= dense.elements, (shape, pools)
