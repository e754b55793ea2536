"""`conv2d_dense` on the CPU: layers whose filters cover the image."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import exhaustive
import sanitized
from verified import check
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.sums.dense.dense_family import Conv2dDense
from warpsmith.generator.device import DeviceKind

FAMILY = Conv2dDense()
DEVICE = DeviceRef(DeviceKind.HOST).device()
SHAPES: dict[str, dict[str, Any]] = {
    "one pixel": {"input": (24, 48, 1, 1), "weight": (16, 48, 1, 1)},
    "odd channels": {"input": (5, 29, 1, 1), "weight": (37, 29, 1, 1)},
    "even channels": {"input": (3, 58, 1, 1), "weight": (222, 58, 1, 1), "stride": 2},
    "a classifier": {"input": (3, 24, 4, 3), "weight": (20, 24, 4, 3)},
    "one image": {"input": (1, 256, 1, 1), "weight": (3, 256, 1, 1)},
    "many images": {"input": (130, 4, 1, 1), "weight": (8, 4, 1, 1)},
    "one channel": {"input": (3, 1, 1, 1), "weight": (2, 1, 1, 1)},
}
KINDS: dict[str, dict[str, Any]] = {
    "float32": {},
    "float32 channels last": {"layout": "nhwc"},
    "float16": {"dtype": "float16", "layout": "nhwc"},
    "bfloat16": {"dtype": "bfloat16", "precision": "bf16", "layout": "nhwc"},
    "bfloat16 channels first": {"dtype": "bfloat16"},
}


def layer(name: str, kind: str, pass_: Pass, **more: Any) -> Conv2d:
    """Layer of SHAPES with the given name."""
    return Conv2d(**SHAPES[name], **KINDS[kind], pass_=pass_, **more)


@pytest.mark.parametrize("kind", KINDS)
def test_is_right_by_default_and_at_random(host: Runtime, quickest: HostCompiler, kind: str) -> None:
    """Every shape in one pass; bias and ReLU take turns."""
    cases = []
    for turn, name in enumerate(SHAPES):
        for pass_ in exhaustive.share(tuple(Pass), turn + list(KINDS).index(kind), 3):
            ends = {} if pass_ is Pass.WGRAD else {"bias": turn % 2 == 0, "relu": turn % 3 == 0}
            problem = layer(name, kind, pass_, **ends)
            space, rng = FAMILY.space(problem, DEVICE), random.Random(problem.key())
            for config in (FAMILY.default(problem, DEVICE), space.drawn(rng)):
                assert config is not None
                cases.append((problem, FAMILY.program(problem, config)))
    check(host, quickest, cases)


@pytest.mark.parametrize("kind", ["float32", "float32 channels last"])
def test_a_bias_belongs_to_the_channel_of_a_pixel(host: Runtime, quickest: HostCompiler, kind: str) -> None:
    problem = layer("a classifier", kind, Pass.DGRAD, bias=True, relu=True)
    check(host, quickest, [(problem, FAMILY.program(problem, FAMILY.default(problem, DEVICE)))])


@pytest.mark.usefixtures("compile_without_optimisation")
def test_clean_under_the_sanitizers(tmp_path: Path) -> None:
    """Rows, columns and terms that end inside a block."""
    cases = [layer("odd channels", "bfloat16", pass_) for pass_ in Pass]
    sanitized.check([(each, FAMILY.program(each, FAMILY.default(each, DEVICE))) for each in cases], tmp_path)
