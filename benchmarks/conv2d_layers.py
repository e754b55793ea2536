"""Tunes convolution layers and prints the winner of each pass beside cuDNN, in float32 and in TF32.

    usage: python benchmarks/conv2d_layers.py STORE SECONDS LAYER... [--dtype float16] [--precision f16] [--layout nhwc]
           python benchmarks/conv2d_layers.py STORE table
such as: python benchmarks/conv2d_layers.py layers.db 20 L2 L3:wgrad table4 alexnet
         python benchmarks/conv2d_layers.py layers.db 5 alexnet --precision tf32

A layer is one of fbfft's tables 3 and 4 or of current networks, with or without a pass. `table4`, `alexnet`,
`overfeat`, `strided`, `resnet`, `depthwise` and `current` are lists of them. SECONDS is the time of each search; 0 uses
the winners in the store. cuDNN in the same type and precision takes turns with the winner, in both layouts, of which
the faster counts. For `ieee`, whose winners may not have TF32's error of 3e-4, cuDNN in TF32 is timed afterwards, in a
CUDA graph. Below stand the best time of every family and the time of each step of the winner alone, beside the paper's
table 5.

Each pass adds a row to STORE.jsonl. With SECONDS above 0, passes that have one are skipped, so that a stopped run can
continue. `table` prints those rows again, without a GPU. A pass takes 10 s in addition to SECONDS, for its float64
references. Another process with its own store can use the GPU meanwhile: every timing holds the device's lock.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import itertools
import math
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from conv2d_bench import lines
from conv2d_bench.breakdown import print_layers, print_steps
from conv2d_bench.points import Point, layers, taken
from conv2d_bench.rows import APART, LAST, layout_of
from conv2d_bench.sampled import Unjudged

import warpsmith as ws
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.program import Program
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.steps import Launch, Step
from warpsmith.plans.lookup import regenerate
from warpsmith.store.location import write_location
from warpsmith.store.record import Measurement, Record
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.device_lock import DeviceLock, shared_device
from warpsmith.tuner.evaluate.evaluator import Workshop
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.evaluate.testbed import Testbed
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.operations.conv2d.peers import torch_peer
from warpsmith.tuner.operations.registry import random_operands
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.session import tune
from warpsmith.tuner.workers.deadlines import Deadlines

SET = "layers"
REPLAYS, CALLS = 15, 5
"""Replays of a graph, whose median is TF32's time, and its least number of calls."""


def tf32_us(problem: ws.Conv2d, device: DeviceRef, lock: DeviceLock) -> dict[str, float]:
    """Microseconds of cuDNN in TF32, by layout, with as many sets of operands as the winner's timing used."""
    asked = dataclasses.replace(problem, precision=ws.Precision.TF32)
    operands = random_operands(asked, 0)
    sets = TimingPolicy.for_kind(device.kind).rotation(problem.bytes, device.device().l2_bytes).sets
    found = {}
    with lock:
        for layout in (APART, LAST):
            peer = torch_peer(asked, operands, DeviceKind.CUDA, sets, channels_last=layout == LAST)
            found[layout] = graph_us([functools.partial(peer.run, number) for number in range(sets)])
    return found


def graph_us(runs: Sequence[Callable[[], None]]) -> float:
    """Median time, in us, of a call in a CUDA graph that makes all calls in turn."""
    import torch

    for _ in range(3):
        runs[0]()
    torch.cuda.synchronize()
    calls = math.ceil(CALLS / len(runs)) * len(runs)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for number in range(calls):
            runs[number % len(runs)]()
    graph.replay()
    times: list[float] = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / calls)
    return statistics.median(times)


def step_name(step: Step) -> str:
    """Stage of a step, or the library that it calls. The search for the largest number belongs to the stage of split
    fp16 operands, which are scaled by it.
    """
    return step.unit.replace("_largest_", "_pack_") if isinstance(step, Launch) else str(step.library)


def timed_alone(program: Program) -> dict[tuple[str, str], tuple[tuple[Step, ...], int]]:
    """Groups of steps that are timed alone: all launches of a stage together, because some prepare data for others, or
    one library call. The number says how often the program runs the group, for several parts of a batch.
    """
    keys = [(step_name(step), "" if isinstance(step, Launch) else str(step)) for step in program.steps]
    found: dict[tuple[str, str], tuple[tuple[Step, ...], int]] = {}
    # Only the first of several launches of one kernel in a row is timed; the others take as long.
    kernels = (step.entry if isinstance(step, Launch) else str(number) for number, step in enumerate(program.steps))
    in_a_row = itertools.groupby(zip(keys, kernels, program.steps, strict=True), lambda each: each[:2])
    steps = [next(alike) for _, alike in in_a_row]
    for key in dict.fromkeys(keys):
        own = [step for each, _, step in steps if each == key]
        once = tuple({getattr(step, "entry", ""): step for step in reversed(own)}.values())[::-1]
        found[key] = once, len(own) // len(once)
    return found


