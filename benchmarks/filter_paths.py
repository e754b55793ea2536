"""The best filter kernel of each memory path, each searched by itself: tables 3 and 4 of the filters' paper, today.

    usage: python benchmarks/filter_paths.py RESULTS.jsonl [--device D] [--seconds 5] [--image 9216x9216]
                                             [--filter 3x3 ...] [--path global ...] [--commit TEXT]

For each filter and path a search is kept to that value of the parameter `path`, for the same time, in a store of its
own. Its winner is verified and timed in turns with a copy. `figures.py` writes the table.

Source: Iandola et al. 2013, "Communication-Minimizing 2D Convolution in GPU Registers", section 4.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import tempfile
from pathlib import Path
from typing import Any

from conv2d_bench import lines

import warpsmith as ws
from warpsmith.cli.options import extent
from warpsmith.devices.select import DeviceRef
from warpsmith.store.record import COPY

PATHS = ("global", "shuffle", "async", "shared", "texture")
FILTERS = ("2x2", "3x3", "4x4", "5x5", "6x6", "7x7")
MOST_TRIALS = 100_000
"""Trials of a search, which its time ends."""


def measured(problem: ws.Filter2d, path: str, given: argparse.Namespace) -> dict[str, Any]:
    """Winner of the search of one path, with its time and the copy's in us."""
    with tempfile.TemporaryDirectory() as folder:
        report = ws.tune(
            problem,
            given.device,
            trials=MOST_TRIALS,
            time_limit=given.seconds,
            parameters={"path": path},
            store=str(Path(folder) / "store.db"),
        )
    record = report.record
    assert record is not None, "a search without sanitizers has a winner"
    copies = [each.timing.median_ns / 1e3 for each in record.baselines if each.name == COPY]
    trial = record.trial
    return {
        "us": record.timing.median_ns / 1e3,
        "copy_us": copies[0] if copies else None,
        "tried": report.tried,
        "family": trial.family,
        "config": trial.config.key(),
        "error": getattr(trial.outcome, "max_error", None),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--image", default="9216x9216")
    parser.add_argument("--filter", nargs="+", default=list(FILTERS))
    parser.add_argument("--path", nargs="+", default=list(PATHS))
    parser.add_argument("--commit", default="")
    given = parser.parse_args()
    run = {
        "device": DeviceRef.parse(given.device).device().name,
        "commit": given.commit,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": lines.command(),
    }
    lines.add(given.results, {"run": run})
    for taps in given.filter:
        problem = ws.Filter2d(extent(given.image, "--image"), extent(taps, "--filter"))
        for path in given.path:
            row = {"key": f"{taps} {path}", "filter": taps, "path": path, **measured(problem, path, given)}
            lines.add(given.results, row)
            print(f"{row['key']}: {row['us']:.1f} us of {row['tried']} trials", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
