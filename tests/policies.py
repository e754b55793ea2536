"""Timing policies of tests."""

from __future__ import annotations

from warpsmith.tuner.evaluate.timing_policy import TimingPolicy

ONE_RUN = TimingPolicy(1, 1, 0.0, 1.0, 1.0, 1.0, 1, cold=False)
"""Where faults are looked for and not times: three timed runs, of which two are warm-up."""
