"""`conv2d_warpgroup_gather` on the CPU: 16-bit pixels that are copied from where they lie."""

from __future__ import annotations

import random
from typing import Any

import pytest

from host.test_conv2d_fft import evaluated
from warpsmith.devices.base import Runtime
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.warpgroup.gather_family import Conv2dWarpgroupGather
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.space import Config, Value
from warpsmith.store.record import Measurement

FAMILY = Conv2dWarpgroupGather()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SHAPES: dict[str, dict[str, Any]] = {
    "padded": {"input": (3, 24, 6, 5), "weight": (16, 24, 3, 3), "padding": 1},
    "one image, even filter": {"input": (1, 40, 7, 9), "weight": (24, 40, 2, 4), "padding": ((1, 0), (2, 1))},
    "groups": {"input": (2, 32, 5, 7), "weight": (48, 16, 3, 2), "groups": 2},
    "strides": {"input": (2, 72, 11, 9), "weight": (16, 72, 3, 5), "stride": (2, 3), "padding": (1, 2)},
    "strides beyond filters": {"input": (2, 16, 9, 8), "weight": (16, 16, 1, 2), "stride": (2, 3), "padding": (0, 3)},
    "dilation": {"input": (2, 16, 11, 12), "weight": (24, 16, 3, 3), "dilation": (2, 3), "padding": (2, 1)},
    "both": {"input": (1, 32, 14, 13), "weight": (32, 16, 3, 4), "stride": (3, 2), "dilation": (2, 3), "groups": 2},
    "much padding": {"input": (2, 16, 3, 4), "weight": (16, 16, 1, 2), "padding": (2, 4)},
    "pointwise": {"input": (3, 64, 5, 6), "weight": (72, 64, 1, 1), "stride": 2},
    "a filter as large as the image": {"input": (9, 16, 4, 5), "weight": (16, 16, 4, 5)},
}
KINDS = {
    "float16": {"dtype": "float16"},
    "f16": {"dtype": "float16", "precision": "f16"},
    "bfloat16": {"dtype": "bfloat16"},
    "bf16": {"dtype": "bfloat16", "precision": "bf16"},
}
every_pass = pytest.mark.parametrize("pass_", Pass)


def layer(name: str, kind: str, pass_: Pass, **more: Any) -> Conv2d:
    """One of SHAPES."""
    return Conv2d(**SHAPES[name], **KINDS[kind], layout="nhwc", pass_=pass_, **more)  # type: ignore[arg-type]


def config_of(problem: Conv2d, **wanted: Value) -> Config:
    """A config that has at least `wanted`."""
    config = FAMILY.space(problem, DEVICE).like({**FAMILY.default(problem, DEVICE).values(), **wanted})
    assert config is not None
    return config


@every_pass
@pytest.mark.parametrize("name", SHAPES)
def test_is_right_by_default_or_at_random(host: Runtime, quickest: HostCompiler, name: str, pass_: Pass) -> None:
    """Every second one by default, and the others by a config that is drawn; in every type in turns."""
    turn = list(SHAPES).index(name) + list(Pass).index(pass_)
    problem = layer(name, list(KINDS)[turn % len(KINDS)], pass_)
    drawn = FAMILY.space(problem, DEVICE).drawn(random.Random(problem.key())) if turn // 2 % 2 else None
    outcome = evaluated(host, quickest, problem, FAMILY.program(problem, drawn or FAMILY.default(problem, DEVICE)))
    assert isinstance(outcome, Measurement), (drawn, outcome)


@pytest.mark.parametrize("pass_", [Pass.FPROP, Pass.DGRAD])
@pytest.mark.parametrize("sharing", ["row", "none"])
def test_taps_share_pixels_or_have_their_own(host: Runtime, quickest: HostCompiler, sharing: str, pass_: Pass) -> None:
    for name in ("strides", "padded"):
        problem = layer(name, "float16", pass_, bias=True, relu=True)
        config = config_of(problem, sharing=sharing)
        assert config.text("sharing") == sharing
        outcome = evaluated(host, quickest, problem, FAMILY.program(problem, config))
        assert isinstance(outcome, Measurement), outcome


@pytest.mark.parametrize("taps", [1, 2, 3])
def test_taps_of_a_block(host: Runtime, quickest: HostCompiler, taps: int) -> None:
    """Two of three leave a warpgroup without a tap."""
    problem = layer("padded", "bf16", Pass.WGRAD)
    config = config_of(problem, taps=taps)
    assert config.integer("taps") == taps
    outcome = evaluated(host, quickest, problem, FAMILY.program(problem, config))
    assert isinstance(outcome, Measurement), outcome
