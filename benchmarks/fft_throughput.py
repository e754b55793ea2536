"""Tunes Fourier transforms of 256 MiB and prints each winner beside the device's copy and cuFFT, timed in turns.

    usage: python benchmarks/fft_throughput.py STORE TRIALS LIST...
such as: python benchmarks/fft_throughput.py fft.db 80 r2c:smooth r2c:squares c2r:squares r2c:padded c2c:256 r2c:32x32

A list is a kind and a size, or `smooth` (products of 2, 3, 5 and 7 from 8 to 256), `squares` (8x8 to 256x256) or
`padded` (27 in 32, 13 in 16, 57 in 64, 118 in 128, in one dimension and two; cuFFT copies into zeros first). The
inverse transforms are unscaled; for a scale cuFFT would need another pass.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator

import warpsmith as ws
from warpsmith.cli.operations.fft_bench import default_norm, filled
from warpsmith.cli.options import sizes
from warpsmith.cli.output import print_table
from warpsmith.generator.device import DeviceKind
from warpsmith.store.record import COPY, Measurement, Record

PADDED = ((32, 27), (16, 13), (64, 57), (128, 118))


def problem_of(kind: str, size: tuple[int, ...], valid: tuple[int, ...] | None = None) -> ws.Fft:
    """A batch of transforms that fills 256 MiB, including zeros, without a scale."""
    norm = ws.Norm(default_norm(kind, inverse=False))
    return filled(ws.Fft(size, kind=ws.Kind(kind), valid=valid, norm=norm), DeviceKind.CUDA)


def problems(spec: str) -> Iterator[ws.Fft]:
    """Problems of one list."""
    kind, size = spec.split(":")
    if size == "smooth":
        smooth = {2**a * 3**b * 5**c * 7**d for a in range(9) for b in range(6) for c in range(4) for d in range(3)}
        yield from (problem_of(kind, (n,)) for n in sorted(smooth) if 8 <= n <= 256)
    elif size == "squares":
        yield from (problem_of(kind, (n, n)) for n in (8, 16, 32, 64, 128, 256))
    elif size == "padded":
        for points, valid in PADDED:
            yield problem_of(kind, (points,), (valid,))
            yield problem_of(kind, (points, points), (valid, valid))
    else:
        yield problem_of(kind, sizes(size, "a size"))


def row(record: Record, seconds: float) -> tuple[list[str], float, float]:
    """Cells of a winner, its fraction of the copy's speed, and its speed-up over cuFFT."""
    outcome = record.trial.outcome
    assert isinstance(outcome, Measurement)
    problem, ours = record.problem, outcome.timing.median_ns
    times = {each.name: each.timing.median_ns for each in record.baselines}
    vendor = next((value for name, value in times.items() if name.startswith("cufft")), math.nan)
    cells = [
        problem.key().removeprefix("fft size="),
        f"{ours / 1000:.1f}",
        f"{problem.bytes / ours:.0f}",
        f"{100 * times[COPY] / ours:.1f}",
        f"{vendor / 1000:.1f}",
        f"{vendor / ours:.2f}",
        f"{outcome.max_error:.1e}",
        f"{record.trial.family} {record.trial.config}",
    ]
    print(f"{seconds:5.1f} s", *cells, file=sys.stderr, flush=True)
    return cells, times[COPY] / ours, vendor / ours


def main(store: str, trials: str, *lists: str) -> None:
    header = ["problem", "us", "GB/s", "% of copy", "cuFFT us", "speed-up", "error", "winner"]
    for spec in lists:
        rows = []
        for problem in problems(spec):
            started = time.monotonic()
            report = ws.tune(problem, device="cuda:0", trials=int(trials), store=store)
            if report.record is not None:
                rows.append(row(report.record, time.monotonic() - started))
        print(f"\n{spec}\n")
        print_table(header, [cells for cells, _, _ in rows])
        mean = math.exp(sum(math.log(speedup) for _, _, speedup in rows) / len(rows))
        parts, speedups = [part for _, part, _ in rows], [speedup for _, _, speedup in rows]
        print(f"\nleast part of copy speed {min(parts):.3f}; speed-up {min(speedups):.2f} to {max(speedups):.2f}")
        print(f"geometric mean {mean:.3f} over {len(rows)}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
