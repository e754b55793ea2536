"""Searches of some seconds, each with a fresh store, compared with the previous answer and with a search of 400 trials.

    usage: python benchmarks/short_searches.py search RESULTS.jsonl [--device cuda:0] [--limits 10,20,40] [--at-once 1]
                                                                    [--within 540] [--from problems.json]
                                                                    [--drawn COUNT] [--seed 0]
                                                                    [--known EARLIER.jsonl] [--longest SECONDS]
           python benchmarks/short_searches.py turns RESULTS.jsonl [--device cuda:0] [--within 540] [--peers]
           python benchmarks/short_searches.py table RESULTS.jsonl
           python benchmarks/short_searches.py recording RESULTS.jsonl FILE.jsonl.gz
           python benchmarks/short_searches.py winners RESULTS.jsonl STORE.db

`search` searches each of 65 problems (image filters of 2x2 to 31x31, every type and border, and transforms), or those
of a list, under each limit, then with 400 trials. Each problem adds a line to RESULTS, and problems that have one are
skipped, so that the command can continue an earlier run. After `--within` seconds it starts no further problem. Limits
of 10, 20 and 40 s take about two minutes per problem. `--at-once` problems are searched at the same time, each on its
share of the cores, and take turns on the GPU, so each search has less of the machine. The 400 trials of a problem that
has a line in EARLIER are taken from there; others end after `--longest` seconds. Shipped trials of the problem itself
are left out. With `--drawn`, filters of 1 to 63 rows and columns are searched, drawn at random with three types and six
borders on images of 4 to 9 megapixels. With `--longest 0` the search of the last limit stands for the 400 trials.

`turns` times the winners of each problem in turns with each other and with the previous answer of a look-up, with
nothing else on the GPU, and adds the times to RESULTS. With `--peers` the other libraries take turns with them.

`table` prints, for each limit, how many winners are slower than the previous answer, the geometric mean of their times
over the 400-trial winner's, and the slowest; and how many previous answers, of those that no search had found, take at
most 1.15 of the winner's time, with the slowest; and how many previous answers are slower than the fastest library.
The exit code is 1 if one is slower than the previous answer, or if the mean after 20 s is above 1.03.

`recording` writes the trials of the 400-trial searches in the form that `prior_quality.py propose` takes. `winners`
puts the fastest winner of each problem into a store, for `remeasure_verdicts.py AGAIN.db SECONDS STORE.db --all` and
then `ship_winners.py`.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import math
import os
import queue
import random
import subprocess
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import warpsmith as ws
from warpsmith.cli.operations.fft_bench import filled
from warpsmith.cli.output import print_table
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.files import write_whole
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.registry import family_named
from warpsmith.generator.space import Config
from warpsmith.plans.match import MatchKind
from warpsmith.store.record import Record, is_of_library
from warpsmith.store.store import Store
from warpsmith.tuner.finals.compare import compare
from warpsmith.tuner.finals.recheck import APART
from warpsmith.tuner.run.problem_list import read_problems
from warpsmith.tuner.search.known import shipped_samples

REFERENCE, BEFORE = "reference", "before"
REFERENCE_TRIALS = 400
NOISE = 1 + APART
"""Factor within which two times count as equal."""
GOAL_LIMIT, GOAL_MEAN = 20.0, 1.03
NEAR = 1.15
"""Factor within which an untuned answer is to be of the winner."""
READY_AT_ONCE = 3
"""Problems whose data and references are prepared while the winners of another are timed."""


def problems() -> Iterator[Problem]:
    """Yields 65 problems: sizes that are no powers of two, filters of 2 to 31 taps a side, types, borders,
    transforms.
    """
    filters = (2, 3, 4, 5, 7, 9, 11, 13, 15, 21, 31)
    images = ((9216, 9216), (2000, 3000), (1080, 1920), (4096, 4096), (777, 1555))
    borders = itertools.cycle(("valid", "symmetric", "constant", "wrap", "nearest", "mirror"))
    for number, (taps, image) in enumerate(itertools.product(filters, images)):
        if number % 5 == 3 and taps > 15:
            continue  # the largest image suffices for large filters
        dtype = ("float32", "float32", "float16", "uint8")[number % 4]
        yield ws.Filter2d(image=image, filter=(taps, taps), dtype=dtype, border=next(borders))
    for size in ((250,), (77,), (128,), (24, 24), (32, 32), (64, 64)):
        for kind in ("r2c", "c2r"):
            yield filled(ws.Fft(size, kind=kind), DeviceKind.CUDA)


def drawn(count: int, seed: int) -> Iterator[Problem]:
    """Yields random filters of up to 63 rows and columns."""
    rng = random.Random(seed)
    for _ in range(count):
        rows = rng.randint(2000, 3000)
        yield ws.Filter2d(
            image=(rows, rng.randint(4_000_000 // rows, 9_000_000 // rows)),
            filter=(rng.randint(1, 63), rng.randint(1, 63)),
            dtype=rng.choice(("float32", "float16", "uint8")),
            border=rng.choice(("valid", "symmetric", "constant", "wrap", "nearest", "mirror")),
        )


def searched(problem: Problem, device: str, seed: int, **budget: Any) -> dict[str, Any]:
    """Searches with a fresh store; returns the winner, the statistics of the search and its trials."""
    with tempfile.TemporaryDirectory() as folder:
        location = str(Path(folder) / "store.db")
        began = time.monotonic()
        report = ws.tune(problem, device, seed=seed, store=location, **budget)
        took = time.monotonic() - began
        with Store.open(location, write=False) as store:
            trials = store.trials(problem, DeviceRef.parse(device).device())
    assert report.record is not None
    winner = report.record.trial
    return {
        "seconds": took,
        "tried": report.tried,
        "family": winner.family,
        "config": winner.config.values(),
        "ns": winner.median_ns,
        "record": report.record.spec(),
        "before_ns": None if report.before is None else report.before.median_ns,
        "trials": [[trial.family, trial.config.values(), trial.median_ns] for trial in trials],
    }


def search(
    problem: Problem, device: str, limits: list[float], longest: float | None, reference: dict[str, Any] | None
) -> dict[str, Any]:
    """Runs all searches of a problem in one process, and adds the previous answer. `reference` replaces the long
    search.
    """
    answer = ws.query(problem, device)
    program = answer.program
    found: dict[str, Any] = {BEFORE: {"family": program.family, "config": program.config.values()}}
    for limit in limits:
        found[f"{limit:g}"] = searched(problem, device, 0, trials=100_000, time_limit=limit) | {"trials": None}
    if longest == 0:
        found[REFERENCE] = found[f"{limits[-1]:g}"]
    else:
        found[REFERENCE] = reference or searched(problem, device, 1, trials=REFERENCE_TRIALS, time_limit=longest)
    spec = [problem.operation, problem.spec()]
    return {"key": problem.key(), "problem": spec, "match": answer.kind, "device": device, "winners": found}


def search_all(results: Path, left: list[Problem], given: argparse.Namespace) -> None:
    """Searches each problem in its own process, `--at-once` of them at a time, each on a share of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // given.at_once)
    shares: queue.Queue[list[int]] = queue.Queue()
    for number in range(given.at_once):
        shares.put(cores[number * each : (number + 1) * each])
    earlier = given.known.read_text().splitlines() if given.known else ()
    known = {line["key"]: line["winners"][REFERENCE] for line in map(json.loads, earlier)}
    start = time.monotonic()

    def run(problem: Problem) -> None:
        share = shares.get()
        try:
            if time.monotonic() - start > given.within:
                return
            spec = json.dumps([[problem.operation, problem.spec()], known.get(problem.key())])
            command = [sys.executable, __file__, "one", "-", "--device", given.device, "--limits", given.limits]
            command += [] if given.longest is None else ["--longest", str(given.longest)]
            pinned = ["taskset", "-c", ",".join(map(str, share)), *command]
            ran = subprocess.run(pinned, input=spec, stdout=subprocess.PIPE, text=True, check=False)
            if ran.returncode:
                print(f"failed: {problem.key()}", file=sys.stderr, flush=True)
                return
            with results.open("a") as file:
                file.write(ran.stdout.splitlines()[-1] + "\n")
            print(f"{time.monotonic() - start:6.0f} s  {problem.key()}", file=sys.stderr, flush=True)
        finally:
            shares.put(share)

    with concurrent.futures.ThreadPoolExecutor(given.at_once) as pool:
        list(pool.map(run, left))


