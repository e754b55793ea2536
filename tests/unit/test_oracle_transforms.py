"""The float64 oracle of large filters, which uses transforms, against the oracle that sums over taps."""

from __future__ import annotations

import numpy as np
import pytest

from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.filter2d import oracle
from warpsmith.tuner.operations.registry import random_operands, reference

PROBLEMS = (
    Filter2d((700, 61), (9, 7), accuracy="imagewise"),
    Filter2d((90, 95), (70, 64), accuracy="imagewise", convolve=True, border=Border.CONSTANT, cval=2.5),
    Filter2d((300, 40), (6, 9), accuracy="imagewise", border=Border.REFLECT, anchor=(5, 0), filters=2, planes=2),
    Filter2d((40, 33), (8, 5), accuracy="imagewise", border=Border.WRAP, channels=3, dtype=DType.UINT8),
    Filter2d((1, 60), (4, 31), accuracy="imagewise", border=Border.MIRROR, convolve=True),
    Filter2d((31, 33), (31, 33), accuracy="imagewise"),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_agrees_with_sums_over_taps(problem: Filter2d, monkeypatch: pytest.MonkeyPatch) -> None:
    operands = random_operands(problem, 3)
    assert not oracle.is_by_transforms(problem)
    sums = reference(problem, operands)
    monkeypatch.setattr(oracle, "_LARGE", 0)
    assert oracle.is_by_transforms(problem)
    found = reference(problem, operands)
    assert (np.abs(found.expected - sums.expected) <= 1e-14 * sums.scale).all()
    np.testing.assert_allclose(found.scale, sums.scale, rtol=1e-13)
    assert (found.expected != sums.expected).any()  # it was another way


def test_is_for_large_problems_whose_bound_is_told_in_the_whole_image() -> None:
    large = Filter2d((9216, 9216), (65, 65), accuracy="imagewise")
    assert oracle.is_by_transforms(large)
    assert not oracle.is_by_transforms(Filter2d((9216, 9216), (65, 65), accuracy="normwise"))
    assert not oracle.is_by_transforms(Filter2d((512, 512), (31, 31), accuracy="imagewise"))
