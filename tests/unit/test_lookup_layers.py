"""Untuned layers: when the winner of another layer is used, and when a default is."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from builders import timing, winner
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.conv2d.layer.problem import DEFAULT_REACH, NEAR_REACH, Conv2d
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.space import Config
from warpsmith.plans.lookup import find
from warpsmith.plans.match import Match, MatchKind
from warpsmith.store.record import Record
from warpsmith.store.store_chain import StoreChain
from winners_in_memory import WinnersInMemory

# Not a preset: winners for real devices ship with the package.
GPU = dataclasses.replace(H200, name="Test GPU")
OTHER_GPU = dataclasses.replace(GPU, name="Another GPU")
WARPGROUP = FOURIER["conv2d_fft_warpgroup"]
LAYER = Conv2d(input=(128, 248, 13, 13), weight=(256, 248, 3, 3), padding=1)
CHOICES = {"product.dealt_to": 0}


def changed(**fields: Any) -> Conv2d:
    return dataclasses.replace(LAYER, **fields)


def won() -> Record:
    """Winner without persistent blocks (`dealt_to` 0); the default has them on every multiprocessor."""
    return winner(LAYER, timing(1e5), GPU, family=WARPGROUP, choices=CHOICES)


def found(layer: Conv2d, *records: Record) -> Match:
    return find(layer, GPU, StoreChain((WinnersInMemory("made up", records),)))


def default(layer: Conv2d) -> tuple[str, Config]:
    family, config = default_answer(layer, GPU)
    return family.name, config


def test_the_winner_is_not_the_default() -> None:
    assert default(LAYER)[0] == WARPGROUP.name
    assert default(LAYER)[1] != won().trial.config


@pytest.mark.parametrize(
    "fields", [{"weight": (384, 248, 3, 3)}, {"input": (256, 248, 13, 13)}, {"workspace": 2**31}], ids=str
)
def test_a_near_one_of_the_same_transforms_answers(fields: dict[str, Any]) -> None:
    match = found(changed(**fields), won())
    assert match.kind is MatchKind.NEAR
    assert (match.program.family, match.program.config) == (WARPGROUP.name, won().trial.config)


def test_on_another_device_the_winner_of_the_same_layer_answers() -> None:
    match = find(LAYER, OTHER_GPU, StoreChain((WinnersInMemory("made up", (won(),)),)))
    assert match.kind is MatchKind.DEVICE
    assert match.program.config == won().trial.config


@pytest.mark.parametrize(
    "fields",
    [
        {"input": (8, 248, 13, 13)},
        {"input": (128, 16, 13, 13), "weight": (256, 16, 3, 3)},
        {"input": (128, 1, 13, 13), "weight": (256, 1, 3, 3)},
    ],
    ids=str,
)
def test_from_farther_off_a_default_answers(fields: dict[str, Any]) -> None:
    """The fastest family may be another one at that distance."""
    far = changed(**fields)
    assert far.is_resized(LAYER)
    assert (far.distance(LAYER) or 0.0) > NEAR_REACH
    match = found(far, won())
    assert match.kind is MatchKind.DEFAULT
    assert (match.program.family, match.program.config) == default(far)


def test_all_families_of_layers_leave_other_kinds_of_layers_to_defaults() -> None:
    assert {family.default_reach for family in CONV2D.families} == {DEFAULT_REACH}


def test_a_default_answers_where_transforms_have_another_size() -> None:
    larger = changed(input=(128, 248, 21, 21))
    assert (larger.distance(LAYER) or 0.0) < NEAR_REACH
    match = found(larger, won())
    assert match.kind is MatchKind.DEFAULT
    assert (match.program.family, match.program.config) == default(larger)
    assert any("none with a config that is legal here" in reason for reason in match.reasons)


def test_a_winner_without_relu_makes_a_better_default_and_one_of_other_taps_does_not() -> None:
    match = found(changed(relu=True), won())
    assert match.kind is MatchKind.DEFAULT
    assert match.program.config == won().trial.config
    wider = changed(weight=(256, 248, 5, 5), padding=2)
    assert found(wider, won()).program.config == default(wider)[1]
