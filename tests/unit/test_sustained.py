"""Times after many seconds, on a simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import create_autospec

import pytest

from warpsmith.cli.app import run
from warpsmith.devices.runtime import Runtime
from warpsmith.tuner.evaluate.timing import MOST_RUNS, Sustained, measure_sustained
from warpsmith.tuner.evaluate.timing_policy import Rotation

pytestmark = pytest.mark.usefixtures("compile_unoptimised")


class HotDevice:
    """A run takes 1 ms; after 4 s, when the clocks fall, 1.5 ms."""

    def __init__(self, run_ns: float = 1e6) -> None:
        self.now_ns, self._run_ns = 0.0, run_ns
        self.indices: list[int] = []
        self.runtime = create_autospec(Runtime, instance=True)
        self.runtime.queues_work = True
        self.runtime.elapsed_ns.side_effect = self._elapsed_ns
        self.runtime.clock_mhz.side_effect = lambda: 1500 if self.is_hot else 1980
        self.runtime.throttled.side_effect = lambda: self.is_hot

    @property
    def is_hot(self) -> bool:
        return self.now_ns > 4e9

    def _elapsed_ns(self, work: Callable[[], None]) -> float:
        start_ns = self.now_ns
        work()
        return self.now_ns - start_ns

    def run(self, index: int, /, stream: int | None = None) -> None:
        assert stream is None
        self.indices.append(index)
        self.now_ns += self._run_ns * (1.5 if self.is_hot else 1.0)

    def measure(self, seconds: float, rotation: Rotation) -> Sustained:
        return measure_sustained(self.runtime, self.run, rotation, seconds, lambda: self.now_ns / 1e9)


def test_tells_of_the_last_part_with_its_clocks_and_of_the_first() -> None:
    found = HotDevice().measure(10, Rotation(1, cold=True))
    assert 10 <= found.seconds < 10.1
    assert (found.median_ns, found.first_ns) == (pytest.approx(1.5e6), pytest.approx(1e6))
    assert found.clock_mhz == (1500, 1500)
    assert found.throttled
    assert found.policy == "median, 20 runs a sample, queued first, sustained, cold L2"
    assert found.samples == pytest.approx(5.0 / 0.03, abs=2)


def test_of_a_cool_device_both_parts_are_alike() -> None:
    found = HotDevice().measure(3, Rotation(1, cold=False))
    assert found.median_ns == found.first_ns == pytest.approx(1e6)
    assert (found.clock_mhz, found.throttled) == ((1980, 1980), False)
    assert found.policy.endswith(", sustained, warm caches")


def test_rotates_through_the_sets_and_queues_only_so_many_launches() -> None:
    device = HotDevice(run_ns=1000.0)
    found = device.measure(0.01, Rotation(3, cold=True))
    assert found.policy.startswith(f"median, {MOST_RUNS} runs a sample")
    assert device.indices == [turn % 3 for turn in range(len(device.indices))]


def test_one_sample_longer_than_the_time_is_enough() -> None:
    found = HotDevice(run_ns=2e9).measure(0.5, Rotation(1, cold=True))
    assert (found.samples, found.median_ns, found.first_ns) == (1, 2e9, 2e9)


def test_without_a_clock_to_read() -> None:
    device = HotDevice()
    device.runtime.clock_mhz.side_effect = lambda: None
    assert device.measure(1, Rotation(1, cold=True)).clock_mhz is None


def test_bench_runs_the_winner_for_so_long(
    document: Callable[..., dict[str, list[dict[str, dict[str, float]]]]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("bench", "fft", "--size", "8", "--batch", "16", "--device", "host", "--sustained", "0.3s")
    (row,) = document(*asked)["rows"]
    assert row["sustained"]["seconds"] >= 0.3
    assert row["sustained"]["median_ns"] > 0
    assert run([*asked]) == 0
    printed = capsys.readouterr().out
    assert "sustained: the median over the last half of 0." in printed
    assert "| sustained |" in printed
    assert run([*asked[:-1], "soon"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "'soon'" in line


def test_bench_without_it_tells_of_none(document: Callable[..., dict[str, list[dict[str, object]]]]) -> None:
    (row,) = document("bench", "fft", "--size", "8", "--batch", "16", "--device", "host")["rows"]
    assert row["sustained"] is None
