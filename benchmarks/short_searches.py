"""Searches of some seconds, each with a fresh store, beside what was known before and beside a search of 400 trials.

    usage: python benchmarks/short_searches.py RESULTS.jsonl [--device cuda:0] [--limits 10,20,40] [--within 540]
                                               [--from problems.json]
    then:  python benchmarks/short_searches.py RESULTS.jsonl --table

Each of 65 problems (image filters of 2x2 to 31x31, every type and border, and transforms), or those of a list, is
searched under each limit, then with 400 trials; the winners are timed in turns with each other and with the answer that
a look-up gave before. A line is added to RESULTS a problem, and problems that have one are passed over, so that the
command goes on where it ended: after `--within` seconds it starts no further problem. Limits of 10, 20 and 40 s take
about two minutes a problem.

`--table` prints, for each limit, how many winners were slower than the answer before, the geometric mean of their times
over the 400-trial winner's, and the slowest. The exit code is 1 where one is slower than the answer before, or the mean
after 20 s is above 1.03.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import warpsmith as ws
from warpsmith.cli.bench_fft import filled
from warpsmith.cli.output import print_table
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.tuner.campaign import read_problems
from warpsmith.tuner.compare import compare

REFERENCE_TRIALS = 400
NOISE = 1.003
"""Times closer than this are one: medians of one kernel in seven processes lie within 0.4% (docs/tuning-notes.md)."""
GOAL_LIMIT, GOAL_MEAN = 20.0, 1.03


def problems() -> Iterator[Problem]:
    """65 problems: sizes that are no powers of two, filters of 2 to 31 taps a side, types, borders, transforms."""
    filters = (2, 3, 4, 5, 7, 9, 11, 13, 15, 21, 31)
    images = ((9216, 9216), (2000, 3000), (1080, 1920), (4096, 4096), (777, 1555))
    borders = itertools.cycle(("valid", "reflect", "constant", "wrap", "nearest", "mirror"))
    for number, (taps, image) in enumerate(itertools.product(filters, images)):
        if number % 5 == 3 and taps > 15:
            continue  # 31x31 of the largest image but one is enough
        dtype = ("float32", "float32", "float16", "uint8")[number % 4]
        yield ws.Filter2d(image=image, filter=(taps, taps), dtype=dtype, border=next(borders))
    for size in ((250,), (77,), (128,), (24, 24), (32, 32), (64, 64)):
        for kind in ("r2c", "c2r"):
            yield filled(ws.Fft(size, kind=kind), DeviceKind.CUDA)


def searched(problem: Problem, device: str, seed: int, **budget: Any) -> tuple[Program, dict[str, Any]]:
    """The winner of a search with a fresh store, and what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "store.db")
        began = time.monotonic()
        report = ws.tune(problem, device, seed=seed, store=store, **budget)
        took = time.monotonic() - began
        assert report.record is not None
        before = None if report.before is None else report.before.median_ns
        told = {"seconds": took, "trials": report.tried, "ns": report.record.trial.median_ns, "before_ns": before}
        return ws.query(problem, device, store=store).program, told


def measured(problem: Problem, device: str, limits: list[float]) -> dict[str, Any]:
    """All searches of a problem, and their winners' times in turns."""
    answer = ws.query(problem, device)
    winners, told = {"before": answer.program}, dict[str, Any]()
    for limit in limits:
        winners[f"{limit:g}"], told[f"{limit:g}"] = searched(problem, device, 0, trials=100_000, time_limit=limit)
    long, told["reference"] = searched(problem, device, 1, trials=REFERENCE_TRIALS)
    compared = compare(problem, long, DeviceRef.parse(device), seed=7, others=winners)
    in_turns = {each.name: each.timing.median_ns for each in compared.baselines if each.name in winners}
    return {
        "problem": problem.key(),
        "match": answer.kind,
        "searches": told,
        "reference_ns": compared.ours.median_ns,
        "in_turns_ns": in_turns,
        "environment": compared.environment,
    }


def table(lines: list[dict[str, Any]]) -> int:
    """Prints the summary; the exit code."""
    limits = sorted({float(name) for line in lines for name in line["in_turns_ns"] if name != "before"})
    rows, missed = [], False
    for limit in limits:
        name = f"{limit:g}"
        known = [line for line in lines if name in line["in_turns_ns"]]
        excess = [line["in_turns_ns"][name] / line["reference_ns"] for line in known]
        slower = [
            line["problem"]
            for line in known
            if line["in_turns_ns"][name] > NOISE * line["in_turns_ns"].get("before", math.inf)
        ]
        mean = math.exp(sum(map(math.log, excess)) / len(excess))
        missed |= bool(slower) or (limit == GOAL_LIMIT and mean > GOAL_MEAN)
        rows.append((f"{name} s", str(len(known)), str(len(slower)), f"{mean:.3f}", f"{max(excess):.3f}"))
        for problem in slower:
            print(f"slower than before after {name} s: {problem}", file=sys.stderr)
    print_table(("limit", "problems", "slower than before", "mean over 400 trials", "worst"), rows)
    return int(missed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--limits", default="10,20,40")
    parser.add_argument("--within", type=float, default=540.0)
    parser.add_argument("--from", dest="file", type=Path)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    text = given.results.read_text() if given.results.exists() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    if given.table:
        return table(lines)
    done, start = {line["problem"] for line in lines}, time.monotonic()
    for problem in read_problems(given.file) if given.file else problems():
        if problem.key() in done or time.monotonic() - start > given.within:
            continue
        try:
            line = measured(problem, given.device, [float(limit) for limit in given.limits.split(",")])
        except WarpsmithError as error:
            print(f"{problem.key()}: {error}", file=sys.stderr)
            continue
        print(f"{time.monotonic() - start:6.0f} s", problem.key(), line["in_turns_ns"], file=sys.stderr, flush=True)
        with given.results.open("a") as results:
            results.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
