"""Time limits: what counts, and when the last part begins."""

from __future__ import annotations

from warpsmith.tuner.run.search_loop import TimeLimit


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_counts_from_when_the_device_is_ready() -> None:
    clock = Clock()
    limit = TimeLimit(10.0, clock)
    assert (limit.ends, limit.is_late(0.3)) == (None, False)
    clock.now += 60.0  # a large problem's reference
    assert (limit.ends, limit.is_late(0.3)) == (None, False)
    limit.begin()
    assert limit.ends == 170.0
    clock.now = 166.9
    assert not limit.is_late(0.3)
    clock.now = 167.0
    assert limit.is_late(0.3)


def test_without_a_limit_there_is_no_end() -> None:
    limit = TimeLimit(None)
    limit.begin()
    assert (limit.ends, limit.is_late(1.0)) == (None, False)
