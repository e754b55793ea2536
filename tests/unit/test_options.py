"""Options of a tuning run."""

from __future__ import annotations

import math

import pytest

from warpsmith.errors import BadArgument
from warpsmith.tuner.options import LARGEST_SEED, Effort, TuneOptions


def test_more_effort_is_more_trials() -> None:
    trials = [effort.trials for effort in (Effort.QUICK, Effort.NORMAL, Effort.FULL)]
    assert trials == sorted(set(trials))
    assert Effort.NORMAL.trials == TuneOptions().trials


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"trials": 0}, "trials must be 1 or more; got 0"),
        ({"time_limit_s": 0.0}, "a time limit must be above 0 seconds; got 0.0"),
        ({"time_limit_s": math.nan}, "a time limit must be above 0 seconds; got nan"),
        ({"seed": -1}, "a seed must be 0 to"),
        ({"seed": LARGEST_SEED + 1}, "a seed must be 0 to"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, float], told: str) -> None:
    with pytest.raises(BadArgument, match=told):
        TuneOptions(**options)  # type: ignore[arg-type]


def test_the_widest_are_taken() -> None:
    assert TuneOptions(trials=1, time_limit_s=1e-9, seed=LARGEST_SEED).seed == LARGEST_SEED
