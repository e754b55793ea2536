"""The benchmark of call latency runs on the host, where its times mean little."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import exhaustive

pytest.importorskip("torch")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "call_latency.py"

OF_LAYERS = ("no gradient", "forward", "backward, w", "backward, all", "step", "step, sum", "module", "module, step")


@exhaustive.EXHAUSTIVE
def test_it_tells_every_figure() -> None:
    command = [sys.executable, str(SCRIPT), "--device", "host", "--rounds", "1", "--calls", "1", "--processes", "1"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    kinds = {(row["library"], row["kind"]) for row in report["calls"]}
    assert kinds == {
        *((library, kind) for library in ("torch", "numpy") for kind in ("out", "new")),
        ("torch", "conv2d"),
        ("torch", "rfft2"),
        *((library, kind) for library in ("torch", "warpsmith") for kind in OF_LAYERS),
        ("ws.plan", "same problem"),
        ("ws.plan", "equal problem"),
    }
    assert all(row["us"] > 0 for row in report["calls"])
    assert len(report["processes"]) == 3
    assert all(row["ms"] >= row["best_ms"] > 0 for row in report["processes"])