def in_turns(line: dict[str, Any], device: str, peers: bool) -> dict[str, Any]:
    """Times of a problem's winners, in turns, with the other libraries' if `peers`. A program that several searches
    found is timed once.
    """
    problem = Problem.from_spec(*line["problem"])
    programs: dict[str, Program] = {
        name: family_named(each["family"]).program(problem, Config.of(each["config"]))
        for name, each in line["winners"].items()
    }
    distinct = {programs[name].fingerprint: name for name in reversed(programs)}
    others = {name: programs[name] for name in distinct.values() if name != REFERENCE}
    compared = compare(problem, programs[REFERENCE], DeviceRef.parse(device), seed=7, others=others, peers=peers)
    times = {each.name: each.timing.median_ns for each in compared.baselines if each.name in others}
    times[REFERENCE] = compared.ours.median_ns
    turns = {name: times.get(distinct[program.fingerprint]) for name, program in programs.items()}
    libraries = {
        each.name: each.timing.median_ns
        for each in compared.baselines
        if each.name not in others and is_of_library(each, problem)
    }
    return line | {"in_turns_ns": turns, "libraries_ns": libraries, "environment": compared.environment}


def turns_all(results: Path, lines: list[dict[str, Any]], given: argparse.Namespace) -> None:
    """Adds times in turns to the lines that have none."""
    deadline = time.monotonic() + given.within

    def timed(line: dict[str, Any]) -> dict[str, Any]:
        if "in_turns_ns" in line or time.monotonic() > deadline:
            return line
        try:
            return in_turns(line, given.device, given.peers)
        except WarpsmithError as error:
            print(f"{line['key']}: {error}", file=sys.stderr, flush=True)
            return line

    with concurrent.futures.ThreadPoolExecutor(READY_AT_ONCE) as pool:
        lines = list(pool.map(timed, lines))
    write_whole(results, "".join(json.dumps(line) + "\n" for line in lines).encode())


