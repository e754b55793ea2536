"""Filters of signals by every method, and what a search of some seconds adds to the answer without one.

    usage: python benchmarks/filter_methods.py methods FOLDER [--device cuda:0] [--signal 16777216] [--within 400]
           python benchmarks/filter_methods.py searches FOLDER [--device cuda:0] [--seconds 10] [--within 400]
           python benchmarks/filter_methods.py plot FOLDER

`methods` verifies and times the default config of each family on one float32 signal, for filters of 5 to 49,152 taps,
and writes FOLDER/methods.json. Families that add up long filters tap by tap are left out beyond 1,100 taps. It prints
which family answers without a search, and its time over the fastest family's. `searches` tunes problems whose sizes
are in no table, each with a fresh store, and writes FOLDER/searches.json: the time of the answer before, and after the
search. After `--within` seconds neither starts another problem. `plot` draws FOLDER/filter-methods.svg from
methods.json, and needs no GPU.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import warpsmith as ws
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.registry import FAMILIES
from warpsmith.store.record import Failure, Measurement
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.plots import ImageFormat, PlotLine, plot_comparison
from warpsmith.tuner.workers.compile_pool import Compiled
from warpsmith.tuner.workers.deadlines import Deadlines

SIGNAL = 1 << 24
TAPS = (5, 17, 33, 65, 129, 257, 1025, 4097, 16_385, 49_152)
BY_TAPS = ("filter1d_plain", "filter1d_shared", "filter1d_registers", "filter1d_overlap_add")
"""Families that add up a filter tap by tap with float32 multiply-adds."""
MOST_BY_TAPS = 1100
DRAWN = (*BY_TAPS, "filter1d_toeplitz", "filter1d_fft", "filter1d_fft_long")
"""Families in the plot. `filter1d_scatter` and `filter1d_parts` never answer."""


def held_out() -> tuple[ws.Filter1d, ...]:
    """Problems between and beside those of the pages' tables."""
    model = {"mode": "causal", "dtype": "bfloat16", "taps_dtype": "bfloat16"}
    return (
        ws.Filter1d(7_654_321, 11),
        ws.Filter1d(7_654_321, 45),
        ws.Filter1d(12_000_001, 150, mode="same"),
        ws.Filter1d(20_000_003, 2_500),
        ws.Filter1d(9_999_999, 12_000),
        ws.Filter1d(30_000_000, 77, dtype="complex64"),
        ws.Filter1d(5_000_500, 5_000_001, mode="valid"),
        ws.Filter1d(5_000, 4, batch=3, channels=3_000, filters=3_000, bias=True, activation="silu", **model),
        ws.Filter1d(3_001, 4, batch=5, channels=1_536, filters=1_536, layout="btc", **model),
        ws.Filter1d(20_000, 24, channels=4_096, filters=256, **model),
        ws.Filter1d(3_000, 3_000, batch=32, channels=512, filters=512, mode="causal"),
        ws.Filter1d(1_500, 1_500, batch=32, channels=512, filters=512, **model),
        ws.Filter1d(1_000, 4, batch=6, channels=4_096, filters=4_096, pass_="backward", **model),
    )


def times_of(problem: ws.Filter1d, ref: DeviceRef) -> dict[str, Any]:
    """Median ns of the default config of each family, verified, and of a copy of the bytes.

    Raises SystemExit if a result is wrong or does not run.
    """
    many = problem.taps > MOST_BY_TAPS
    able = tuple(each for each in FAMILIES if each.name in DRAWN and not (many and each.name in BY_TAPS))
    opened = Evaluator.open(problem, ref, able, CompilerChoice.AUTO, 0, Deadlines(), sanitize=False)
    with opened as evaluator:
        device = evaluator.device
        programs = [evaluator.program(name, each.default(problem, device)) for name, each in evaluator.families.items()]
        compiling = [evaluator.compile(program) for program in programs]
        times = {}
        for program, waiting in zip(programs, compiling, strict=True):
            compiled = waiting.result()
            outcome = compiled
            if isinstance(compiled, Compiled):
                outcome = evaluator.bench.evaluate(program, compiled).outcome
            if not isinstance(outcome, Measurement):
                raise SystemExit(f"{program.family} {program.config}: {outcome}")
            times[program.family] = outcome.timing.median_ns
        copy = evaluator.bench.copy_timing()
    if isinstance(copy, Failure):
        raise SystemExit(f"copy: {copy}")
    answer = ws.query(problem, str(ref), store=None).program.family
    return {"taps": problem.taps, "copy_ns": copy.median_ns, "families": times, "answer": answer}


