"""Speed-up over cuFFT by batch size, as in figures 7 and 8 of fbfft (Vasilache et al. 2014), inside CUDA graphs.

    usage: python benchmarks/fft_batches.py RESULTS.jsonl [--figures 7 8] [--kinds r2c c2r ifft] [--store FILE]
                                            [--trials 0] [--commit TEXT]

It measures transforms of n = 8 to 256 points (figure 7) and n x n = 8x8 to 128x128 (figure 8), in batches of 4 to
65536: real to complex, complex to real, and complex to complex inverse, which is the paper's IFFT without the symmetry
of real signals. Inverse transforms are not scaled, as cuFFT's are not. Each problem runs the plan that answers it; with
`--trials`, problems of up to 2^26 points are searched first, with launches in graphs. Two graphs are replayed in turns:
many calls of our plan, and as many of cuFFT's plan, which is made once. Data of small batches stay in the L2 cache, for
both. Results are compared before times. `figures.py` draws the rows.

cuFFT's 2-D complex-to-real transforms overwrite their input, so that it is copied anew before each replay; within a
replay its values grow, which does not change its time.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from conv2d_bench import lines

import warpsmith as ws
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.fft import Kind, Norm
from warpsmith.store.location import write_location
from warpsmith.tuner.evaluate.timing_policy import Launching
from warpsmith.tuner.operations.fft.peers import cufft_plan
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.session import tune_into

BATCHES = (4, 32, 128, 1024, 4096, 16384, 65536)
SIZES = {7: tuple((n,) for n in (8, 16, 32, 64, 128, 256)), 8: tuple((n, n) for n in (8, 16, 32, 64, 128))}
KINDS: dict[str, dict[str, Any]] = {
    "r2c": {"kind": Kind.R2C},
    "c2r": {"kind": Kind.C2R, "norm": Norm.FORWARD},
    "ifft": {"kind": Kind.C2C, "inverse": True, "norm": Norm.FORWARD},
}
"""Options of the problems, by the name of their kind here."""
REPLAYS = 15
MOST_TUNED = 1 << 26
"""Points. Larger problems, whose float64 reference takes minutes, are not searched."""
GRAPH_NS = 300_000
"""Nanoseconds that the calls of one graph take, approximately: a replay's own launch is small beside it."""
DRIVER = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
COMPILERS = 8
"""Threads that make plans ahead."""
LARGEST_DIFFERENCE = 1e-6
"""Relative L2 distance of the two results from which a run ends."""


@dataclasses.dataclass(frozen=True, slots=True)
class BatchPoint:
    """One point of a figure."""

    figure: int
    kind: str
    problem: ws.Fft

    @property
    def key(self) -> str:
        return f"{self.kind} {self.problem.key()}"


def points(figures: list[int], kinds: list[str]) -> Iterator[BatchPoint]:
    for figure, kind in itertools.product(figures, kinds):
        for size, batch in itertools.product(SIZES[figure], BATCHES):
            yield BatchPoint(figure, kind, ws.Fft(size, batch, **KINDS[kind]))


def graph_of(calls: int, call: Callable[[], Any], stream: Any) -> Any:
    """A graph of `calls` calls."""
    with stream:
        call()  # warm-up: one-time work happens here
        stream.synchronize()
        stream.begin_capture()
        for _ in range(calls):
            call()
        return stream.end_capture()


def replay_ns(graph: Any, stream: Any, cupy: Any) -> float:
    """Nanoseconds of one replay, by events."""
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record(stream)
    graph.launch(stream)
    end.record(stream)
    end.synchronize()
    return 1e6 * float(cupy.cuda.get_elapsed_time(begin, end))