def steps_us(record: Record, device: DeviceRef, lock: DeviceLock) -> dict[str, float]:
    """Microseconds of the winner's steps timed alone, by stage; empty for a program of one step.

    A stage that runs for several parts of a batch is timed once, and its time counts as often as it runs.
    """
    program = regenerate(record)
    if program is None or len(program.steps) == 1:
        return {}
    policy, outcome = TimingPolicy.for_kind(device.kind), record.trial.outcome
    assert isinstance(outcome, Measurement)
    binaries = device.compiler().compile_program(program)
    parts = timed_alone(program)
    alone = tuple(
        Contender(dataclasses.replace(program, steps=steps), binaries, outcome) for steps, _ in parts.values()
    )
    with (
        contextlib.closing(device.open()) as runtime,
        contextlib.closing(
            Testbed(runtime, record.problem, 0, policy, guarded=False, judge=Unjudged(), lock=lock)
        ) as bed,
    ):
        timings = bed.side_by_side(alone, policy, peers=False).ours
    found: dict[str, float] = {}
    for ((name, _), (_, times)), timing in zip(parts.items(), timings, strict=True):
        found[name] = found.get(name, 0.0) + times * timing.median_ns / 1000
    return {name: round(us, 2) for name, us in found.items()}


def families_us(store: Store, problem: ws.Conv2d, device: DeviceRef) -> dict[str, float]:
    """Fastest trial of each family, in us, the fastest first."""
    best: dict[str, float] = {}
    for trial in store.trials(problem, device.device()):
        if trial.median_ns is not None:
            best[trial.family] = min(trial.median_ns, best.get(trial.family, math.inf))
    known = {family.name for family in FAMILIES}
    return {name: round(ns / 1000, 2) for ns, name in sorted((ns, name) for name, ns in best.items() if name in known)}


def row_of(point: Point, path: str, store: Store, device: DeviceRef, lock: DeviceLock) -> lines.Row:
    """Row of a pass: its stored winner, and the times that are measured afterwards."""
    record = ws.query(point.problem, str(device), store=path).record
    assert record is not None
    ours = record.timing.median_ns / 1000
    libraries = [each for each in record.baselines if "torch" in each.name]
    outcome = record.trial.outcome
    assert isinstance(outcome, Measurement)
    is_beside_tf32 = device.kind is DeviceKind.CUDA and point.problem.precision is ws.Precision.IEEE
    return {
        "ours": {"family": record.trial.family, "us": ours, "error": outcome.max_error},
        "cudnn_us": {layout_of(each.name): each.timing.median_ns / 1000 for each in libraries},
        "tf32_us": tf32_us(point.problem, device, lock) if is_beside_tf32 else {},
        "families_us": families_us(store, point.problem, device),
        "steps_us": steps_us(record, device, lock),
    }


def measure(path: str, seconds: float, points: list[Point], device: DeviceRef) -> None:
    """Adds a row for each pass. A pass that fails is reported, and the run continues."""
    results = Path(f"{path}.jsonl")
    done = {row["key"] for row in lines.latest(lines.read(results)) if lines.is_measured(row)} if seconds else set()
    compiler, deadlines = device.compiler(), Deadlines()
    with (
        Store.open(write_location(path), write=True) as store,
        Workshop.open(compiler, deadlines) as workshop,
        shared_device(device) as lock_file,
    ):
        for point in points:
            if point.problem.key() in done:
                continue
            start = time.monotonic()
            try:
                if seconds:
                    options = TuneOptions(trials=2000, time_limit_s=seconds, deadlines=deadlines)
                    tune(point.problem, (device,), store, options, SilentProgress(), workshop=workshop)
                row = row_of(point, path, store, device, DeviceLock(lock_file))
            except Exception as error:
                traceback.print_exc()
                row = {"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
            named = {"set": SET, "name": point.name, "key": point.problem.key(), "pass": str(point.problem.pass_)}
            row = {**named, **row, "took_s": round(time.monotonic() - start, 1)}
            lines.add(results, row)
            print(row, file=sys.stderr, flush=True)


def asked(points: Iterable[Point], changes: dict[str, Any]) -> Iterator[Point]:
    """The same layers in another type, precision or layout. Raises BadArgument for an invalid combination."""
    for each in points:
        name = " ".join((each.name, *changes.values()))
        yield Point(name, dataclasses.replace(each.problem, **changes))


def main(words: list[str] | None = None) -> None:
    parser: Any = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", metavar="STORE")
    parser.add_argument("seconds", metavar="SECONDS|table")
    parser.add_argument("layers", nargs="*", metavar="LAYER[:PASS]")
    for name in ("dtype", "precision", "layout"):
        parser.add_argument(f"--{name}", default=None)
    given = parser.parse_intermixed_args(words)
    if given.seconds != "table":
        changes = {name: value for name in ("dtype", "precision", "layout") if (value := getattr(given, name))}
        wanted = taken(asked(layers(given.layers), changes))
        measure(given.store, float(given.seconds), wanted, DeviceRef.parse("cuda:0"))
    found = lines.latest(lines.read(Path(f"{given.store}.jsonl")))
    for row in found:
        if not lines.is_measured(row):
            print(f"- {row['name']}: {row['failed']}")
    right = [row for row in found if lines.is_measured(row)]
    print_layers(right)
    print_steps(right)


if __name__ == "__main__":
    main()
