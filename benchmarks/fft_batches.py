"""Speed-up over cuFFT by batch size, as in figures 7 and 8 of fbfft (Vasilache et al. 2014), inside CUDA graphs.

    usage: python benchmarks/fft_batches.py STORE TRIALS FOLDER [7|8]
           python benchmarks/fft_batches.py --plot FOLDER

It measures real transforms of n = 8 to 256 points (figure 7) and n x n = 8x8 to 128x128 (figure 8), in batches of 4 to
65536. Each problem of up to 2^26 points is tuned with launches in graphs; larger ones run the nearest winner. Then two
graphs are replayed in turns: many calls of its plan, and as many calls of cuFFT's plan, which is made once. Data of
small batches stay in the L2 cache, for both. It writes FOLDER/figure7.json and figure8.json; `--plot` draws those that
exist.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import warpsmith as ws
from warpsmith.devices.select import DeviceRef
from warpsmith.store.location import write_location
from warpsmith.tuner.evaluate.timing_policy import Launching
from warpsmith.tuner.operations.fft.peers import cufft_plan
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.session import tune_into

BATCHES = (4, 32, 128, 1024, 4096, 16384, 65536)
SIZES = {7: tuple((n,) for n in (8, 16, 32, 64, 128, 256)), 8: tuple((n, n) for n in (8, 16, 32, 64, 128))}
REPLAYS = 15
MOST_TUNED = 1 << 26
"""Points. Larger problems, whose float64 reference takes minutes, run the winner of the nearest one."""
GRAPH_NS = 300_000
"""Nanoseconds that the calls of one graph take, approximately: a replay's own launch is small beside it."""


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


def compare(problem: ws.Fft, store: str) -> dict[str, Any]:
    """Median times of a call of each, in ns, and the difference of their results. Exits if the results differ."""
    import cupy
    from cupy.cuda import cufft

    signal = cupy.random.standard_normal((problem.batch, *problem.size), dtype=cupy.float32)
    ours = cupy.empty(problem.output.shape, cupy.complex64)
    theirs = cupy.empty_like(ours)
    plan = ws.plan(problem, "cuda:0", store=store)
    vendor = cufft_plan(problem, cufft)
    stream = cupy.cuda.Stream(non_blocking=True)
    floor_ns = max(2000.0, problem.bytes / 4)  # 4 TB/s
    calls = max(2, min(100, round(GRAPH_NS / floor_ns)))
    graphs = {
        "ours_ns": graph_of(calls, lambda: plan(signal, out=ours, stream=stream), stream),
        "cufft_ns": graph_of(calls, lambda: vendor.fft(signal, theirs, cufft.CUFFT_FORWARD), stream),
    }
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    for turn in range(REPLAYS + 3):
        for name, graph in graphs.items():
            took = replay_ns(graph, stream, cupy)
            if turn >= 3:
                samples[name].append(took / calls)
    error = float(cupy.linalg.norm(ours - theirs) / cupy.linalg.norm(theirs))
    if not error < 1e-6:
        raise SystemExit(f"{problem.key()}: results differ by {error}")
    times = {name: median(each) for name, each in samples.items()}
    record = plan.match.record
    winner = f"{record.trial.family} {record.trial.config}" if record is not None else "default"
    return {"size": problem.size, "batch": problem.batch, **times, "difference": error, "winner": winner}


def measure(store: str, trials: int, folder: Path, figure: int) -> None:
    rows = []
    for size in SIZES[figure]:
        for batch in BATCHES:
            problem = ws.Fft(size, batch)
            if problem.points * batch <= MOST_TUNED:
                options = TuneOptions(trials=trials, launching=Launching.GRAPH)
                tune_into(write_location(store), problem, DeviceRef.parse_all("cuda:0"), options, SilentProgress())
            rows.append(compare(problem, store))
            print(rows[-1], file=sys.stderr, flush=True)
            (folder / f"figure{figure}.json").write_text(json.dumps(rows, indent=1) + "\n")
    show(figure, rows)


def show(figure: int, rows: list[dict[str, Any]]) -> None:
    """Prints a table of speed-ups, and their geometric mean."""
    speedups = {(tuple(row["size"]), row["batch"]): row["cufft_ns"] / row["ours_ns"] for row in rows}
    print(f"\nfigure {figure}\n\n| n | {' | '.join(map(str, BATCHES))} |\n|{'---|' * (len(BATCHES) + 1)}")
    for size in SIZES[figure]:
        cells = (f"{speedups[size, batch]:.2f}" for batch in BATCHES if (size, batch) in speedups)
        print(f"| {'x'.join(map(str, size))} | {' | '.join(cells)} |")
    print(f"\ngeometric mean {math.exp(sum(map(math.log, speedups.values())) / len(speedups)):.3f}", flush=True)


def plot(folder: Path) -> None:
    """Draws the figures from the measured files."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "warpsmith"
    from matplotlib import pyplot

    for figure in SIZES:
        measured = folder / f"figure{figure}.json"
        if not measured.exists():
            continue
        rows = json.loads(measured.read_text())
        canvas, axes = pyplot.subplots(figsize=(8, 5))
        for size in SIZES[figure]:
            line = [(row["batch"], row["cufft_ns"] / row["ours_ns"]) for row in rows if tuple(row["size"]) == size]
            axes.plot(*zip(*line, strict=True), marker="o", label="x".join(map(str, size)))
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set(xscale="log", xlabel="batch", ylabel="speed-up over cuFFT", ylim=(0, None))
        axes.legend(title="n")
        canvas.savefig(folder / f"fft-figure{figure}.svg", metadata={"Date": None})
        show(figure, rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--plot"]:
        plot(Path(sys.argv[2]))
    elif len(sys.argv) >= 4:
        Path(sys.argv[3]).mkdir(parents=True, exist_ok=True)
        for chosen in map(int, sys.argv[4:] or ("7", "8")):
            measure(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), chosen)
    else:
        sys.exit(__doc__)
