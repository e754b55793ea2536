"""Repeated calls of `warpsmith.plan` return the same plan until there is a better one."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import forking
import warpsmith as ws
from warpsmith.plans.make import LOOK_EVERY_S
from warpsmith.plans.match import MatchKind

PROBLEM = ws.Filter2d(image=(16, 24), filter=(3, 3))
TUNE = """
import sys, warpsmith as ws
ws.tune(ws.Filter2d(image=(16, 24), filter=(3, 3)), "host", trials=1, store=sys.argv[1])
"""


def check(plan: ws.Plan) -> None:
    image = np.arange(16 * 24, dtype=np.float32).reshape(16, 24)
    weights = np.zeros((3, 3), np.float32)
    weights[1, 1] = 2
    np.testing.assert_array_equal(plan(image, weights), 2 * image[1:-1, 1:-1])


def test_tuning_in_this_process_renews_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPSMITH_STORE", str(tmp_path / "other.db"))
    ws.tune(ws.Filter2d(image=(5, 5), filter=(2, 2)), "host", trials=1)
    first = ws.plan(PROBLEM, "host")
    assert ws.plan(ws.Filter2d(image=(16, 24), filter=(3, 3)), "host") is first
    assert first.match.kind is not MatchKind.EXACT
    ws.tune(PROBLEM, "host", trials=1)
    second = ws.plan(PROBLEM, "host")
    assert second is not first
    assert second.match.kind is MatchKind.EXACT
    assert ws.plan(PROBLEM, "host") is second
    check(first)
    check(second)


def test_tuning_in_another_process_renews_it(tmp_path: Path) -> None:
    store = str(tmp_path / "a.db")
    ws.tune(ws.Filter2d(image=(5, 5), filter=(2, 2)), "host", trials=1, store=store)
    first = ws.plan(PROBLEM, "host", store=store)
    forking.run([sys.executable, "-c", TUNE, store], check=True)
    time.sleep(2 * LOOK_EVERY_S)
    assert ws.plan(PROBLEM, "host", store=store).match.kind is MatchKind.EXACT
    check(first)


def test_a_store_that_changed_otherwise_leaves_the_plan_as_it_is(tmp_path: Path) -> None:
    store = str(tmp_path / "a.db")
    ws.tune(PROBLEM, "host", trials=1, store=store)
    plan = ws.plan(PROBLEM, "host", store=store)
    ws.tune(ws.Filter2d(image=(5, 5), filter=(2, 2)), "host", trials=1, store=store)
    assert ws.plan(PROBLEM, "host", store=store) is plan


def test_a_forked_child_makes_its_own() -> None:
    plan = ws.plan(PROBLEM, "host")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            made = ws.plan(PROBLEM, "host")
            check(made)
            check(plan)
            status = 0 if made is not plan else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ws.plan(PROBLEM, "host") is plan
