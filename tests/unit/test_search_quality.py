"""The search on recorded spaces: near the best after a tenth of each space, in half of the runs.

`benchmarks/search_quality.py` says more, with more seeds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import exhaustive
from warpsmith.tuner.spaces.recording import Recording
from warpsmith.tuner.spaces.replay import GOAL_SHARE, replay_report

FOLDER = Path(__file__).parents[2] / "benchmarks/replay"
RECORDINGS = sorted(FOLDER.glob("*.jsonl.gz"))
SEEDS = 5
"""Half a second each: a median that one lucky or unlucky seed cannot move."""


def test_there_are_recordings() -> None:
    assert RECORDINGS, f"{FOLDER} holds no recording, so that nothing says how good the search is"


@exhaustive.one_in(2)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_half_the_searches_come_near_the_best_within_a_tenth_of_the_space(path: Path) -> None:
    recording = Recording.read(path)
    report = replay_report(recording, SEEDS, int(GOAL_SHARE * len(recording.outcomes)))
    assert report.meets_goal, f"{report.search} of {report.size} configs; at random {report.by_luck}"


@exhaustive.one_in(2, first=1)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
def test_so_they_do_where_the_default_is_no_good(path: Path) -> None:
    recording = Recording.read(path).from_the_middle()
    assert recording.times_ns[recording.default] > 1.3 * recording.best_ns
    report = replay_report(recording, SEEDS, int(GOAL_SHARE * len(recording.outcomes)))
    assert report.meets_goal, f"{report.search} of {report.size} configs; at random {report.by_luck}"
