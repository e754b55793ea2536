"""Runs a share of each loop's cases, from a fixed seed; `run.py` describes the loops."""

from __future__ import annotations

import pytest

import run
from warpsmith.devices.cuda.compiler import nvrtc_name
from warpsmith.errors import CompileError

CASES = {"legality": 20_000, "compile": 24, "host": 100, "batches": 24, "arguments": 400}
"""Cases of each loop in CI; all other loops run by hand."""
SHARES = 4
"""Tests into which a loop is split, for the workers of pytest."""


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("name", CASES)
def test_no_case_fails(name: str, share: int) -> None:
    if name == "compile":
        skip_without_nvrtc()
    found, count = run.failures(name, run.loop(name).cases(seed=share, count=CASES[name] // SHARES))
    assert count == CASES[name] // SHARES
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
