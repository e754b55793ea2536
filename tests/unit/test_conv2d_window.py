"""Convolution windows over images in their stored layout: pixels and weights of each result."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from unit.test_conv2d_warpgroup import SHAPES
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.wgmma.im2col_family import Conv2dWarpgroupIm2col
from warpsmith.generator.conv2d.products.wgmma.im2col_image import Im2colImageGeometry
from warpsmith.generator.conv2d.products.wgmma.im2col_weight import Im2colWeightGeometry
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config

FAMILY = Conv2dWarpgroupIm2col()
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
DEEP: dict[str, Any] = {"input": (128, 192, 13, 13), "weight": (384, 192, 3, 3), "padding": 1}
LAST: dict[str, Any] = {"dtype": "float16", "layout": "nhwc"}


def with_channels(shape: dict[str, Any], pass_: Pass) -> Conv2d:
    """One entry of SHAPES with 16 channels and filters."""
    (images, _, *size), (_, _, *taps) = shape["input"], shape["weight"]
    return Conv2d(**{**shape, **LAST, "input": (images, 16, *size), "weight": (16, 16, *taps)}, pass_=pass_)


def config_of(problem: Conv2d, rng: random.Random) -> Config:
    """One random config."""
    config = FAMILY.space(problem, H200).drawn(rng)
    assert config is not None
    return config


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@every_shape
def test_steps_read_what_taps_do(shape: dict[str, Any], pass_: Pass) -> None:
    """Each result is the sum of pixels times weights of the layer's definition."""
    problem = with_channels(shape, pass_)
    rng = random.Random(problem.key())
    geometries = [Im2colImageGeometry.of(problem, config_of(problem, rng)) for _ in range(4)]
    for geometry in geometries:
        lattice, phases = geometry.lattice, geometry.lattice.phases
        across = len(lattice.columns.phases)
        for phase in range(len(phases)):
            steps = geometry.steps[geometry.first_taps[phase] : geometry.first_taps[phase + 1]]
            for row, column in itertools.product(range(lattice.rows.steps), range(lattice.columns.steps)):
                result = row * len(lattice.rows.phases) + phase // across, column * across + phase % across
                if result[0] >= lattice.rows.results or result[1] >= lattice.columns.results:
                    continue
                assert sorted(read(geometry, steps, row, column)) == sorted(wanted(problem, *result))


def read(geometry: Im2colImageGeometry, steps: tuple[Any, ...], row: int, column: int) -> list[tuple[int, int, int]]:
    """Row and column of the source, and the weight, of each step of a result, by the kernel's rule."""
    lattice, found = geometry.lattice, []
    for step in steps:
        place = row * lattice.columns.pitch + column + step.shift
        line, along = divmod(place, lattice.columns.pitch)
        source = (
            line * lattice.rows.multiple + step.row + geometry.first_row,
            along * lattice.columns.multiple + step.column + geometry.first_column,
        )
        if 0 <= source[0] < lattice.rows.sources and 0 <= source[1] < lattice.columns.sources:
            found.append((*source, step.weight))
    return found


def wanted(problem: Conv2d, row: int, column: int) -> list[tuple[int, int, int]]:
    """The same triples by the definition of a layer."""
    (above, _), (left, _) = problem.padding
    (down, across), (spread, wide) = problem.stride, problem.dilation
    filter_rows, filter_columns = problem.weight[2:]
    sizes = problem.input[2:] if problem.pass_ is Pass.FPROP else problem.output_size
    found = []
    for r, s in itertools.product(range(filter_rows), range(filter_columns)):
        if problem.pass_ is Pass.FPROP:
            source = row * down + r * spread - above, column * across + s * wide - left
        else:
            own, rest = divmod(row + above - r * spread, down)
            along, other = divmod(column + left - s * wide, across)
            if rest or other:
                continue
            source = own, along
        if 0 <= source[0] < sizes[0] and 0 <= source[1] < sizes[1]:
            found.append((*source, r * filter_columns + s))
    return found


@every_shape
def test_every_weight_has_its_tap(shape: dict[str, Any]) -> None:
    problem, rng = with_channels(shape, Pass.WGRAD), random.Random(5)
    for config in (config_of(problem, rng) for _ in range(6)):
        geometry = Im2colWeightGeometry.of(problem, config)
        weights = [weight for each in geometry.tap_sets for weight in each.weights if weight >= 0]
        assert sorted(weights) == list(range(problem.weight[2] * problem.weight[3]))
        assert geometry.run >= geometry.tile_k + max(each.shifts[-1] for each in geometry.tap_sets)
        pitch, columns = geometry.lattice.columns.pitch, geometry.lattice.columns.steps
        assert pitch == columns or geometry.taps > 1


def test_positions_are_results_where_no_taps_share_pixels() -> None:
    problem = Conv2d(**DEEP, **LAST)
    config = FAMILY.space(problem, H200).like({**FAMILY.default(problem, H200).values(), "sharing": "none"})
    assert config is not None
    assert Im2colImageGeometry.of(problem, config).lattice.fill == 1.0
    shared = FAMILY.space(problem, H200).like({**config.values(), "sharing": "row"})
    assert shared is not None
    assert Im2colImageGeometry.of(problem, shared).lattice.fill == pytest.approx(13 / 14)
