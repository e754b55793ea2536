"""Arithmetic of overlap-save: every result once, every element of a tile at its own address, for any config."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
import re

import numpy as np
import pytest

import exhaustive
from rectangles import cover
from warpsmith.generator.device import Device
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.overlap_family import (
    Filter2dOverlapSave,
    OverlapGeometry,
    likely_axes,
    overlap_save_ns,
)
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.program import ByValue, Lifetime, Pointer
from warpsmith.generator.space import Config
from warpsmith.generator.tiles.space import idle, resident
from warpsmith.generator.tiles.tile import TileAxis, TileShape, fitted, turns

FAMILY = Filter2dOverlapSave()
T4 = dataclasses.replace(
    H200,
    name="T4",
    compute_capability=(7, 5),
    shared_per_block_bytes=64 << 10,
    shared_per_multiprocessor_bytes=64 << 10,
)
PROBLEMS = (
    Filter2d((9216, 9216), (31, 31), accuracy="imagewise"),
    Filter2d((1080, 1920), (65, 65), accuracy="imagewise", border="reflect", dtype="uint8"),
    Filter2d((333, 512), (13, 13), accuracy="imagewise", planes=3, filters=2),
    Filter2d((50, 61), (7, 8), accuracy="imagewise", border="wrap"),
    Filter2d((12, 90), (12, 9), accuracy="imagewise"),
    Filter2d((1, 4000), (1, 120), accuracy="imagewise"),
)
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
every_device = pytest.mark.parametrize("device", [H200, HOST, T4], ids=lambda device: device.name)


@functools.cache
def sample(problem: Filter2d) -> tuple[Config, ...]:
    """The default, the starts and some random configs."""
    space, rng = FAMILY.space(problem, H200), random.Random(problem.key())
    drawn = filter(None, (space.drawn(rng) for _ in range(12)))
    return tuple(dict.fromkeys((FAMILY.default(problem, H200), *FAMILY.starts(problem, H200), *drawn)))


@every_problem
def test_every_result_is_stored_once(problem: Filter2d) -> None:
    rows, columns = problem.output_shape
    for config in sample(problem)[: 3 if rows * columns > 1 << 24 else None]:
        geometry = OverlapGeometry.of(problem, config)
        tiles = itertools.chain.from_iterable(map(geometry.partners_of, range(geometry.pairs)))
        stored = [geometry.results(tile) for tile in tiles if tile < geometry.tiles]
        assert (cover((rows, columns), stored) == 1).all(), config
        assert geometry.blocks == geometry.pairs * problem.planes * problem.filters


@every_problem
def test_tiles_are_paired_once(problem: Filter2d) -> None:
    for config in sample(problem):
        geometry = OverlapGeometry.of(problem, config)
        tiles = [tile for pair in range(geometry.pairs) for tile in geometry.partners_of(pair)]
        assert sorted(tiles)[: geometry.tiles] == list(range(geometry.tiles))
        assert len(set(tiles)) == len(tiles) == 2 * geometry.pairs


@every_problem
def test_no_two_elements_of_a_tile_share_a_place(problem: Filter2d) -> None:
    for config in sample(problem):
        passes = OverlapGeometry.of(problem, config).passes
        shape, layout = passes.shape, passes.layout
        places = {layout.place(shape, y, x) for y in range(shape.y.points) for x in range(shape.x.points)}
        assert len(places) == shape.points
        assert max(places) < layout.elements(shape) <= shape.room
        assert passes.shared_bytes <= H200.shared_per_block_bytes


@every_problem
def test_every_frequency_of_the_filter_has_a_place_of_its_own(problem: Filter2d) -> None:
    """Checks the expression in the kernel's text, evaluated here."""
    for config in sample(problem):
        passes = OverlapGeometry.of(problem, config).passes
        text = FAMILY.program(problem, config).source
        body = re.search(r"int spectrum_offset\(int y, int x\) \{\n(.*?)\n\}", text, re.DOTALL)
        assert body is not None
        lines = (
            re.sub(r"const int |;", "", body[1]).replace("/", "//").replace("kGroupRows", str(passes.shape.group_rows))
        )
        y, x = (axis.ravel() for axis in np.indices((passes.y.points, passes.x.points)))
        known = {"y": y, "x": x}
        for line in lines.splitlines():
            name, _, value = line.strip().partition(" = ")
            if name.startswith("return "):
                places = eval(name.removeprefix("return "), {}, known)
            for each in f"{name} = {value}".split(", ") if value else ():
                target, _, of = each.partition(" = ")
                known[target] = eval(of, {}, known)
        assert len(np.unique(places)) == passes.shape.points
        assert places.min() >= 0
        assert places.max() < passes.spectrum_elements


