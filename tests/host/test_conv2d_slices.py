"""`conv2d_slices` on the CPU: products of int8 slices, the same bits in any tile, and ranges that are too wide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import exhaustive
import sanitized
from host.test_conv2d_warpgroup import CHANNELS_LAST, SHAPES
from joined import plans_of
from verified import check
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.ozaki.ozaki_family import LEAST, Conv2dSlices
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.space import Config, Value
from warpsmith.tuner.operations.conv2d.oracle import reference
from warpsmith.tuner.operations.registry import random_operands

SLICES = Conv2dSlices()
DEVICE = DeviceRef(DeviceKind.HOST).device()
TILES: tuple[dict[str, Value], ...] = (
    {},
    {"warps_down": 2, "warp_columns": 32, "channels": 64, "reach": "filter", "stages": 3},
    {"warps_across": 2, "stages": 4},
)
LAYER = Conv2d((2, 40, 5, 5), (18, 40, 3, 3), padding=1)  # type: ignore[arg-type]
every_pass = pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
Numbers = NDArray[np.float32]


def config_of(problem: Conv2d, **wanted: Value) -> Config:
    """The smallest tile with the `wanted` values, as far as they are legal."""
    config = SLICES.space(problem, DEVICE).like({**LEAST, **wanted})
    assert config is not None
    return config


def computed(host: Runtime, compiler: HostCompiler, tiles: int, given: dict[str, Numbers]) -> list[Numbers]:
    """Results of LAYER in each of the first `tiles` tiles. All tests compile the same text."""
    plans = plans_of(host, compiler, [(LAYER, SLICES.program(LAYER, config_of(LAYER, **tile))) for tile in TILES])
    return [plan(*(given[each.name] for each in LAYER.inputs)) for plan in plans[:tiles]]


@exhaustive.meeting()
@every_pass
@pytest.mark.parametrize("shape", ["padded", "groups", "strides", "both"])
def test_is_right(host: Runtime, quickest: HostCompiler, shape: str, pass_: Pass) -> None:
    problem = Conv2d(**SHAPES[shape], pass_=pass_)
    tile = TILES[list(SHAPES).index(shape) % len(TILES)]
    check(host, quickest, [(problem, SLICES.program(problem, config_of(problem, **tile)))])


@every_pass
def test_is_right_with_channels_last_and_a_bias(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    layouts = exhaustive.share(CHANNELS_LAST, list(Pass).index(pass_), 2)
    problems = [Conv2d(**layout, bias=True, relu=True, pass_=pass_) for layout in layouts]
    check(host, quickest, [(each, SLICES.program(each, config_of(each))) for each in problems])


def test_every_tile_gives_the_same_bits(host: Runtime, quick: HostCompiler) -> None:
    given = random_operands(LAYER, 3)
    results = computed(host, quick, len(TILES), given)
    expected, scale = reference(LAYER, given)
    assert (np.abs(results[0] - expected) <= 1e-6 * scale).all()
    assert np.mean(results[0] == expected.astype(np.float32)) < 0.5  # by slices, and not in double precision
    for other in results[1:]:
        assert np.array_equal(results[0].view(np.uint32), other.view(np.uint32))


@pytest.mark.parametrize(
    "kind", ["one large number", "a large channel with small weights", "log-normal", "a NaN", "zeros"]
)
def test_wide_ranges_are_computed_apart(host: Runtime, quick: HostCompiler, kind: str) -> None:
    """If one number is 10,000 times as large, its three digits leave one for the others, and the bound forbids that."""
    given = {name: values.copy() for name, values in random_operands(LAYER, 3).items()}
    x = given["x"]
    if kind == "one large number":
        x[1, 3, 2, 2] = 1e4
    elif kind == "a large channel with small weights":
        x[:, 7] *= 1e4
        given["w"][:, 7] *= 1e-6
    elif kind == "log-normal":
        x[...] = np.exp(3 * np.random.default_rng(1).standard_normal(x.shape)).astype(np.float32)
    elif kind == "a NaN":
        x[1, 3, 2, 2] = np.nan
    else:
        x[...] = 0
    first, second = computed(host, quick, 2, given)
    assert np.array_equal(first.view(np.uint32), second.view(np.uint32))
    if kind == "a NaN":
        is_reached = np.zeros(first.shape, dtype=bool)
        is_reached[1, :, 1:4, 1:4] = True
        assert np.array_equal(np.isnan(first), is_reached)
    else:
        expected, _ = reference(LAYER, given)
        is_rounded_once = first == expected.astype(np.float32)
        wide = [1] if kind == "one large number" else [0, 1]
        assert np.mean(is_rounded_once[wide]) > 0.99  # in double precision, and not by slices
        assert len(wide) == 2 or np.mean(is_rounded_once[0]) < 0.5


@pytest.mark.usefixtures("compile_as_asked")  # such products run three times as long unoptimised
def test_kernels_are_clean_under_the_sanitizers(tmp_path: Path) -> None:
    """The sanitizers would also report an integer sum that exceeds 32 bits."""
    problems = [Conv2d(**SHAPES["strides"], pass_=pass_) for pass_ in (Pass.FPROP, Pass.DGRAD)]
    sanitized.check([(each, SLICES.program(each, config_of(each, **TILES[1]))) for each in problems], tmp_path)
