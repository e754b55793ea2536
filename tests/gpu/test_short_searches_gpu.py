"""Short searches on a GPU: known winners compete, and no slower candidate replaces them."""

from __future__ import annotations

from pathlib import Path

import pytest

import warpsmith as ws
from warpsmith.generator.problem import Problem

pytestmark = pytest.mark.gpu

PROBLEMS: list[Problem] = [
    # The reference of the first takes as long as the limit; its winner on an H200 ships with the package.
    ws.Filter2d(image=(9216, 9216), filter=(15, 15)),
    ws.Filter2d(image=(2000, 3000), filter=(11, 11), border="reflect"),
    ws.Fft(size=(250,), batch=70_001),
]


@pytest.mark.parametrize("limit_s", [0.1, 5.0])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.key())
def test_the_winner_is_never_slower_than_the_answer_before(problem: Problem, limit_s: float, tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    answer = ws.query(problem)
    report = ws.tune(problem, trials=60, time_limit=limit_s, store=store)
    assert report.record is not None
    assert report.before is not None
    before, winner = report.before, report.record.trial
    assert (before.family, before.config) == (answer.program.family, answer.program.config)
    assert winner.median_ns is not None
    assert before.median_ns is not None
    assert winner.median_ns <= before.median_ns
    found = ws.query(problem, store=store)
    assert (found.kind, found.record) == ("exact", report.record)


def test_a_second_search_keeps_what_the_first_found(tmp_path: Path) -> None:
    problem, store = ws.Filter2d(image=(1000, 1200), filter=(5, 5)), str(tmp_path / "store.db")
    ws.tune(problem, trials=100, store=store)
    for seed in (1, 2):
        report = ws.tune(problem, trials=110, time_limit=0.1, seed=seed, store=store)
        assert report.record is not None
        assert report.before is not None
        assert (report.record.trial.median_ns or 0.0) <= (report.before.median_ns or 0.0)
