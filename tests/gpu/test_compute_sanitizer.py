"""Every family under compute-sanitizer: reads and writes outside allocations, and races for shared memory."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from warpsmith.devices.cuda.runtime import cuda_device
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import DType, NonFinite
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(900)]

WIDE = (
    Filter2d(image=(26, 1117), filter=(3, 5), border=Border.REFLECT, convolve=True, nonfinite=NonFinite.ANY),
    Filter2d(image=(40, 560), filter=(15, 15), planes=2, nonfinite=NonFinite.ANY),
    Filter2d(image=(60, 1101), filter=(31, 31)),
    Filter2d(image=(20, 608), filter=(2, 3), channels=3, dtype=DType.UINT8, border=Border.WRAP),
    Filter2d(image=(27, 133), filter=(3, 5), planes=3, border=Border.MIRROR),
    Filter2d(image=(19, 140), filter=(4, 3), planes=2, border=Border.CONSTANT, cval=1.5),
    Filter2d(image=(19, 140), filter=(4, 3), planes=2, border=Border.CONSTANT),
)
"""Images at least as wide as a warpgroup, whose matrix products make 512 outputs, or as a warp, which makes 128."""


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_every_family_under_compute_sanitizer(
    spread: tuple[Filter2d, ...], check_under_sanitizer: Callable[..., None], tool: str
) -> None:
    device = cuda_device(0)
    cases: list[tuple[Filter2d, Program]] = []
    for problem in (*spread, *WIDE):
        rng = random.Random(problem.key())
        for family in families_for(problem, device):
            config = family.space(problem, device).drawn(rng) or family.default(problem, device)
            cases.append((problem, family.program(problem, config)))
    check_under_sanitizer(tool, device, cases)
