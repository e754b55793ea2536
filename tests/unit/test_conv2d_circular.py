"""Circular correlations of layers: the smallest tile whose wrap-around is harmless, legal defaults, refusals."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import exhaustive
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.circular_family import (
    MOST_SUMS,
    CircularGeometry,
    Conv2dCircular,
    CorrelationAxis,
    correlation_axes,
    sums_of,
)
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.program import Pointer

FAMILY = Conv2dCircular()
LARGE = {"input": (16, 128, 56, 56), "weight": (128, 1, 31, 31), "groups": 128, "padding": 15}
every_pass = pytest.mark.parametrize("pass_", Pass)


def correlated(axis: CorrelationAxis, points: int, source: np.ndarray, factor: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """Result of a tile of `points` points."""
    tile = np.zeros(points)
    for u in range(points):
        if 0 <= u - axis.before < axis.sources:
            tile[u] = source[u - axis.before]
    return np.array([sum(factor[t] * tile[(p + t) % points] for t in range(axis.factors)) for p in range(axis.results)])


def test_the_least_tile_has_room_for_what_comes_round() -> None:
    rng = np.random.default_rng(0)
    for sources, factors, results, before in itertools.product((1, 5, 9), (1, 4, 7), (1, 6, 11), (-2, 0, 3, 8)):
        axis = CorrelationAxis(sources, factors, results, before)
        source, factor = rng.standard_normal(sources), rng.standard_normal(factors)
        padded = np.zeros(64)
        padded[16 : 16 + sources] = source
        expected = [sum(factor[t] * padded[16 + p + t - before] for t in range(factors)) for p in range(results)]
        for points in (axis.least, axis.least + 1, axis.least + 5):
            np.testing.assert_allclose(correlated(axis, points, source, factor), expected, atol=1e-12)


@every_pass
def test_padding_of_half_a_filter_makes_a_tile_half_a_filter_larger(pass_: Pass) -> None:
    """A transform needs 72 rows here; padding by a whole filter would need 86."""
    problem = Conv2d(**LARGE, pass_=pass_)  # type: ignore[arg-type]
    assert [axis.least for axis in correlation_axes(problem)] == [71, 71]
    passes = CircularGeometry.of(problem, FAMILY.default(problem, H200)).passes
    assert (passes.y.points, passes.x.points) == (72, 72)


@exhaustive.meeting()
@every_pass
@pytest.mark.parametrize("device", [H200, HOST], ids=lambda device: device.name)
@pytest.mark.parametrize(
    "fields",
    [
        LARGE,
        {"input": (32, 192, 28, 28), "weight": (192, 1, 7, 7), "groups": 192, "padding": 3},
        {"input": (1, 3, 100, 60), "weight": (3, 1, 13, 9), "groups": 3},
    ],
)
def test_defaults_and_starts_are_legal(fields: dict[str, object], device: Device, pass_: Pass) -> None:
    problem = Conv2d(**fields, pass_=pass_)  # type: ignore[arg-type]
    assert FAMILY.why_not(problem, device) is None
    space = FAMILY.space(problem, device)
    for config in (FAMILY.default(problem, device), *FAMILY.starts(problem, device)):
        assert space.why_not(config) is None
        assert FAMILY.unrolled(problem, config) <= MAX_UNROLLED
        for launch in FAMILY.program(problem, config).launches:
            assert launch.shared_bytes <= device.shared_per_block_bytes
            assert launch.grid[0] >= 1
        if pass_ is Pass.WGRAD:
            assert sums_of(CircularGeometry.of(problem, config).passes) <= MOST_SUMS


def test_blocks_that_share_a_channel_are_added_up_in_order() -> None:
    problem = Conv2d((8, 4, 20, 20), (4, 1, 7, 7), groups=4, padding=3, pass_=Pass.WGRAD)
    program = FAMILY.program(problem, FAMILY.default(problem, H200))
    planes, total = program.launches
    splits = planes.grid[0] // 4
    assert splits > 1
    assert program.workspaces[0].nbytes == splits * problem.output.nbytes
    assert total.arguments == (Pointer("sums"), Pointer("dw"))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"groups": 1, "weight": (8, 8, 9, 9)}, "one filter of its own"),
        ({"weight": (16, 1, 9, 9)}, "one filter of its own"),
        ({"accuracy": "elementwise"}, "has errors relative to the whole result: accuracy normwise"),
        ({"stride": 2}, "stride 1"),
        ({"dilation": 2}, "dilation 1"),
        ({"weight": (8, 1, 5, 5)}, "fewer than 49 taps"),
        ({"input": (2, 8, 300, 300)}, "does not fit"),
        ({"input": (2, 8, 120, 120), "weight": (8, 1, 101, 101)}, "more than 10000 taps"),
    ],
)
def test_says_why_not(fields: dict[str, object], told: str) -> None:
    usual = {"input": (2, 8, 30, 30), "weight": (8, 1, 9, 9), "groups": 8}
    why_not = FAMILY.why_not(Conv2d(**{**usual, **fields}), H200)  # type: ignore[arg-type]
    assert why_not is not None
    assert told in why_not


@every_pass
def test_takes_no_more_workspace_than_the_layer_allows(pass_: Pass) -> None:
    """The spectra of a filter of 7x7 take 12,288 bytes; the gradient of the weights needs none."""
    layer = Conv2d((2, 1, 32, 48), (1, 1, 7, 7), pass_=pass_, workspace=12_287)
    room = dataclasses.replace(layer, workspace=12_288)
    assert (FAMILY.why_not(layer, H200) is None) == (pass_ is Pass.WGRAD)
    assert FAMILY.why_not(room, H200) is None
    for config in (FAMILY.default(room, H200), *itertools.islice(FAMILY.space(room, H200).configs(), 50)):
        assert sum(each.nbytes for each in FAMILY.program(room, config).workspaces) <= 12_288


def test_parts_of_a_gradient_are_as_many_as_the_layer_allows() -> None:
    layer = Conv2d((32, 8, 24, 24), (8, 1, 9, 9), pass_=Pass.WGRAD, groups=8)
    of_two = dataclasses.replace(layer, workspace=2 * layer.output.nbytes)
    of_none = dataclasses.replace(layer, workspace=0)
    assert FAMILY.default(layer, H200).integer("splits") == 8
    assert FAMILY.default(of_two, H200).integer("splits") == 2
    assert FAMILY.default(of_none, H200).integer("splits") == 1
    why = FAMILY.space(of_two, H200).why_not(FAMILY.default(layer, H200))
    assert why is not None
    assert f"sums of several blocks take at most {of_two.workspace} bytes" in why
