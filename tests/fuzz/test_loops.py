"""A share of each loop's cases, from a fixed seed; README of the folder: `run.py`."""

from __future__ import annotations

import pytest

import exhaustive
import run
from warpsmith.devices.cuda.compiler import nvrtc_name
from warpsmith.errors import CompileError

CASES = {"legality": 3_000, "compile": 4, "host": 24, "batches": 8, "arguments": 80}
"""Cases of each loop in CI; a loop that is not named here is run by hand."""
EXHAUSTIVE = {"legality": 20_000, "compile": 24, "host": 100, "batches": 24, "arguments": 400}
"""Cases of each loop where the run is exhaustive."""
SHARES = 4
"""Tests a loop is cut into, for the workers of pytest."""


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("name", CASES)
def test_no_case_fails(name: str, share: int) -> None:
    if name == "compile":
        skip_without_nvrtc()
    wanted = (EXHAUSTIVE if exhaustive.requested() else CASES)[name] // SHARES
    found, count = run.failures(name, run.loop(name).cases(seed=share, count=wanted))
    assert count == wanted
    assert [f"{case}: {wrong}" for case, wrong in found] == []


def skip_without_nvrtc() -> None:
    try:
        nvrtc_name()
    except CompileError as missing:
        pytest.skip(str(missing))


def test_nothing_is_in_the_ledger() -> None:
    assert run.ledger() == frozenset()


def test_a_loop_that_fails_tells_which_case(monkeypatch: pytest.MonkeyPatch) -> None:
    module = run.loop("legality")
    monkeypatch.setattr(module, "check", lambda _: "illegal")
    (case,) = module.cases(seed=7, count=1)
    assert run.failures("legality", [case]) == ([(str(case), "illegal")], 1)
    assert str(module.parse(str(case))) == str(case)
