"""Time of a chunk of a stream through a long filter: in CUDA graphs, and as a call from Python.

    usage: python benchmarks/filter_streams.py [--json]

Weights are bound, so that their spectra are made once, and the state is a ring. `plan` is a call of the plan in a CUDA
graph of 30 calls, `stream` is the same with the stream's own count of the samples, `call` is a call from Python that
follows others, and `wait` one that waits for its result. `bound` is the time of the bytes that a chunk reads, spectra
and samples, at the rate of a device copy of 256 MiB in the same run. `torch.fft` transforms the whole window, with the
filter's spectrum made before, in a graph too. Medians, in us. Each result is compared with float64 transforms, relative
to the largest sample of the channel times the largest gain of the filter.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

import warpsmith as ws
from warpsmith.generator.filter1d.partitioned_geometry import PartitionedGeometry

CALLS, REPLAYS, WAITS = 30, 9, 100


@dataclasses.dataclass(frozen=True)
class Case:
    """A chunk, its filter and its channels."""

    samples: int
    taps: int
    channels: int
    filters: int

    @property
    def problem(self) -> ws.Filter1d:
        width = 1 << (self.taps + self.samples - 2).bit_length()
        several = {"channels": self.channels, "filters": self.filters}
        ring = {"state": "carried", "circular": True, "state_width": width}
        return ws.Filter1d(self.samples, self.taps, mode="causal", **several, **ring)


CASES = (
    Case(480, 16_384, 1, 1),
    Case(480, 16_384, 64, 1),
    Case(480, 16_384, 64, 64),
    Case(32, 401_310, 1, 1),
    Case(32, 401_310, 64, 1),
    Case(32, 401_310, 64, 64),
)
"""dsp.stackexchange 60745 and 25931, with one channel and with 64."""


def in_graph(work: Callable[[], object], calls: int = CALLS) -> float:
    """Median us of one call, in a graph of `calls`."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            work()
    found = []
    for _ in range(REPLAYS + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        found.append(1000 * begin.elapsed_time(end) / calls)
    return median(found[1:])


def from_python(work: Callable[[], object]) -> tuple[float, float]:
    """us of a call among many, and median us of a call that waits for its result."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(WAITS):
        work()
    torch.cuda.synchronize()
    many, waited = (time.perf_counter() - start) / WAITS, []
    for _ in range(WAITS):
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        waited.append(time.perf_counter() - start)
    return 1e6 * many, 1e6 * median(waited)


def copy_bytes_per_us() -> float:
    """Bytes that a device copy reads and writes in one us."""
    source = torch.randn(1 << 26, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / in_graph(lambda: target.copy_(source), 5)


def row_of(case: Case, rate: float) -> dict[str, Any]:
    torch.manual_seed(1)
    problem, plan = case.problem, ws.plan(case.problem, "cuda:0")
    operands = {each.name: each.shape for each in problem.inputs}
    chunk, weights, state = (torch.randn(operands[name], device="cuda") for name in ("signal", "weights", "state"))
    positions = torch.zeros(operands["positions"], dtype=torch.int32, device="cuda")
    window = torch.cat([state.reshape(case.channels, -1)[:, 1 - case.taps :], chunk.reshape(case.channels, -1)], 1)
    held = plan.hold(weights=weights)
    result, flat = held(chunk, state, positions), weights.reshape(case.filters, -1).flip(1)
    points = window.shape[1]
    gains = torch.fft.rfft(flat.double(), points)
    right = torch.fft.irfft(torch.fft.rfft(window.double()) * gains, points)[:, -case.samples :]
    scale = gains.abs().amax(1, keepdim=True) * window.abs().amax(1, keepdim=True)
    error = ((result.reshape(right.shape) - right).abs() / scale).max().item()
    stream = held.stream()
    size = 1 << (points - 1).bit_length()
    spectrum = torch.fft.rfft(flat, size)
    geometry = PartitionedGeometry.of(problem, plan.match.program.config)
    call, wait = from_python(lambda: stream(chunk))
    return {
        **dataclasses.asdict(case),
        "plan": in_graph(lambda: held(chunk, state, positions, out=result)),
        "stream": in_graph(lambda: stream(chunk)),
        "call": call,
        "wait": wait,
        "bound": geometry.chunk_bytes / rate,
        "torch.fft": in_graph(lambda: torch.fft.irfft(torch.fft.rfft(window, size) * spectrum, size), 5),
        "MB": geometry.chunk_bytes / 1e6,
        "error": error,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object for each row")
    arguments = parser.parse_args()
    rate = copy_bytes_per_us()
    if not arguments.json:
        print(f"{torch.cuda.get_device_name()}, copy {rate / 1000:.0f} GB/s, {torch.__version__}")
    for number, case in enumerate(CASES):
        row = row_of(case, rate)
        if arguments.json:
            print(json.dumps(row))
            continue
        if number == 0:
            print(" | ".join(row))
        print(" | ".join(f"{each:.3g}" if isinstance(each, float) else str(each) for each in row.values()))


if __name__ == "__main__":
    main()
