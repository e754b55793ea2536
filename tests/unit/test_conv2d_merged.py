"""Families that solve a layer as a wider one: who answers, when filters are laid out, and what launches cover."""

from __future__ import annotations

import dataclasses
import math

import pytest

from unit.test_conv2d_groups import FOURS
from unit.test_conv2d_pixels import PAIRS
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.wgmma import groups_family, pixels_family
from warpsmith.generator.conv2d.products.wgmma.groups_family import Conv2dWarpgroupGroups
from warpsmith.generator.conv2d.products.wgmma.im2col_family import Conv2dWarpgroupIm2col
from warpsmith.generator.conv2d.products.wgmma.merged_side import Merging
from warpsmith.generator.conv2d.products.wgmma.pixels_family import Conv2dWarpgroupPixels
from warpsmith.generator.prepacking import split_program
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import default_answer

Case = tuple[Conv2dWarpgroupIm2col, Merging, Conv2d]
GROUPS: Case = Conv2dWarpgroupGroups(), groups_family.MERGING, Conv2d(**FOURS)
PIXELS: Case = Conv2dWarpgroupPixels(), pixels_family.MERGING, Conv2d(**PAIRS)
every_case = pytest.mark.parametrize("case", [GROUPS, PIXELS], ids=["groups", "pixels"])


@every_case
@pytest.mark.parametrize("pass_", Pass)
def test_answers_its_layers(case: Case, pass_: Pass) -> None:
    family, _, layer = case
    assert default_answer(dataclasses.replace(layer, pass_=pass_), H200)[0].name == family.name


@every_case
@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
def test_filters_are_laid_out_once_where_weights_are_bound(case: Case, pass_: Pass) -> None:
    family, _, layer = case
    problem = dataclasses.replace(layer, pass_=pass_)
    parts = split_program(family.program(problem, family.default(problem, H200)), {"w"})
    assert parts is not None
    assert [each.entry for each in parts.first.launches] == [f"{family.name}_wide"]
    assert [each.entry for each in parts.rest.launches] == [family.name]


@pytest.mark.parametrize(
    ("case", "pass_", "beyond"),
    [
        *((GROUPS, pass_, 0) for pass_ in Pass),  # 18 blocks of 256 and 36 of 256 hold them exactly
        (PIXELS, Pass.FPROP, 184),
        (PIXELS, Pass.DGRAD, 184),
        (PIXELS, Pass.WGRAD, 112),
    ],
)
def test_launches_cover_all_filters(case: Case, pass_: Pass, beyond: int) -> None:
    """`beyond` threads of the last block have nothing to do."""
    family, merging, layer = case
    problem = dataclasses.replace(layer, pass_=pass_)
    program = family.program(problem, family.default(problem, H200))
    (other,) = (each for each in program.launches if each.entry != family.name)
    weights = math.prod(problem.weight) if pass_ is Pass.WGRAD else math.prod(merging.layer(problem).weight) // 8
    assert other.grid[0] * other.block[0] == weights + beyond
    assert beyond < other.block[0]
    assert sum(each.nbytes for each in program.workspaces) <= problem.workspace_limit
