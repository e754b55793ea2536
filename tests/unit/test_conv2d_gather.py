"""`conv2d_warpgroup_gather`: what it refuses, chooses and reads."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any

import pytest

from unit.test_conv2d_warpgroup import SHAPES
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.warpgroup.gather_family import Conv2dWarpgroupGather
from warpsmith.generator.conv2d.warpgroup.gathering import GatheringGeometry, GatheringWeights
from warpsmith.generator.device import H200
from warpsmith.generator.problem import DType
from warpsmith.generator.registry import answering
from warpsmith.generator.space import Config

FAMILY = Conv2dWarpgroupGather()
every_pass = pytest.mark.parametrize("pass_", Pass)
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
DEEP: dict[str, Any] = {"input": (128, 192, 13, 13), "weight": (384, 192, 3, 3), "padding": 1}
LAST: dict[str, Any] = {"dtype": "float16", "layout": "nhwc"}


def with_channels(shape: dict[str, Any], pass_: Pass) -> Conv2d:
    """One of SHAPES with 16 channels and filters."""
    (images, _, *size), (_, _, *taps) = shape["input"], shape["weight"]
    return Conv2d(**{**shape, **LAST, "input": (images, 16, *size), "weight": (16, 16, *taps)}, pass_=pass_)


def config_of(problem: Conv2d, rng: random.Random) -> Config:
    """One that is drawn."""
    config = FAMILY.space(problem, H200).drawn(rng)
    assert config is not None
    return config


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"dtype": "float32"}, "16-bit numbers with channels last"),
        ({"layout": "nchw"}, "16-bit numbers with channels last"),
        ({"input": (128, 12, 13, 13), "weight": (384, 12, 3, 3)}, "8 channels of a group at once"),
        ({"padding_mode": "reflect"}, "zeros"),
    ],
)
def test_refuses(changed: dict[str, Any], says: str) -> None:
    why_not = FAMILY.why_not(Conv2d(**{**DEEP, **LAST, **changed}), H200)
    assert why_not is not None
    assert says in why_not


def test_needs_whole_chunks_of_what_it_reads_alone() -> None:
    odd = {**DEEP, **LAST, "weight": (33, 192, 3, 3)}
    assert FAMILY.why_not(Conv2d(**odd), H200) is None
    assert FAMILY.why_not(Conv2d(**odd, pass_=Pass.DGRAD), H200) is not None
    assert FAMILY.why_not(Conv2d(**odd, pass_=Pass.WGRAD), H200) is not None


@every_pass
def test_answers_images_of_many_channels_alone(pass_: Pass) -> None:
    """By times of an H100: where products take longer than copies."""
    deep = answering(Conv2d(**DEEP, **LAST, precision="f16", pass_=pass_), H200)[0].name  # type: ignore[arg-type]
    assert deep == ("conv2d_warpgroup" if pass_ is Pass.WGRAD else FAMILY.name)
    few = Conv2d((32, 64, 56, 56), (64, 64, 3, 3), padding=1, precision="f16", **LAST, pass_=pass_)  # type: ignore[arg-type]
    assert answering(few, H200)[0].name == "conv2d_warpgroup"


@every_pass
def test_blocks_fit_a_multiprocessor(pass_: Pass) -> None:
    problem, rng = Conv2d(**DEEP, **LAST, pass_=pass_), random.Random(3)
    for config in (FAMILY.default(problem, H200), *(config_of(problem, rng) for _ in range(30))):
        program = FAMILY.program(problem, config)
        (multiplying,) = (each for each in program.launches if each.entry == FAMILY.name)
        assert multiplying.shared_bytes <= H200.shared_per_block_bytes
        assert sum(each.nbytes for each in program.workspaces) <= problem.workspace
        assert not {"halves_x", "halves_dy"} & {each.name for each in program.workspaces}


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@every_shape
def test_steps_read_what_taps_do(shape: dict[str, Any], pass_: Pass) -> None:
    """Each result's sum is over the pixels and weights that the layer's definition names."""
    problem = with_channels(shape, pass_)
    rng = random.Random(problem.key())
    geometries = [GatheringGeometry.of(problem, config_of(problem, rng)) for _ in range(4)]
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


def read(geometry: GatheringGeometry, steps: tuple[Any, ...], row: int, column: int) -> list[tuple[int, int, int]]:
    """Row and column of the source, and the weight, of all steps of a result, by the rule of the kernel."""
    lattice, found = geometry.lattice, []
    for step in steps:
        place = row * lattice.columns.pitch + column + step.shift
        line, along = divmod(place, lattice.columns.pitch)
        source = line * lattice.rows.multiple + step.row, along * lattice.columns.multiple + step.column
        if 0 <= source[0] < lattice.rows.sources and 0 <= source[1] < lattice.columns.sources:
            found.append((*source, step.weight))
    return found


def wanted(problem: Conv2d, row: int, column: int) -> list[tuple[int, int, int]]:
    """The same by the definition of a layer."""
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
        geometry = GatheringWeights.of(problem, config)
        weights = [weight for each in geometry.tap_sets for weight in each.weights if weight >= 0]
        assert sorted(weights) == list(range(problem.weight[2] * problem.weight[3]))
        assert geometry.run >= geometry.terms + max(each.shifts[-1] for each in geometry.tap_sets)
        pitch, columns = geometry.lattice.columns.pitch, geometry.lattice.columns.steps
        assert pitch == columns or geometry.taps > 1


def test_positions_are_results_where_no_taps_share_pixels() -> None:
    problem = Conv2d(**DEEP, **LAST)
    config = FAMILY.space(problem, H200).like({**FAMILY.default(problem, H200).values(), "sharing": "none"})
    assert config is not None
    assert GatheringGeometry.of(problem, config).lattice.fill == 1.0
    shared = dataclasses.replace(problem, dtype=DType.BFLOAT16)
    assert GatheringGeometry.of(shared, FAMILY.default(shared, H200)).lattice.fill == pytest.approx(13 / 14)