def recording(lines: list[dict[str, Any]], path: Path) -> None:
    """Writes the long searches as a recording of `prior_quality.py`."""
    sys.path.insert(0, str(Path(__file__).parent))
    from prior_quality import SEARCH, write

    from warpsmith.store.trials import Sample

    device = DeviceRef.parse(lines[0]["device"]).device()
    problems = [Problem.from_spec(*line["problem"]) for line in lines]
    write(
        path,
        device,
        problems,
        [
            (number, SEARCH, Sample(problems[number], device, family, Config.of(values), time_ns))
            for number, line in enumerate(lines)
            for family, values, time_ns in line["winners"][REFERENCE]["trials"]
        ],
    )


def winners(lines: list[dict[str, Any]], location: Path) -> None:
    """Stores the fastest winner of each problem that was timed in turns and has a record."""
    with Store.open(str(location), write=True) as store:
        for line in lines:
            times = line.get("in_turns_ns", {})
            known = [name for name, each in line["winners"].items() if "record" in each and times.get(name)]
            if known:
                store.put_winner(Record.from_spec(line["winners"][min(known, key=times.__getitem__)]["record"]))


def table(lines: list[dict[str, Any]]) -> int:
    """Prints the summary and returns the exit code."""
    lines = [line for line in lines if "in_turns_ns" in line]
    limits = sorted({float(name) for line in lines for name in line["winners"] if name not in (BEFORE, REFERENCE)})
    untuned = {line["key"] for line in lines if line.get("match") != MatchKind.EXACT}
    behind_libraries = [
        line["key"]
        for line in lines
        if line["in_turns_ns"][BEFORE]
        and line["in_turns_ns"][BEFORE] > min(line.get("libraries_ns", {}).values(), default=math.inf)
    ]
    for key in behind_libraries:
        print(f"previous answer slower than a library: {key}", file=sys.stderr)
    rows, missed = [], False
    for limit in limits:
        name = f"{limit:g}"
        turns = [(line["key"], line["in_turns_ns"]) for line in lines if line["in_turns_ns"].get(name)]
        excess = [times[name] / times[REFERENCE] for _, times in turns]
        slower = [key for key, times in turns if times[name] > NOISE * (times[BEFORE] or math.inf)]
        mean = math.exp(sum(map(math.log, excess)) / len(excess))
        missed |= bool(slower) or (limit == GOAL_LIMIT and mean > GOAL_MEAN)
        lost = [times[BEFORE] / times[name] for key, times in turns if key in untuned and times[BEFORE]]
        near = f"{sum(each <= NEAR for each in lost)} of {len(lost)}, {max(lost, default=1.0):.3f}"
        behind = f"{len(behind_libraries)} of {sum(bool(line.get('libraries_ns')) for line in lines)}"
        rows.append((f"{name} s", str(len(turns)), str(len(slower)), f"{mean:.3f}", f"{max(excess):.3f}", near, behind))
        for key in slower:
            print(f"slower than before after {name} s: {key}", file=sys.stderr)
    header = ("limit", "problems", "slower than before", "mean over 400 trials", "worst", "untuned within 1.15, worst")
    header += ("behind a library",)
    print_table(header, rows)
    return int(missed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("search", "turns", "table", "recording", "winners", "one"))
    parser.add_argument("results", help="`one`, which `search` starts, takes none")
    parser.add_argument("file_out", nargs="?", type=Path, help="what `recording` and `winners` write")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--limits", default="10,20,40")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--within", type=float, default=540.0)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--known", type=Path)
    parser.add_argument("--longest", type=float)
    parser.add_argument("--from", dest="file", type=Path)
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.action == "one":
        limits = [float(limit) for limit in given.limits.split(",")]
        spec, reference = json.load(sys.stdin)
        problem = Problem.from_spec(*spec)
        others = tuple(each for each in shipped_samples() if each.problem != problem)
        with unittest.mock.patch("warpsmith.tuner.search.known.shipped_samples", return_value=others):
            found = search(problem, given.device, limits, given.longest, reference)
        print(json.dumps(found))
        return 0
    results = Path(given.results)
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    match given.action:
        case "table":
            return table(lines)
        case "turns":
            turns_all(results, lines, given)
        case "recording":
            recording(lines, given.file_out)
        case "winners":
            winners(lines, given.file_out)
        case _:
            done = {line["key"] for line in lines}
            named = read_problems(given.file) if given.file else problems()
            wanted = drawn(given.drawn, given.seed) if given.drawn else named
            search_all(results, [problem for problem in wanted if problem.key() not in done], given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
