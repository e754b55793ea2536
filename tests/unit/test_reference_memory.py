"""Memory of host references: they stay within their limit, here scaled down."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest

import exhaustive
from warpsmith.errors import OutOfMemory
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Problem
from warpsmith.tuner.operations import strips
from warpsmith.tuner.operations.conv2d import fourier_oracle
from warpsmith.tuner.operations.filter2d import oracle as filter_oracle
from warpsmith.tuner.operations.registry import judge_of, random_operands, references

LIMIT = 64 << 20
"""Bytes, a sixty-fourth of the real limit of 4 GiB."""
THREADS = 8


def of_pass(layer: Conv2d, pass_: Pass) -> Conv2d:
    """A layer's pass; of wgrad with few filters, since what is summed over takes the memory, and filters the time."""
    if pass_ is not Pass.WGRAD or layer.groups > 1:
        return dataclasses.replace(layer, pass_=pass_)
    return dataclasses.replace(layer, pass_=pass_, weight=(8, *layer.weight[1:]))


LAYERS = [
    of_pass(layer, pass_)
    for layer in (
        Conv2d((1, 48, 128, 160), (32, 48, 3, 3), padding=1),
        Conv2d((2, 64, 90, 90), (24, 64, 3, 3), padding=1, padding_mode="reflect", dtype="float16", precision="f16"),
        Conv2d((1, 64, 120, 120), (64, 1, 3, 3), groups=64, padding=1, stride=2, accuracy="elementwise"),
    )
    for pass_ in Pass
]
OTHERS: list[Problem] = [
    Filter2d((1400, 1300), (3, 3), border="reflect"),
    Filter2d((1400, 1300), (3, 3), border="constant", cval=1.5, dtype="uint8"),
    Filter1d(1_800_000, 129),
    Filter1d(900_000, 33, dtype="complex64", taps_dtype="complex64", mode="same"),
    Filter1d(20_000, 700, 2, channels=40, filters=40, layout="btc", mode="causal", dtype="float16"),
    Filter1d(1_000_000, 40, 8, down=500, mode="causal"),
    Cgemm(1, 700, 600, 2000),
    Cgemm(1, 300, 3000, 900, "t", "c", "normwise"),
    Fft((64, 64), batch=500),
    Fft((64, 64), batch=400, kind="c2r", layout="frequency"),
]


@pytest.fixture(autouse=True)
def scaled_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "MOST_BYTES", LIMIT)
    monkeypatch.setattr(strips, "cores", lambda: THREADS)


def peak_of(problem: Problem) -> tuple[int, Any]:
    operands = random_operands(problem, 0)
    tracemalloc.start()
    try:
        found = references(problem, operands)
        return tracemalloc.get_traced_memory()[1], found[problem.output.name]
    finally:
        tracemalloc.stop()


def is_right(problem: Problem, found: Any) -> None:
    if judge_of(problem).kernels(problem) is None:
        return
    indices = np.linspace(0, problem.output.components.size - 1, 20).astype(np.int64)
    samples = judge_of(problem).samples(problem, random_operands(problem, 0), indices)
    scale = found.scale.reshape(-1)[indices]
    assert (np.abs(found.expected.reshape(-1)[indices] - samples.expected) <= 1e-13 * scale).all()
    assert (scale >= samples.least_scale * (1 - 1e-12)).all()


@exhaustive.one_in(2)
@pytest.mark.parametrize("problem", [*LAYERS, *OTHERS], ids=lambda problem: problem.key())
def test_a_reference_takes_no_more(problem: Problem) -> None:
    peak, found = peak_of(problem)
    assert peak <= LIMIT, f"{peak / 2**20:.0f} MiB"
    is_right(problem, found)


@exhaustive.one_in(2, first=1)
@pytest.mark.parametrize("layer", LAYERS[:6], ids=lambda problem: problem.key())
def test_nor_by_transforms(layer: Conv2d, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fourier_oracle, "_LARGE", 0)
    assert fourier_oracle.is_by_transforms(layer)
    peak, found = peak_of(layer)
    assert peak <= LIMIT, f"{peak / 2**20:.0f} MiB"
    is_right(layer, found)


def test_nor_do_filters_by_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Filter2d((1400, 1300), (33, 65), border="mirror", accuracy="imagewise")
    monkeypatch.setattr(filter_oracle, "_LARGE", 0)
    assert filter_oracle.is_by_transforms(problem)
    peak, _ = peak_of(problem)
    assert peak <= LIMIT, f"{peak / 2**20:.0f} MiB"


@pytest.mark.parametrize(
    "problem",
    [
        Conv2d((1, 3, 2100, 2100), (1, 3, 3, 3)),
        Filter2d((2100, 2100), (3, 3)),
        Filter1d(4_200_000, 3, mode="same"),
        Cgemm(1, 1500, 1500, 2),
        Fft((64, 64), batch=2100),
    ],
    ids=lambda problem: problem.key(),
)
def test_one_that_cannot_be_held_is_refused_at_once(problem: Problem) -> None:
    operands = random_operands(problem, 0)
    tracemalloc.start()
    try:
        with pytest.raises(OutOfMemory, match=r"the float64 reference of [\d,]+ numbers takes .* GiB .* split the"):
            references(problem, operands)
        assert tracemalloc.get_traced_memory()[1] < LIMIT // 4
    finally:
        tracemalloc.stop()
