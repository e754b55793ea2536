"""`conv2d_warpgroup_pixels`: refusals, how many pixels are merged, workspaces, and who answers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.wgmma.pixels_family import Conv2dWarpgroupPixels, merged
from warpsmith.generator.prepacking import split_program
from warpsmith.generator.presets import A100, H200
from warpsmith.generator.ranking import default_answer

FAMILY = Conv2dWarpgroupPixels()
LAST: dict[str, Any] = {"dtype": "bfloat16", "precision": "bf16", "layout": "nhwc"}
PAIRS: dict[str, Any] = {"input": (24, 116, 28, 28), "weight": (116, 116, 1, 1), **LAST}
every_pass = pytest.mark.parametrize("pass_", Pass)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"dtype": "float32", "precision": "ieee"}, "16-bit numbers with channels last"),
        ({"layout": "nchw"}, "16-bit numbers with channels last"),
        ({"weight": (116, 116, 3, 3)}, "one tap in one group"),
        ({"weight": (116, 58, 1, 1), "groups": 2}, "one tap in one group"),
        ({"stride": (1, 2)}, "without strides and padding"),
        ({"padding": 1}, "without strides and padding"),
        ({"nonfinite": "window"}, "needs nonfinite any"),
        ({"input": (24, 64, 28, 28), "weight": (128, 64, 1, 1)}, "conv2d_warpgroup_im2col"),
        ({"input": (24, 116, 7, 7)}, "unlike 7x7 of 116 and 116 channels"),
        ({"workspace": 1 << 10}, "bytes of workspace"),
    ],
)
def test_refuses(changed: dict[str, Any], says: str) -> None:
    why_not = FAMILY.why_not(Conv2d(**{**PAIRS, **changed}), H200)
    assert why_not is not None
    assert says in why_not


def test_refuses_other_gpus_than_hopper() -> None:
    assert FAMILY.why_not(Conv2d(**PAIRS), A100) is not None


@pytest.mark.parametrize(
    ("channels", "filters", "plane", "count", "merged_plane"),
    [
        (116, 116, (28, 28), 2, (28, 14)),
        (58, 58, (28, 28), 4, (28, 7)),
        (24, 58, (14, 14), 4, (1, 49)),
        (17, 3, (8, 8), 8, (8, 1)),
        (20, 12, (6, 5), 2, (1, 15)),
    ],
)
def test_merges_the_fewest_pixels_that_fill_vectors(
    channels: int, filters: int, plane: tuple[int, int], count: int, merged_plane: tuple[int, int]
) -> None:
    problem = Conv2d(input=(24, channels, *plane), weight=(filters, channels, 1, 1), pass_="dgrad", **LAST)
    layer = merged(problem)
    assert layer is not None
    assert layer.input == (24, count * channels, *merged_plane)
    assert layer.weight == (count * filters, count * channels, 1, 1)
    assert layer.inputs[0].nbytes == problem.inputs[0].nbytes
    assert layer.output.nbytes == problem.output.nbytes


@every_pass
def test_answers_where_channels_are_no_vectors(pass_: Pass) -> None:
    assert default_answer(Conv2d(**PAIRS, pass_=pass_), H200)[0].name == FAMILY.name


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
def test_filters_are_laid_out_once_where_weights_are_bound(pass_: Pass) -> None:
    problem = Conv2d(**PAIRS, pass_=pass_)
    parts = split_program(FAMILY.program(problem, FAMILY.default(problem, H200)), {"w"})
    assert parts is not None
    assert [each.entry for each in parts.first.launches] == [f"{FAMILY.name}_wide"]
    assert [each.entry for each in parts.rest.launches] == [FAMILY.name]


@every_pass
def test_launches_cover_all_filters(pass_: Pass) -> None:
    problem = Conv2d(**PAIRS, pass_=pass_)
    program = FAMILY.program(problem, FAMILY.default(problem, H200))
    (other,) = (each for each in program.launches if each.entry != FAMILY.name)
    layer = merged(problem)
    assert layer is not None
    threads = math.prod(problem.weight) if pass_ is Pass.WGRAD else math.prod(layer.weight) // 8
    assert 0 <= other.grid[0] * other.block[0] - threads < other.block[0]
    assert sum(each.nbytes for each in program.workspaces) <= problem.workspace_limit
