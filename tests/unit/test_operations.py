"""Operations: each has a folder in each layer, and each layer's registry names the same ones."""

from __future__ import annotations

import dataclasses

import pytest

import warpsmith as ws
from warpsmith.cli.bench import BENCHES
from warpsmith.cli.operations.registry import OPERATIONS as WORDS
from warpsmith.generator.operation import Operation
from warpsmith.generator.presets import H200
from warpsmith.generator.registry import FAMILIES, OPERATIONS, family_named, simplest_family
from warpsmith.tuner.operations.registry import JUDGES


def test_every_layer_knows_the_same_operations() -> None:
    assert set(OPERATIONS) == set(JUDGES) == set(WORDS) == set(BENCHES)


def test_every_operation_is_exported_by_the_package() -> None:
    exported = {getattr(ws, name) for name in ws.__all__}
    assert {operation.problem for operation in OPERATIONS.values()} <= exported


def test_families_belong_to_one_operation() -> None:
    listed = [name for operation in OPERATIONS.values() for name in operation.listed]
    assert sorted(listed) == sorted(set(listed))


def test_families_are_listed_by_their_own_names() -> None:
    listed = [name for operation in OPERATIONS.values() for name in operation.listed]
    assert [family.name for family in FAMILIES] == listed
    assert all(family_named(family.name) is family for family in FAMILIES)


def test_families_are_named_after_their_operation() -> None:
    filter2d, fft = OPERATIONS["filter2d"], OPERATIONS["fft"]
    with pytest.raises(ValueError, match="must be named after it: fft_block"):
        dataclasses.replace(filter2d, listed={**filter2d.listed, fft.simplest_name: lambda: fft.simplest})


def test_the_simplest_is_one_of_the_families() -> None:
    filter2d, fft = OPERATIONS["filter2d"], OPERATIONS["fft"]
    with pytest.raises(ValueError, match="simplest family of filter2d is none of its families"):
        Operation(filter2d.problem, filter2d.listed, fft.simplest_name)


def test_the_simplest_of_an_unknown_operation_is_none() -> None:
    assert simplest_family("conv9d") is None


def test_the_simplest_transform_takes_sizes_that_the_warps_do_not() -> None:
    family = OPERATIONS["fft"].simplest
    for size in ((12,), (15,), (6, 10), (256,)):
        assert family.why_not(ws.Fft(size, 4), H200) is None
