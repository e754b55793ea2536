"""Planes of a batch filtered by transforms do not affect each other: both tiles of a pair are from one plane."""

from __future__ import annotations

import numpy as np
import pytest

from joined import plan_of
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.registry import family_named
from warpsmith.tuner.operations.registry import random_operands, reference

DEVICE = DeviceRef(DeviceKind.HOST).device()
PROBLEM = Filter2d((37, 41), (9, 9), planes=3, border="reflect", accuracy="imagewise", nonfinite="any")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["filter2d_fft", "filter2d_overlap_save"])
def test_no_plane_is_felt_by_another(host: Runtime, quickest: HostCompiler, name: str) -> None:
    family = family_named(name)
    assert family is not None
    assert family.why_not(PROBLEM, DEVICE) is None
    plan = plan_of(host, quickest, PROBLEM, family.program(PROBLEM, family.default(PROBLEM, DEVICE)))
    for value in (np.nan, np.inf, 1e38, 1e6, 1e12):
        operands = {each: values.copy() for each, values in random_operands(PROBLEM, 2).items()}
        exact = reference(PROBLEM, operands)
        if np.isfinite(value) and value < 1e30:
            operands["image"][1] *= np.float32(value)
        else:
            operands["image"][1, 30, 35] = value
        found = np.asarray(plan(*operands.values()))
        assert (np.abs(found - exact.expected)[[0, 2]] <= 1e-6 * exact.scale[[0, 2]]).all(), value
        assert not np.allclose(found[1], exact.expected[1])