@exhaustive.one_in(2)
@every_problem
@every_device
def test_the_default_is_legal_and_fits(problem: Filter2d, device: Device) -> None:
    assert FAMILY.why_not(problem, device) is None
    space = FAMILY.space(problem, device)
    for config in (FAMILY.default(problem, device), *FAMILY.starts(problem, device)):
        assert space.why_not(config) is None
        assert OverlapGeometry.of(problem, config).passes.shared_bytes <= device.shared_per_block_bytes


@pytest.mark.parametrize("taps", [13, 31, 65])
def test_the_default_of_a_large_image_has_no_bank_conflicts_and_little_idleness(taps: int) -> None:
    problem = Filter2d((9216, 9216), (taps, taps), accuracy="imagewise")
    passes = OverlapGeometry.of(problem, FAMILY.default(problem, H200)).passes
    assert turns(passes.shape, passes.layout) <= 1.1
    assert idle(passes.shape, passes.warps) <= 0.15


def test_gaps_take_conflicts_away() -> None:
    shape = TileShape(TileAxis(28, 4), TileAxis(7, 16), 4, 0)
    dense, wide = (dataclasses.replace(shape, gaps=gaps) for gaps in (0, 12))
    assert turns(wide, fitted(wide)) == 1.0
    assert turns(dense, fitted(dense)) > 1.2


def test_larger_filters_want_larger_tiles() -> None:
    sizes = []
    for taps in (9, 17, 31, 65):
        (y, x), *_ = likely_axes(Filter2d((9216, 9216), (taps, taps), accuracy="imagewise"), H200)
        sizes.append(y.points * x.points)
    assert sizes == sorted(sizes)
    assert sizes[-1] > 2 * sizes[0]


def test_a_tile_that_does_not_fit_takes_forever() -> None:
    assert overlap_save_ns(PROBLEMS[0], TileAxis(32, 8), TileAxis(8, 32), H200) == float("inf")
    assert resident(256 * 256, H200) == 0
    assert resident(112 * 112, H200) == 2


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"accuracy": "normwise"}, "has errors relative to its whole tile: accuracy imagewise"),
        ({"accuracy": "elementwise"}, "has errors relative to its whole tile: accuracy imagewise"),
        ({"channels": 3}, "one channel"),
        ({"filter": (6, 8)}, "fewer than 49 taps"),
        ({"filter": (90, 90), "filters": 1}, None),
        ({"filter": (2, 2000), "image": (9, 4000)}, "no tile for a filter of 2x2000 fits"),
    ],
)
def test_says_why_not(fields: dict[str, object], told: str | None) -> None:
    problem = Filter2d(**{"image": (512, 512), "filter": (9, 9), "accuracy": "imagewise", **fields})  # type: ignore[arg-type]
    why_not = FAMILY.why_not(problem, H200)
    assert why_not is None if told is None else (why_not and told in why_not)


def test_the_spectrum_is_made_at_each_call() -> None:
    """Weights are given at run time, and another stream may have other weights."""
    problem = PROBLEMS[2]
    program = FAMILY.program(problem, FAMILY.default(problem, H200))
    spectrum, tiles = program.launches
    (workspace,) = program.workspaces
    assert workspace.lifetime is Lifetime.CALL
    assert workspace.nbytes == OverlapGeometry.of(problem, program.config).spectrum_bytes
    assert spectrum.arguments == (Pointer("spectra"), ByValue("weights"))
    assert spectrum.grid[0] == problem.filters * OverlapGeometry.of(problem, program.config).passes.x.points
    assert tiles.arguments[:3] == (Pointer("image"), Pointer("result"), Pointer("spectra"))
