"""Tunes layers whose float64 references are large, and prints the time and host memory of each run.

    python benchmarks/large_layers.py [--device cuda:0] [--limit 4] [--only 512x512x512] [--references]

Each line has the wall time of a whole tuning run, the most memory that its processes had together, the winner, and the
parts of the run that failed. The goal for each run is 30 s and 8 GiB.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import warpsmith as ws
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.problem import Problem
from warpsmith.tuner.evaluate.device_reference import DeviceReference, ReferenceBuffers
from warpsmith.tuner.operations.registry import judge_of, random_operands
from warpsmith.tuner.run import session

GOAL_S, GOAL_BYTES = 30.0, 8 << 30
LAYERS = (
    Conv2d((1, 128, 512, 512), (128, 128, 3, 3), padding=1),
    Conv2d((1, 128, 512, 512), (128, 128, 3, 3), padding=1, dtype="float16", precision="f16"),
    Conv2d((4, 512, 512, 512), (512, 512, 3, 3), padding=1, dtype="float16", precision="f16", layout="nhwc"),
    Conv2d((4, 512, 512, 512), (512, 512, 3, 3), padding=1, dtype="float16", precision="f16"),
)


class Watch(threading.Thread):
    """Samples the most memory that this process and its descendants have together. Shared pages count once per
    process.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most_bytes = 0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.05):
            self.most_bytes = max(self.most_bytes, sum(map(_private_bytes, _family(os.getpid()))))

    def end(self) -> None:
        self._ended.set()
        self.join()


def _family(process: int) -> Iterator[int]:
    yield process
    with contextlib.suppress(OSError):
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            for child in children.read_text().split():
                yield from _family(int(child))


def _private_bytes(process: int) -> int:
    """Bytes of anonymous pages, those that the process has written to."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("RssAnon")).split()[1])
    return 0


def time_reference(problem: Conv2d, device: DeviceRef) -> str:
    """Times the float64 kernels for both sums, and checks a sample of their results."""
    runtime, kernels = device.open(), judge_of(problem).kernels(problem)
    assert kernels is not None
    operands = random_operands(problem, 0)
    inputs = {}
    for operand in problem.inputs:
        inputs[operand.name] = runtime.allocate(operand.span_bytes).address
        runtime.upload(inputs[operand.name], np.ascontiguousarray(operands[operand.name]))
    count = problem.output.components.size
    buffers = ReferenceBuffers(runtime.allocate(8 * count), runtime.allocate(8 * count))
    compiler = device.compiler(CompilerChoice.AUTO)
    start = time.monotonic()
    reference = DeviceReference(runtime, compiler, problem, kernels, inputs, buffers)
    compiled = time.monotonic()
    reference.compute()
    first = time.monotonic()
    reference.compute()
    second = time.monotonic()
    from warpsmith.tuner.evaluate.device_reference import sampled_count, sampled_indices

    judge = judge_of(problem)
    indices = sampled_indices(problem.output, sampled_count(judge.terms(problem)))
    reference.check(judge.samples(problem, operands, indices))
    sampled = time.monotonic()
    rate = 2 * kernels.multiply_adds(problem) / (second - first) / 1e12
    runtime.close()
    return (
        f"compiled {compiled - start:.2f} s, first {first - compiled:.2f} s, then {second - first:.3f} s "
        f"({rate:.1f} TFLOP/s), sample of {len(indices)} right in {sampled - second:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--limit", type=float, default=4.0, help="seconds of searching")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--only", default="", help="a regular expression that a layer's key matches somewhere")
    parser.add_argument("--references", action="store_true", help="time the float64 kernels alone")
    arguments = parser.parse_args()
    usual = session.tune

    def timed(problem: Problem, *given: Any, **options: Any) -> Any:
        start = time.monotonic()
        try:
            return usual(problem, *given, **options)
        finally:
            print(f"        {time.monotonic() - start:5.1f} s {problem.key()}", flush=True)

    session.tune = timed  # `session.tune` calls itself for the stages of pipelines, so those are timed too
    problems = [dataclasses.replace(layer, pass_=pass_) for layer in LAYERS for pass_ in Pass]
    for problem in problems:
        if not re.search(arguments.only, problem.key()):
            continue
        print(problem.key(), flush=True)
        if arguments.references:
            print("   ", time_reference(problem, DeviceRef.parse(arguments.device)), flush=True)
            continue
        watch, start = Watch(), time.monotonic()
        watch.start()
        try:
            with tempfile.TemporaryDirectory() as folder:
                report = ws.tune(
                    problem,
                    device=arguments.device,
                    trials=arguments.trials,
                    time_limit=arguments.limit,
                    store=str(Path(folder) / "store.db"),
                )
        except Exception as error:  # the next layer is still informative
            print(f"    FAILED: {type(error).__name__}: {error}", flush=True)
            continue
        finally:
            took = time.monotonic() - start
            watch.end()
            held = watch.most_bytes
            verdict = "meets" if took <= GOAL_S and held <= GOAL_BYTES else "MISSES"
            print(f"    {took:.1f} s, {held / 2**30:.2f} GiB of host memory: {verdict} the goal", flush=True)
        assert report.record is not None
        trial = report.record.trial
        print(f"    {trial.family} {(trial.median_ns or 0) / 1e6:.3f} ms; {report.tried} trials", flush=True)
        print(f"    failures: {dict(report.failures)}; costs: {report.costs.spec()}", flush=True)
        for baseline in report.record.baselines:
            print(f"    beside: {baseline.name} {baseline.timing.median_ns / 1e6:.3f} ms", flush=True)
        for left in report.record.left_out:
            print(f"    left out: {left.name}: {left.reason}", flush=True)
        for each in report.part_failures:
            print(f"    failed part: {each.message}", flush=True)


if __name__ == "__main__":
    main()
