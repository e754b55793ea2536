"""Layers of few channels on the CPU: the inverse transform also computes the products."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

import exhaustive
from verified import check, evaluated
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFft
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import default_answer
from warpsmith.store.record import Failure, FailureKind, Measurement

WHOLE, TILED = FOURIER["conv2d_fft_fused"], FOURIER["conv2d_fft_tiled_fused"]
DEVICE = DeviceRef(DeviceKind.HOST).device()
RGB: dict[str, Any] = {"input": (2, 3, 20, 23), "weight": (6, 3, 5, 4), "padding": ((2, 1), (0, 3))}
LAYERS = {
    "three channels": Conv2d(**RGB),
    "one channel, bias, ReLU": Conv2d((3, 1, 9, 11), (4, 1, 4, 3), bias=True, relu=True),
    "three channels, bias": Conv2d(**RGB, bias=True),
    "two filters back": Conv2d((2, 6, 12, 10), (2, 6, 3, 3), padding=1, pass_=Pass.DGRAD),
    "four images": Conv2d((4, 6, 9, 9), (3, 6, 3, 5), pass_=Pass.WGRAD),
    "mirrored": Conv2d((2, 4, 9, 7), (2, 4, 3, 3), padding=2, padding_mode="reflect"),
    "mirrored, back": Conv2d((2, 4, 9, 7), (3, 4, 3, 3), padding=2, padding_mode="reflect", pass_=Pass.DGRAD),
}
every_layer = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)


@every_layer
def test_is_right_by_default_and_at_random(host: Runtime, quickest: HostCompiler, layer: Conv2d) -> None:
    able = [family for family in (WHOLE, TILED) if family.why_not(layer, DEVICE) is None]
    assert WHOLE in able
    cases = []
    for family in able:
        drawn = family.space(layer, DEVICE).drawn(random.Random(layer.key()))
        assert drawn is not None
        turn = list(LAYERS.values()).index(layer) + able.index(family)
        configs = exhaustive.share((family.default(layer, DEVICE), drawn), turn, 2)
        cases += [(layer, family.program(layer, config)) for config in configs]
    check(host, quickest, cases)


@pytest.mark.parametrize("family", [WHOLE, TILED], ids=lambda family: family.name)
def test_takes_a_batch_in_parts_that_fit_the_workspace(
    host: Runtime, quickest: HostCompiler, family: Conv2dFft
) -> None:
    layer = LAYERS["three channels"]
    taken = sum(each.nbytes for each in family.workspaces(layer))
    parts = dataclasses.replace(layer, workspace=taken - 1)
    program = family.program(parts, family.default(parts, DEVICE))
    assert sum(each.nbytes for each in program.workspaces) <= parts.workspace
    assert len(program.steps) == 1 + 2 * 2
    outcome = evaluated(host, quickest, parts, program)
    assert isinstance(outcome, Measurement), outcome


def test_a_sum_over_the_batch_is_taken_whole() -> None:
    layer = LAYERS["four images"]
    taken = sum(each.nbytes for each in WHOLE.workspaces(layer))
    assert WHOLE.why_not(dataclasses.replace(layer, workspace=2 * taken), DEVICE) is None
    assert "bytes of workspace" in (WHOLE.why_not(dataclasses.replace(layer, workspace=taken - 1), DEVICE) or "")


def test_keeps_no_spectra_of_the_result() -> None:
    kept, unfused = (
        {each.name: each.nbytes for each in family.workspaces(LAYERS["three channels"])}
        for family in (WHOLE, FOURIER["conv2d_fft"])
    )
    assert {*kept} == {"spectra_a", "spectra_b"}
    assert {*unfused} - {*kept} == {"spectra_c"}


def test_a_factor_that_is_not_conjugated_is_found(host: Runtime, quickest: HostCompiler) -> None:
    layer = LAYERS["three channels"]
    program = WHOLE.program(layer, WHOLE.default(layer, DEVICE))
    (last,) = (unit for unit in program.units if unit.name == "result")
    wrong = dataclasses.replace(last, source=last.source.replace("conjugate(xy(b0))", "xy(b0)"))
    assert wrong != last
    units = tuple(wrong if unit is last else unit for unit in program.units)
    outcome = evaluated(host, quickest, layer, dataclasses.replace(program, units=units))
    assert isinstance(outcome, Failure)
    assert outcome.kind is FailureKind.WRONG


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (Conv2d((2, 5, 9, 9), (4, 5, 3, 3)), "4 terms at most; these have 5"),
        (Conv2d((2, 3, 9, 9), (5, 3, 3, 3)), "pairs of columns"),
        (Conv2d((2, 3, 9, 9), (4, 3, 3, 3), stride=2), "stride 1"),
        (Conv2d((5, 6, 9, 9), (3, 6, 3, 5), pass_=Pass.WGRAD), "these have 5"),
    ],
)
def test_says_what_it_does_not_solve(layer: Conv2d, why: str) -> None:
    assert why in (WHOLE.why_not(layer, DEVICE) or "")


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (Conv2d((128, 3, 128, 128), (96, 3, 11, 11)), TILED.name),
        (Conv2d((64, 64, 40, 40), (2, 64, 9, 9), pass_=Pass.DGRAD), WHOLE.name),
        (Conv2d((128, 3, 32, 32), (8, 3, 1, 1)), "conv2d_direct"),
    ],
)
def test_answers_where_it_is_likely(layer: Conv2d, name: str) -> None:
    assert default_answer(layer, H200)[0].name == name
