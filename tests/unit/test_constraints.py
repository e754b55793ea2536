"""Rules of every family: a search calls each rule with values that other rules may refuse."""

from __future__ import annotations

import functools
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import exhaustive
from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.family import Family
from warpsmith.generator.fft.problem import Fft, Layout
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.gate import Gate
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import FAMILIES

CHOICES = 100
"""Combinations of values drawn for each family and problem, legal or not."""
MODELLED = 12
"""Problems of the table for each family."""
LAYERS = (
    ((32, 96, 56, 56), (96, 1, 7, 7), {"padding": 3, "groups": 96}),
    ((32, 384, 28, 28), (96, 384, 1, 1), {}),
    ((8, 64, 14, 14), (128, 64, 3, 3), {"padding": 1}),
    ((8, 3, 64, 64), (64, 3, 7, 7), {"padding": 3, "stride": 2}),
    ((8, 64, 14, 14), (128, 64, 3, 3), {"layout": "nhwc", "dtype": "float16", "precision": "f16"}),
)
PROBLEMS: tuple[Problem, ...] = (
    *(Conv2d(x, w, pass_=pass_, **options) for x, w, options in LAYERS for pass_ in Pass),  # type: ignore[arg-type]
    Filter2d(image=(512, 512), filter=(5, 5)),
    Filter2d(image=(512, 512), filter=(15, 15), accuracy="imagewise", nonfinite="any"),
    Filter1d(2**20, 17),
    Filter1d(2**16, 65, batch=4, dtype="complex64", taps_dtype="complex64", down=8),  # type: ignore[arg-type]
    Filter1d(8192, 4, 8, "causal", 64, 64, "btc", "bfloat16"),  # type: ignore[arg-type]
    Filter1d(999, 5, weights=(1, 2, 3, 2, 1), dtype="int16", lags=(-2, 400)),  # type: ignore[arg-type]
    Fft((256,), batch=100),
    Fft((32, 32), batch=4096, valid=(27, 27), layout=Layout.FREQUENCY),
    Cgemm(112, 128, 384, 192, accuracy="normwise"),  # type: ignore[arg-type]
)


@functools.cache
def rows() -> tuple[dict[str, Any], ...]:
    """Problems of `reference_models.jsonl.gz`, with what their families say: every family solves one of them."""
    with gzip.open(Path(__file__).parent / "reference_models.jsonl.gz", "rt") as file:
        return tuple(map(json.loads, file))


def solved_by(family: Family) -> Iterator[Problem]:
    """The problems above that a family solves, and some of the table's."""
    yield from (each for each in PROBLEMS if Gate(each, H200).why_unable(family) is None)
    modelled = [row["problem"] for row in rows() if family.name in row["families"]]
    yield from (Problem.from_spec(*each) for each in modelled[:: 1 + len(modelled) // MODELLED])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_rule_answers_for_any_values(family: Family) -> None:
    """`Space.allows` calls the rules in any order; a search once ended with a KeyError for six warpgroups."""
    problems = list(solved_by(family))
    assert problems
    for problem in problems:
        space, rng = family.space(problem, H200), random.Random(problem.key())
        for _ in exhaustive.share(range(CHOICES), 0, 3):
            values = {each.name: rng.choice(each.values) for each in space.shown().parameters}
            for rule in space.shown().rules:
                assert rule.accepts(values) in (True, False), (problem.key(), rule.why)
