"""Checks whether runs with different seeds find the same winner: several searches from nothing, then their winners in
turns.

usage: python benchmarks/same_winner.py IMAGE FILTER [RUNS] [TRIALS]
such as: python benchmarks/same_winner.py 4096x4096 5x5 10 300
"""

from __future__ import annotations

import sys
import tempfile

import warpsmith as ws
from warpsmith.cli.options import extent
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.registry import FAMILIES
from warpsmith.store.record import Failure, Record
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.finals.choose import tied
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.session import tune
from warpsmith.tuner.workers.deadlines import Deadlines

CUDA = DeviceRef(DeviceKind.CUDA)


def winners(problem: ws.Filter2d, runs: int, trials: int) -> list[Record]:
    """Winners of `runs` searches, each with its own seed and empty store. Binaries are cached from one to the next."""
    found = []
    for seed in range(runs):
        with tempfile.TemporaryDirectory() as folder, Store.open(f"{folder}/store.db", write=True) as store:
            options = TuneOptions(trials=trials, seed=seed)
            report = tune(problem, (CUDA,), store, options, SilentProgress())
        assert report.record is not None
        time_us, *others_us = ((each.median_ns or 0.0) / 1e3 for each in report.finalists)
        others = ", ".join(f"{other_us / time_us - 1:+.2%}" for other_us in others_us)
        print(f"seed {seed}: {time_us:.2f} us in {report.elapsed_s:.1f} s: {report.record.trial.config}")
        print(f"  the other finalists: {others}", flush=True)
        found.append(report.record)
    return found


def main() -> None:
    """Prints each winner, and which of them tie with the fastest when all are timed in turns."""
    image, taps, runs, trials = (*sys.argv[1:], "10", "300")[:4]
    problem = ws.Filter2d(image=extent(image, "the image"), filter=extent(taps, "the filter"))
    found = winners(problem, int(runs), int(trials))
    distinct = {(record.trial.family, record.trial.config): record for record in found}
    with Evaluator.open(problem, CUDA, FAMILIES, CompilerChoice.AUTO, 99, Deadlines(), sanitize=False) as evaluator:
        contenders = []
        for family, config in distinct:
            contender = evaluator.verified(evaluator.program(family, config), evaluator.bench)
            assert not isinstance(contender, Failure), contender
            contenders.append(contender)
        beside = evaluator.bench.side_by_side(tuple(contenders))
        assert not isinstance(beside, Failure), beside
    fastest = min(timing.median_ns for timing in beside.ours)
    ties = set(tied(beside.ours))
    for number, ((family, config), timing) in enumerate(zip(distinct, beside.ours, strict=True)):
        runs_of = sum((record.trial.family, record.trial.config) == (family, config) for record in found)
        told = "within the tie band" if number in ties else "outside"
        slower = timing.median_ns / fastest - 1
        print(f"{runs_of} runs: {timing.median_ns / 1e3:.2f} us, {slower:+.2%}, {told}: {family} {config}")


if __name__ == "__main__":
    main()
