"""Independent signals do not affect each other, whatever one of them contains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from joined import plans_of
from warpsmith.devices.host.compiler import HostCompiler
from warpsmith.devices.runtime import Runtime
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.fft import Fft, Layout
from warpsmith.generator.fft.block.block_family import FftBlock
from warpsmith.generator.fft.text import Packing
from warpsmith.generator.presets import H200
from warpsmith.generator.registry import FAMILIES
from warpsmith.plans.plan import Plan
from warpsmith.tuner.operations.registry import random_operands, reference, stress_operands

DEVICE = DeviceRef(DeviceKind.HOST).device()
BLOCK = FftBlock()
BOUND = 1e-6
FIELDS: tuple[dict[str, Any], ...] = (
    {"size": 16, "batch": 6, "together": 1},
    {"size": 16, "batch": 6, "together": 2},
    {"size": 15, "batch": 6, "together": 3},
    {"size": (8, 6), "batch": 9, "together": 3, "layout": "frequency"},
    {"size": (6, 9), "batch": 6, "together": 1, "layout": "frequency"},
    {"size": (8, 8), "batch": 6, "together": 1, "layout": "transposed"},
)
STARTING: dict[str, Any] = {"size": (8, 6), "batch": 6, "together": 1, "start": (7, 5), "valid": (5, 4)}
TILED: dict[str, Any] = {
    "size": (8, 10),
    "batch": 18,
    "together": 9,
    "valid": (6, 5),
    "layout": "frequency",
    "tiling": {"count": (3, 1), "step": (6, 5), "origin": (0, 0), "plane": (17, 5), "inner": 3},
}
PROBLEMS = [Fft(**fields, kind=kind) for fields in (*FIELDS, STARTING, TILED) for kind in ("r2c", "c2r")]
CASES = [
    (each, problem)
    for problem in PROBLEMS
    for each in FAMILIES
    if each.name in ("fft_block", "fft_warp") and each.why_not(problem, DEVICE) is None
]


def by_group(problem: Fft, values: NDArray[Any], *, is_spectrum: bool) -> NDArray[Any]:
    """View whose first dimension counts groups of signals that are transformed together."""
    if is_spectrum and problem.layout is Layout.FREQUENCY:
        values = np.moveaxis(values, len(problem.size), 0)
    assert problem.together is not None
    groups = problem.batch // problem.together
    return np.asarray([values[g * len(values) // groups : (g + 1) * len(values) // groups] for g in range(groups)])


def spoilt(problem: Fft, source: NDArray[Any], group: int, value: float) -> NDArray[Any]:
    """Copy of `source` in which one group contains `value`, or is multiplied by it."""
    source = source.copy()
    signals = np.moveaxis(source, len(problem.size), 0) if problem.inverse and problem.layout == "frequency" else source
    assert problem.together is not None
    length = len(signals) * problem.together // problem.batch
    own = signals[group * length : (group + 1) * length]
    if np.isfinite(value) and value < 1e30:
        own *= np.float32(value)
    else:
        own[(length - 1, *(1,) * len(problem.size))] = value
    return source


def test_no_group_is_felt_by_another(host: Runtime, quickest: HostCompiler) -> None:
    cases = [(problem, family.program(problem, family.default(problem, DEVICE))) for family, problem in CASES]
    for plan in plans_of(host, quickest, cases):
        problem = plan.problem
        assert isinstance(problem, Fft)
        check_groups(problem, plan)


def check_groups(problem: Fft, plan: Plan) -> None:
    (name,) = (each.name for each in problem.inputs)
    source = random_operands(problem, 1)[name]
    for group, value in ((0, np.nan), (1, np.inf), (0, 1e38), (1, 1e6), (0, 1e12), (1, 1e-12)):
        given = spoilt(problem, source, group, value)
        found = np.asarray(plan(given))
        exact = reference(problem, {name: given})
        parts = found if problem.inverse else found[..., None].view(np.float32)
        for other, (got, expected, scale) in enumerate(
            zip(
                *(
                    by_group(problem, each, is_spectrum=not problem.inverse)
                    for each in (parts, exact.expected, exact.scale)
                ),
                strict=True,
            )
        ):
            if other != group or (np.isfinite(value) and value < 1e30):
                assert np.max(np.abs(got - expected) / scale) <= BOUND, (problem.key(), group, value, other)


def test_signals_of_every_kind_are_among_them() -> None:
    packed = {str(each.default(problem, DEVICE).values()["packing"]) for each, problem in CASES}
    assert packed == {Packing.ALONE, Packing.HALF, Packing.PAIR}
    assert {each.name for each, _ in CASES} == {"fft_block", "fft_warp"}


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_no_config_pairs_signals_of_two_groups(problem: Fft) -> None:
    for family in FAMILIES:
        if family.name in ("fft_block", "fft_warp") and family.why_not(problem, H200) is None:
            (packing,) = (each for each in family.space(problem, H200).parameters if each.name == "packing")
            assert (Packing.PAIR in packing.values) is problem.may_pair


def test_what_belongs_together_changes_no_text_but_what_may_be_paired() -> None:
    free, apart = Fft((16, 16), 12), Fft((16, 16), 12, together=3)
    config = BLOCK.default(apart, H200)
    assert config.text("packing") == Packing.HALF
    assert BLOCK.program(free, config).fingerprint == BLOCK.program(apart, config).fingerprint
    assert free.key() == "fft size=16x16 batch=12 kind=r2c"
    assert apart.key() == "fft size=16x16 batch=12 kind=r2c together=3"
    assert Fft((16, 16), 12, together=12) == free
    assert free.distance(apart) == apart.distance(free) != 0
    assert not free.is_resized(apart)
    assert apart.is_resized(Fft((16, 16), 40, together=5))


@pytest.mark.parametrize(("together", "says"), [(0, "together must be 1 or more"), (5, "no whole number of groups")])
def test_groups_make_the_batch(together: int, says: str) -> None:
    with pytest.raises(BadArgument, match=says):
        Fft(16, 12, together=together)


def test_tiles_of_a_plane_belong_together() -> None:
    with pytest.raises(BadArgument, match="in multiples of 9; got together=6"):
        Fft(**{**TILED, "together": 6})


def test_stress_sets_groups_apart() -> None:
    problem = Fft(16, 12, together=3)
    (signals,) = stress_operands(problem, 0).values()
    groups = signals.reshape(4, -1)
    assert np.count_nonzero(~np.isfinite(groups).all(axis=1)) == 1
    energies = np.sqrt(np.nanmean(groups.astype(np.float64) ** 2, axis=1))
    assert np.count_nonzero(energies > 1e5) == 1
