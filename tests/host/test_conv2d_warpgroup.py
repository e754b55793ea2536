"""`conv2d_warpgroup` on the CPU: split fp16 products on row spans of pixels, against the float64 reference."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any

import pytest

import exhaustive
from verified import check
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.wgmma.wgmma_family import Conv2dWarpgroup
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.space import Config, Value

WARPGROUP = Conv2dWarpgroup()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SHAPES: dict[str, dict[str, Any]] = {
    "padded": {"input": (2, 7, 6, 5), "weight": (9, 7, 3, 3), "padding": 1},
    "one image, even filter": {"input": (1, 20, 7, 9), "weight": (18, 20, 2, 4), "padding": ((1, 0), (2, 1))},
    "groups": {"input": (2, 6, 5, 7), "weight": (8, 3, 3, 2), "groups": 2},
    "strides": {"input": (2, 5, 11, 9), "weight": (6, 5, 3, 5), "stride": (2, 3), "padding": (1, 2)},
    "strides beyond the filter": {"input": (1, 4, 9, 8), "weight": (5, 4, 1, 2), "stride": (2, 3), "padding": (0, 3)},
    "dilation": {"input": (2, 4, 11, 12), "weight": (3, 4, 3, 3), "dilation": (2, 3), "padding": (2, 1)},
    "both": {"input": (1, 6, 14, 13), "weight": (4, 3, 3, 4), "stride": (3, 2), "dilation": (2, 3), "groups": 2},
    "much padding": {"input": (2, 3, 3, 4), "weight": (4, 3, 1, 2), "padding": (2, 4)},
    "few channels": {"input": (2, 3, 13, 15), "weight": (10, 3, 5, 5), "stride": 2, "padding": 2},
    "few channels, all steps": {
        "input": (2, 3, 15, 14),
        "weight": (18, 3, 4, 3),
        "stride": (3, 2),
        "padding": ((1, 2), 1),
    },
    "patches": {"input": (2, 2, 12, 16), "weight": (9, 2, 4, 4), "stride": 4},
    "one channel": {"input": (3, 1, 9, 14), "weight": (4, 1, 3, 8), "dilation": (1, 2), "padding": ((1, 0), (5, 2))},
    "a filter as large as the image": {"input": (3, 17, 4, 5), "weight": (2, 17, 4, 5)},
}
every_pass = pytest.mark.parametrize("pass_", Pass)


def config_of(problem: Conv2d, **wanted: Value) -> Config:
    """A config with at least the `wanted` values."""
    space = WARPGROUP.space(problem, DEVICE)
    config = space.like({**WARPGROUP.default(problem, DEVICE).values(), **wanted})
    assert config is not None
    return config


def checked(host: Runtime, compiler: HostCompiler, *cases: tuple[Conv2d, Config]) -> list[float]:
    """Largest error of each result. Fails if one exceeds its program's bound."""
    return check(host, compiler, [(problem, WARPGROUP.program(problem, config)) for problem, config in cases])


def defaults(*problems: Conv2d) -> list[tuple[Conv2d, Config]]:
    return [(problem, WARPGROUP.default(problem, DEVICE)) for problem in problems]


@every_pass
def test_is_right_by_default_or_at_random(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    """Every second case runs the default config, the others a random one."""
    turn, cases = list(Pass).index(pass_), []
    for number, shape in exhaustive.share(list(enumerate(SHAPES.values())), turn, 3):
        problem = Conv2d(**shape, pass_=pass_)
        is_drawn = (number + turn) // 2 % 2 > 0
        drawn = WARPGROUP.space(problem, DEVICE).drawn(random.Random(problem.key())) if is_drawn else None
        cases.append((problem, drawn or WARPGROUP.default(problem, DEVICE)))
    checked(host, quickest, *cases)


KINDS = {
    "tf32": {"precision": "tf32"},
    "f16 of float32": {"precision": "f16"},
    "float16": {"dtype": "float16"},
    "f16": {"dtype": "float16", "precision": "f16"},
    "bfloat16": {"dtype": "bfloat16"},
    "bf16": {"dtype": "bfloat16", "precision": "bf16"},
}
CHANNELS_LAST = (
    {"input": (2, 16, 6, 5), "weight": (8, 16, 3, 3), "padding": 1, "layout": "nhwc"},
    {"input": (2, 4, 9, 10), "weight": (8, 4, 3, 3), "padding": 1, "stride": 2, "layout": "nhwc"},
    {
        "input": (2, 6, 11, 9),
        "weight": (6, 3, 3, 5),
        "stride": (2, 3),
        "padding": (1, 2),
        "groups": 2,
        "layout": "nhwc",
    },
)
"""Channels that fill whole vectors, and other channel counts."""


@exhaustive.meeting()
@every_pass
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_is_right_in_every_arithmetic(host: Runtime, quickest: HostCompiler, kind: dict[str, str], pass_: Pass) -> None:
    strided, last = (Conv2d(**shape, **kind, pass_=pass_) for shape in (SHAPES["strides"], CHANNELS_LAST[0]))
    drawn = WARPGROUP.space(last, DEVICE).drawn(random.Random(last.key()))
    assert drawn is not None
    checked(host, quickest, *defaults(strided), (last, drawn))


@every_pass
def test_is_right_with_channels_last(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    """Every shape and dtype, each in two passes by default."""
    with_end = {} if pass_ is Pass.WGRAD else {"bias": True, "relu": True}
    kinds = list(itertools.product(CHANNELS_LAST, ("float32", "float16")))
    problems = [
        Conv2d(**shape, **with_end, dtype=dtype, pass_=pass_)  # type: ignore[arg-type]
        for shape, dtype in exhaustive.share(kinds, list(Pass).index(pass_), 3)
    ]
    checked(host, quickest, *defaults(*problems))


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
def test_adds_a_bias_and_ends_in_a_relu(host: Runtime, quickest: HostCompiler, pass_: Pass) -> None:
    ends = ((True, False, "groups"), (False, True, "groups"), (True, True, "patches"))
    problems = [Conv2d(**SHAPES[name], bias=bias, relu=relu, pass_=pass_) for bias, relu, name in ends]
    checked(host, quickest, *defaults(*problems))


@every_pass
def test_multiplies_low_parts_where_float32_is_asked_for_alone(
    host: Runtime, quickest: HostCompiler, pass_: Pass
) -> None:
    problem = Conv2d(**SHAPES["strides"], pass_=pass_)
    exact, rounded = checked(host, quickest, *defaults(problem, dataclasses.replace(problem, precision="tf32")))
    assert exact < 1e-6 < 1e-5 < rounded
