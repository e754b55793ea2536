"""`conv2d_warpgroup_gather` on the CPU: pixels that become halves where they are multiplied."""

from __future__ import annotations

import random
from typing import Any

import pytest

from host.test_conv2d_fft import evaluated
from host.test_conv2d_warpgroup import CHANNELS_LAST, KINDS, SHAPES
from joined import joined
from sampled_layers import Beside, outcome_beside
from warpsmith.devices.base import Runtime
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.halves import maximum
from warpsmith.generator.conv2d.warpgroup.gather_family import Conv2dWarpgroupGather
from warpsmith.generator.device import DeviceKind
from warpsmith.store.record import Measurement

FAMILY = Conv2dWarpgroupGather()
DEVICE = DeviceRef(DeviceKind.HOST).device()
every_pass = pytest.mark.parametrize("pass_", Pass)
SAMPLED = (SHAPES["groups"], SHAPES["few channels"], CHANNELS_LAST[0])
SOME = ("one image, even filter", "groups", "both", "much padding", "few channels, all steps", "one channel")
"""The others have nothing that none of these has: where a position's pixels lie is told as for `conv2d_warpgroup`."""


@every_pass
@pytest.mark.parametrize("name", SOME)
def test_is_right_by_default_or_at_random(host: Runtime, quickest: HostCompiler, name: str, pass_: Pass) -> None:
    """Every second one by default, and the others by a config that is drawn."""
    problem = Conv2d(**SHAPES[name], pass_=pass_)
    is_drawn = (SOME.index(name) + list(Pass).index(pass_)) % 2 > 0
    drawn = FAMILY.space(problem, DEVICE).drawn(random.Random(problem.key())) if is_drawn else None
    config = drawn or FAMILY.default(problem, DEVICE)
    outcome = evaluated(host, quickest, problem, FAMILY.program(problem, config))
    assert isinstance(outcome, Measurement), (config, outcome)


@every_pass
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_is_right_in_every_arithmetic(host: Runtime, quickest: HostCompiler, kind: dict[str, str], pass_: Pass) -> None:
    """With channels apart or last, in turns."""
    is_last = (list(KINDS.values()).index(kind) + list(Pass).index(pass_)) % 2 > 0
    with_end = {} if pass_ is Pass.WGRAD else {"bias": True, "relu": True}
    problem = Conv2d(**(CHANNELS_LAST[0] if is_last else SHAPES["strides"]), **kind, **with_end, pass_=pass_)
    outcome = evaluated(host, quickest, problem, FAMILY.program(problem, FAMILY.default(problem, DEVICE)))
    assert isinstance(outcome, Measurement), outcome


@pytest.mark.parametrize(("shape", "pass_"), [*zip(SAMPLED, Pass, strict=True), *zip(SAMPLED[1:], Pass, strict=False)])
def test_numbers_beyond_the_sample(
    host: Runtime, quickest: HostCompiler, shape: dict[str, Any], pass_: Pass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the layer is computed once more: the result is right and has the same bits each time."""
    monkeypatch.setattr(maximum, "SAMPLED_SIZE", 64)
    monkeypatch.setattr(maximum, "SAMPLE", 8)
    problem = Conv2d(**shape, pass_=pass_)
    program = joined(FAMILY.program(problem, FAMILY.default(problem, DEVICE)))
    assert [step.entry for step in program.steps].count(FAMILY.name) == 2  # type: ignore[union-attr]
    binaries = {name: quickest.compile(each) for name, each in program.compilations().items()}
    for beside in Beside:
        outcome = outcome_beside(host, problem, program, binaries, beside)
        assert isinstance(outcome, Measurement), (beside, outcome)
