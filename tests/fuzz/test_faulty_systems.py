"""A share of the loops over damaged files and failing system calls, from a fixed seed."""

from __future__ import annotations

import pytest

import exhaustive
import run

CASES = {"damage": 30, "syscalls": 7}
"""Cases in CI, each command once. By hand: `python tests/fuzz/run.py syscalls --cases 3000`."""
EXHAUSTIVE = {"damage": 140, "syscalls": 14}
"""Cases where the run is exhaustive."""


@pytest.mark.parametrize("name", CASES)
def test_no_case_fails(name: str) -> None:
    wanted = (EXHAUSTIVE if exhaustive.requested() else CASES)[name]
    found, count = run.failures(name, run.loop(name).cases(seed=1, count=wanted))
    assert count == wanted
    assert [f"{case}: {wrong}" for case, wrong in found] == []


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_made_again_from_its_text(name: str) -> None:
    module = run.loop(name)
    for case in module.cases(seed=3, count=30):
        assert module.parse(str(case)) == case