def searched(problem: ws.Filter1d, ref: DeviceRef, seconds: float) -> dict[str, Any]:
    """Times of the answer without a search, and of the winner after one, in one process."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        store = str(Path(folder) / "store.db")
        report = ws.tune(problem, str(ref), trials=100_000, time_limit=seconds, store=store)
        took = time.monotonic() - began
    if report.record is None or report.before is None:
        raise SystemExit(f"{problem.key()}: no winner, or none that answered before")
    before, after = report.before, report.record.trial
    return {
        "problem": problem.key(),
        "seconds": took,
        "tried": report.tried,
        "before": [before.family, before.config.values(), before.median_ns],
        "after": [after.family, after.config.values(), after.median_ns],
    }


def run_all(works: list[Callable[[], dict[str, Any]]], within: float, file: Path) -> list[dict[str, Any]]:
    """Runs each work until the time is over, and writes all results after each."""
    start, rows = time.monotonic(), []
    for work in works:
        if time.monotonic() - start > within:
            print(f"{len(works) - len(rows)} problems are left", flush=True)
            break
        rows.append(work())
        file.write_text(json.dumps(rows, indent=1) + "\n")
        print(f"{time.monotonic() - start:4.0f} s  {json.dumps(rows[-1])}", flush=True)
    return rows


def show_methods(rows: list[dict[str, Any]]) -> None:
    print("\n| taps | answer | us | copies | over the fastest family | fastest family |\n|---|---|---|---|---|---|")
    for row in rows:
        times, answer = row["families"], row["answer"]
        fastest = min(times, key=times.__getitem__)
        ratio, copies = times[answer] / times[fastest], times[answer] / row["copy_ns"]
        print(f"| {row['taps']} | {answer} | {times[answer] / 1e3:.1f} | {copies:.2f} | {ratio:.2f} | {fastest} |")


def show_searches(rows: list[dict[str, Any]]) -> None:
    print("\n| problem | unsearched, us | searched, us | unsearched / searched | families |\n|---|---|---|---|---|")
    for row in rows:
        (family, _, before), (winner, _, after) = row["before"], row["after"]
        both = family if family == winner else f"{family}, {winner}"
        print(f"| {row['problem']} | {before / 1e3:.1f} | {after / 1e3:.1f} | {before / after:.2f} | {both} |")
    ratios = [row["before"][2] / row["after"][2] for row in rows]
    print(f"\ngeometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}, largest {max(ratios):.2f}")


def plot(folder: Path) -> None:
    """Draws the time of each family over the taps, with the copy as the floor."""
    rows = json.loads((folder / "methods.json").read_text())
    lines = []
    for name in DRAWN:
        points = ((place, row["families"].get(name)) for place, row in enumerate(rows))
        lines.append(PlotLine(name, tuple(each for each in points if each[1] is not None)))
    copies = PlotLine("copy", tuple((place, row["copy_ns"]) for place, row in enumerate(rows)))
    sizes = [str(row["taps"]) for row in rows]
    title = "one float32 signal, mode full: the default of each family"
    image = plot_comparison(title, "taps", sizes, lines, copies, ImageFormat.SVG)
    (folder / "filter-methods.svg").write_bytes(image)
    show_methods(rows)


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("command", choices=("methods", "searches", "plot"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--signal", type=int, default=SIGNAL)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--within", type=float, default=400.0)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    ref = DeviceRef.parse(given.device)
    if given.command == "methods":
        problems = [ws.Filter1d(given.signal, taps) for taps in TAPS]
        works = [functools.partial(times_of, each, ref) for each in problems]
        show_methods(run_all(works, given.within, given.folder / "methods.json"))
    elif given.command == "searches":
        works = [functools.partial(searched, each, ref, given.seconds) for each in held_out()]
        show_searches(run_all(works, given.within, given.folder / "searches.json"))
    else:
        plot(given.folder)


if __name__ == "__main__":
    main()
