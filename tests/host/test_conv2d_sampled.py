"""Layers on the CPU that scale images by a sampled maximum. The images are small, so the tests request sampling."""

from __future__ import annotations

from typing import Any

import pytest

from host.test_conv2d_warpgroup import CHANNELS_LAST, SHAPES, WARPGROUP
from joined import joined
from sampled_layers import Beside, outcome_beside
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.products.split16 import split16_maximum
from warpsmith.generator.device import DeviceKind
from warpsmith.store.record import Measurement

DEVICE = DeviceRef(DeviceKind.HOST).device()
LAYERS: tuple[dict[str, Any], ...] = (SHAPES["groups"], SHAPES["few channels"], CHANNELS_LAST[0])


@pytest.fixture
def sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split16_maximum, "SAMPLED_SIZE", 64)
    monkeypatch.setattr(split16_maximum, "SAMPLE", 8)
    monkeypatch.setattr(split16_maximum, "LEAST_SAMPLE", 4)


@pytest.mark.usefixtures("sampled")
@pytest.mark.parametrize(("shape", "pass_"), [*zip(LAYERS, Pass, strict=True), *zip(LAYERS[1:], Pass, strict=False)])
def test_numbers_beyond_the_sample(host: Runtime, quickest: HostCompiler, shape: dict[str, Any], pass_: Pass) -> None:
    """Numbers beyond the range of fp16 cause a second split: the result is right and has the same bits each time."""
    problem = Conv2d(**shape, pass_=pass_)
    given = WARPGROUP.program(problem, WARPGROUP.default(problem, DEVICE))
    assert any(step.entry.endswith("again") for step in given.steps)  # type: ignore[union-attr]
    program = joined(given)
    binaries = {name: quickest.compile(each) for name, each in program.compilations().items()}
    for beside in Beside:
        outcome = outcome_beside(host, problem, program, binaries, beside)
        assert isinstance(outcome, Measurement), (beside, outcome)


def test_small_images_are_read_whole() -> None:
    problem = Conv2d(**SHAPES["groups"])
    program = WARPGROUP.program(problem, WARPGROUP.default(problem, DEVICE))
    assert not any(step.entry.endswith("again") for step in program.steps)  # type: ignore[union-attr]
