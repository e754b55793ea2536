"""The benchmark of filters by size of the image, on the host, where its times mean little."""

from __future__ import annotations

import dataclasses
import json

import pytest

import exhaustive
from scripts import benchmark
from warpsmith.store.record import Timing
from warpsmith.tuner.evaluate.timing_policy import Launching

saturation = benchmark("filter_saturation")


def test_shares_are_of_the_largest_image_of_the_same_filter_and_l2() -> None:
    time = Timing(2000.0, 1900.0, 2100.0, 60, "median, 9 runs a sample, CUDA graph, in turns, warm caches")
    copy = dataclasses.replace(time, median_ns=1000.0)
    row = saturation.Row("3x3", "64x64", 4096, False, "exact, filter2d_window", time, copy)
    large = dataclasses.replace(row, image="128x128", pixels=4 * 4096)
    cold = dataclasses.replace(row, cold=True)
    cells = list(saturation.table([row, large, cold]))
    assert [each[2] for each in cells] == ["warm", "warm", "cold"]
    assert [each[4:] for each in cells] == [
        ("2.00", "2.048", "25.0", "1.00", "50.0"),
        ("2.00", "8.192", "100.0", "1.00", "50.0"),
        ("2.00", "2.048", "100.0", "1.00", "50.0"),
    ]


def test_a_gpu_is_timed_in_graphs_with_warm_and_cold_l2() -> None:
    made = saturation.policies(saturation.DeviceKind.CUDA)
    assert [(each.cold, each.launching) for each in made] == [(False, Launching.GRAPH), (True, Launching.GRAPH)]


@exhaustive.EXHAUSTIVE
def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    saturation.main(["--device", "host", "--image", "64x48", "--filter", "3x3", "--json"])
    (line,) = capsys.readouterr().out.splitlines()
    row = json.loads(line)
    assert (row["image"], row["pixels"], row["cold"]) == ("64x48", 64 * 48, False)
    assert row["pixels_per_ns"] == pytest.approx(row["pixels"] / row["ours"]["median_ns"])
    saturation.main(["--device", "host", "--image", "64x48", "--filter", "3x3"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("| 3x3 | 64x48 | warm | ")
