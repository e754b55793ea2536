"""Time limits of workers."""

from __future__ import annotations

import dataclasses

import pytest

from warpsmith.tuner.workers.deadlines import Deadlines

DEADLINES = Deadlines(
    compile_s=60, least_compile_s=10, compile_factor=20, first_run_s=120, least_run_s=5, run_factor=30, setup_s=900
)


@pytest.mark.parametrize(
    ("best_s", "allowed_s"),
    [
        (None, 60),  # nothing is known yet
        (0.0, 10),
        (0.04, 10.8),
        (2.0, 50),
        (2.5, 60),
        (40.0, 60),  # never more than for the first
    ],
)
def test_a_compilation_follows_that_of_the_best(best_s: float | None, allowed_s: float) -> None:
    assert DEADLINES.of_compilation(best_s) == pytest.approx(allowed_s)


@pytest.mark.parametrize(("fastest_s", "allowed_s"), [(None, 120), (0.0, 5), (0.1, 8), (10.0, 305)])
def test_a_run_follows_the_fastest(fastest_s: float | None, allowed_s: float) -> None:
    assert DEADLINES.of_run(fastest_s) == pytest.approx(allowed_s)


def test_the_usual_ones_leave_room_for_a_loaded_machine() -> None:
    usual = Deadlines()
    for best_s in (None, 0.0, 1e-6, 0.1, 1.0, 100.0):
        assert 10 <= usual.of_compilation(best_s) <= usual.compile_s
        assert usual.of_run(best_s) >= 10
    assert all(each > 0 for each in dataclasses.astuple(usual))