def compare(problem: ws.Fft, plan: Any) -> dict[str, Any]:
    """Median times of a call of each, in ns, and the difference of their results. Exits if the results differ."""
    import cupy
    from cupy.cuda import cufft

    (operand,) = problem.inputs
    source = cupy.random.standard_normal(real_shape(operand), dtype=cupy.float32)
    source = source if str(operand.dtype) == "float32" else source.view(cupy.complex64)
    if problem.kind is Kind.C2R:
        source = hermitian(problem, cupy)
    theirs_source = source.copy()
    ours = cupy.empty(problem.output.shape, str(problem.output.dtype))
    theirs = cupy.empty_like(ours)
    vendor = cufft_plan(problem, cufft)
    direction = cufft.CUFFT_INVERSE if problem.inverse else cufft.CUFFT_FORWARD
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        plan(source, out=ours, stream=stream)
        vendor.fft(theirs_source, theirs, direction)
    stream.synchronize()
    error = float(cupy.linalg.norm(ours - theirs) / cupy.linalg.norm(theirs))
    if not error < LARGEST_DIFFERENCE:
        raise SystemExit(f"{problem.key()}: results differ by {error}")
    floor_ns = max(2000.0, problem.bytes / 4)  # 4 TB/s
    calls = max(2, min(100, round(GRAPH_NS / floor_ns)))
    graphs = {
        "ours_ns": graph_of(calls, lambda: plan(source, out=ours, stream=stream), stream),
        "cufft_ns": graph_of(calls, lambda: vendor.fft(theirs_source, theirs, direction), stream),
    }
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for turn in range(REPLAYS + 3):
        for name, graph in graphs.items():
            cupy.copyto(theirs_source, source)
            cupy.cuda.Device().synchronize()
            took = replay_ns(graph, stream, cupy)
            if turn >= 3:
                samples[name].append(took / calls)
    return {**{name: median(each) for name, each in samples.items()}, "difference": error}


def real_shape(operand: Any) -> tuple[int, ...]:
    """Shape of the float32 array that has an operand's bytes."""
    *outer, last = operand.shape
    return (*outer, last * (1 if str(operand.dtype) == "float32" else 2))


def hermitian(problem: ws.Fft, cupy: Any) -> Any:
    """Spectra of random real signals: both libraries may ignore what is not Hermitian, each in its way."""
    signal = cupy.random.standard_normal((problem.batch, *problem.size), dtype=cupy.float32)
    return cupy.ascontiguousarray(cupy.fft.rfftn(signal, axes=tuple(range(1, signal.ndim))).astype(cupy.complex64))


def run_facts(commit: str) -> dict[str, Any]:
    """Header row: the device, its software, and the command."""
    import cupy
    from cupy.cuda import cufft

    facts = cupy.cuda.runtime.getDeviceProperties(0)
    return {
        "device": facts["name"].decode(),
        "driver": subprocess.check_output(DRIVER, text=True).splitlines()[0],
        "cufft": cufft.getVersion(),
        "cupy": cupy.__version__,
        "commit": commit,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": lines.command(),
    }


def measure(given: argparse.Namespace) -> None:
    """Appends a row for each point to the results; points that have one are skipped."""
    import cupy

    known = {row.get("key") for row in lines.read(given.results)}
    wanted = [each for each in points(given.figures, given.kinds) if each.key not in known]
    lines.add(given.results, {"run": run_facts(given.commit)})
    if given.trials:
        options = TuneOptions(trials=given.trials, launching=Launching.GRAPH)
        for each in wanted:
            if each.problem.points * each.problem.batch <= MOST_TUNED:
                devices = DeviceRef.parse_all("cuda:0")
                tune_into(write_location(given.store), each.problem, devices, options, SilentProgress())
    begin = time.monotonic()
    with ThreadPoolExecutor(COMPILERS) as pool:
        for _ in pool.map(lambda each: ws.plan(each.problem, "cuda:0", store=given.store), wanted):
            pass  # the compiled text is cached; a plan of its own is made below, since only 64 are kept
    print(f"{len(wanted)} plans compiled in {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)
    for each in wanted:
        plan = ws.plan(each.problem, "cuda:0", store=given.store)
        program = plan.match.program
        answer = {"match": str(plan.match.kind), "family": program.family, "config": program.config.key()}
        what = {"figure": each.figure, "kind": each.kind, "size": each.problem.size, "batch": each.problem.batch}
        lines.add(given.results, {"key": each.key, **what, **compare(each.problem, plan), **answer})
        cupy.get_default_memory_pool().free_all_blocks()  # the largest point takes 35 GB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--figures", nargs="+", type=int, choices=tuple(SIZES), default=list(SIZES))
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    parser.add_argument("--store")
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--commit", default="")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
