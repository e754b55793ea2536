"""Small layers of 16 bits with channels last, and the cases that the families of such layers are tried on."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import exhaustive
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.program import Program

KINDS = {
    "float16": {"dtype": "float16"},
    "f16": {"dtype": "float16", "precision": "f16"},
    "bfloat16": {"dtype": "bfloat16"},
    "bf16": {"dtype": "bfloat16", "precision": "bf16"},
}
Shapes = Mapping[str, Mapping[str, Any]]
"""Fields of layers by name."""


def layer_of(shapes: Shapes, name: str, kind: str, pass_: Pass, **more: Any) -> Conv2d:
    """The layer of `shapes` with that name, in a kind of KINDS."""
    return Conv2d(**shapes[name], **KINDS[kind], layout="nhwc", pass_=pass_, **more)  # type: ignore[arg-type]


def by_default_or_at_random(
    family: Family[Conv2d], device: Device, shapes: Shapes, kind: str, has_ends: bool = False
) -> list[tuple[Conv2d, Program]]:
    """Two passes of each of a kind's shapes, which kinds take in turns: two shapes by the default config, the next two
    by a random one. With `has_ends`, some images have a bias, and some a ReLU.
    """
    cases = []
    for turn, name in list(enumerate(shapes))[list(KINDS).index(kind) :: len(KINDS)]:
        for pass_ in exhaustive.share((list(Pass)[turn % 3], list(Pass)[(turn + 1) % 3]), turn // 3, 2):
            ends = {"bias": turn % 2 == 0, "relu": turn % 3 == 0} if has_ends and pass_ is not Pass.WGRAD else {}
            problem = layer_of(shapes, name, kind, pass_, **ends)
            drawn = family.space(problem, device).drawn(random.Random(problem.key())) if turn // 2 % 2 else None
            cases.append((problem, family.program(problem, drawn or family.default(problem, device))))
    return cases
