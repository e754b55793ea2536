"""benchmarks/conv2d_grid.py on the host: it verifies and times points beside PyTorch, and resumes an earlier run."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import exhaustive
from scripts import benchmark
from warpsmith.workers.worker import Worker

pytest.importorskip("torch")
script, turns = benchmark("conv2d_grid"), benchmark("conv2d_bench.turns")

SMALL = {"input": [2, 4, 9, 9], "weight": [4, 4, 3, 3], "pass_": "dgrad"}
UNLUCKY = {"input": [1, 4, 5, 5], "weight": [4, 1, 3, 3], "groups": 4}
"""A layer that conv2d_fft does not solve."""
SAMPLED = {"input": [4, 64, 34, 34], "weight": [64, 64, 3, 3]}
"""A layer with too many terms to be verified completely."""
DEFAULT = ("--starts", "0", "--families")


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the script with some problems and returns the rows that are then in its file."""

    def run(
        *problems: dict[str, Any], options: tuple[str, ...] = (), family: str = "conv2d_fft"
    ) -> list[dict[str, Any]]:
        (tmp_path / "mine.json").write_text(json.dumps(problems))
        results = tmp_path / "results.jsonl"
        words = ["measure", str(results), str(tmp_path / "mine.json"), "--device", "host", *options, *DEFAULT, family]
        monkeypatch.setattr(sys, "argv", ["conv2d_grid.py", *words])
        script.main()
        return [json.loads(line) for line in results.read_text().splitlines()]

    return run


def test_points_are_measured_once_and_failures_once_more_where_asked(measure: Any) -> None:
    assert [set(row) for row in measure(SMALL, UNLUCKY, options=("--within", "0"))] == [{"run"}]
    begun, _, right, wrong = measure(SMALL, UNLUCKY)
    assert begun["run"]["set"] == "mine"
    assert wrong["failed"] == "RuntimeError: none of the families that are asked for solves it"
    assert right["ours"]["family"] == "conv2d_fft"
    assert right["float64"] == "all"
    assert 0 < right["ours"]["error"] <= 1e-6
    assert right["cudnn_us"].keys() == {"apart", "last"}
    # Rows have four decimals.
    assert right["ratio"] == pytest.approx(min(right["cudnn_us"].values()) / right["ours"]["us"], rel=1e-3, abs=1e-4)
    assert len(measure(SMALL, UNLUCKY)) == 4
    assert [row.get("name") for row in measure(SMALL, UNLUCKY, options=("--again",))[4:]] == [None, "mine 1 fprop"]


@pytest.mark.usefixtures("compile_as_asked")  # 150 million multiply-adds take half a minute unoptimised
def test_larger_ones_are_verified_by_a_sample(measure: Any) -> None:
    _, row = measure(SAMPLED, family="conv2d_direct")
    assert row["float64"] == 640
    assert row["failures"] == {}
    assert 0 < row["ours"]["error"] <= 1e-6
    assert row["left_out"] == {}


@exhaustive.EXHAUSTIVE
def test_two_processes_time_in_turns(measure: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock stands for the device, as on a GPU. Rows appear as they are finished, and none is lost."""
    lock = tmp_path / "lock"
    lock.touch()
    started: list[Any] = []
    asked: set[int] = set()
    device_worker, call = turns.device_worker, Worker.call

    def counted(environment: Any) -> Any:
        started.append(device_worker(environment))
        return started[-1]

    monkeypatch.setattr(turns, "shared_device", lambda _: contextlib.nullcontext(lock))

    def calling(worker: Worker, *job: Any) -> Any:
        asked.update(number for number, each in enumerate(started) if each is worker)
        return call(worker, *job)

    monkeypatch.setattr(turns, "device_worker", counted)
    monkeypatch.setattr(Worker, "call", calling)
    problems = [{**SMALL, "pass_": pass_} for pass_ in ("fprop", "dgrad", "wgrad")]
    rows = measure(*problems, family="conv2d_direct", options=("--lanes", "2"))[1:]
    assert {row["pass"] for row in rows} == {"fprop", "dgrad", "wgrad"}
    assert [row for row in rows if "failed" in row or row["failures"]] == []
    assert asked == {0, 1}
    assert not any(worker.alive for worker in started)
