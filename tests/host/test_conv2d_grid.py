"""benchmarks/conv2d_grid.py on the host: points are verified and timed beside PyTorch, and a run goes on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts import benchmark
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.direct import Conv2dDirect
from warpsmith.generator.device import Device

pytest.importorskip("torch")
script, turns = benchmark("conv2d_grid"), benchmark("conv2d_bench.turns")

SMALL = {"input": [2, 4, 9, 9], "weight": [4, 4, 3, 3], "pass_": "dgrad"}
UNLUCKY = {"input": [1, 1, 5, 5], "weight": [1, 1, 3, 3]}
SAMPLED = {"input": [4, 64, 34, 34], "weight": [64, 64, 3, 3]}
"""More terms than are verified whole."""


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the script with some problems; the rows that are there then."""

    def one_config(problem: Conv2d, device: Device, *_: Any) -> Iterator[Any]:
        if problem.input[0] == 1:
            raise ValueError("no luck today")
        yield Conv2dDirect(), Conv2dDirect().default(problem, device)

    def run(*problems: dict[str, Any], options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        (tmp_path / "mine.json").write_text(json.dumps(problems))
        results = tmp_path / "results.jsonl"
        words = ["measure", str(results), str(tmp_path / "mine.json"), "--device", "host", *options]
        monkeypatch.setattr(sys, "argv", ["conv2d_grid.py", *words])
        script.main()
        return [json.loads(line) for line in results.read_text().splitlines()]

    monkeypatch.setattr(turns, "configs", one_config)
    return run


def test_points_are_measured_once_and_failures_once_more_where_asked(measure: Any) -> None:
    assert [set(row) for row in measure(SMALL, UNLUCKY, options=("--within", "0"))] == [{"run"}]
    begun, _, right, wrong = measure(SMALL, UNLUCKY)
    assert begun["run"]["set"] == "mine"
    assert wrong["failed"] == "ValueError: no luck today"
    assert right["ours"]["family"] == "conv2d_direct"
    assert right["float64"] == "all"
    assert 0 < right["ours"]["error"] <= 1e-6
    assert right["cudnn_us"].keys() == {"apart", "last"}
    assert right["ratio"] == pytest.approx(min(right["cudnn_us"].values()) / right["ours"]["us"], rel=1e-3)
    assert len(measure(SMALL, UNLUCKY)) == 4
    assert [row.get("name") for row in measure(SMALL, UNLUCKY, options=("--again",))[4:]] == [None, "mine 1 fprop"]


def test_larger_ones_are_verified_by_a_sample(measure: Any) -> None:
    _, row = measure(SAMPLED)
    assert row["float64"] == 640
    assert row["failures"] == {}
    assert 0 < row["ours"]["error"] <= 1e-6
    assert row["left_out"] == {}
