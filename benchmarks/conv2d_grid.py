"""Measures hundreds of convolution layers beside cuDNN in float32: a sample of fbfft's grid, and its section 5.4.

    usage: python benchmarks/conv2d_grid.py measure RESULTS.jsonl [SET ...] [--device cuda:0] [--seconds 0] [--starts 3]
                                            [--within 600] [--seed 1] [--each 34] [--all-passes 0] [--again]
                                            [--lanes 1] [--families NAME ...]
           python benchmarks/conv2d_grid.py table RESULTS.jsonl

SET is `grid` by default: `--each` points of the paper's table 2 for each k of 3, 5, 7, 9, 11 and 13, drawn with
`--seed` from those with more than 30 us of direct float32 work on an H200 and operands of at most 384 MiB. The pass is
random too; the first `--all-passes` points of each k are taken in all three. `small` is section 5.4: 3x3 filters, six
image sizes, four numbers of planes, all passes, with cuFFT's pipeline and warpsmith's in turns, cuBLAS in both. Other
sets are layers and lists of `conv2d_layers.py`, such as `table4` or `L3:wgrad`, and JSON files with problems.

Each point tries the defaults of the families that may be fastest, starts of the likeliest one, and then a search of
`--seconds`. The fastest candidate takes turns with cuDNN (TF32 off, its own search on) in both layouts, NCHW and NHWC,
of which the faster counts. Results are verified against float64 at some hundred places and against cuDNN's at all
others; small problems are verified whole. `--lanes` processes share the device, so that none waits for another one's
CPU work. Beside cuDNN's searches of large problems, which take up to 40 s, they disturb each other. On an H200 a point
takes about 2 s.

Each point adds a row to RESULTS. Points that have one are skipped, so that the same command continues an earlier run.
After `--within` seconds it starts no further point and finishes those that are started. Any prefix of `grid` and
`small` is balanced over k and passes. `--again` repeats points that failed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from conv2d_bench import lines
from conv2d_bench.points import LAYERS, LISTS, Point, is_layers, layers, of_file, sample, small_filters, taken
from conv2d_bench.tables import print_tables
from conv2d_bench.turns import Measuring, Settings

from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument

GRID, SMALL = "grid", "small"
PIPELINES = ("conv2d_fft_cublas", "conv2d_cufft")
"""warpsmith's transforms and cuFFT's, each with cuBLAS's products."""


def points(words: list[str], given: argparse.Namespace) -> Iterator[tuple[str, Point]]:
    """Each point with its set's name. Raises BadArgument for an unknown set."""
    for word in words:
        if word == GRID:
            yield from ((word, point) for point in sample(given.seed, given.each, given.all_passes))
        elif word == SMALL:
            yield from ((word, point) for point in small_filters(given.seed))
        elif is_layers(word):
            yield from (("layers", point) for point in layers([word]))
        elif word.endswith(".json"):
            yield from ((Path(word).stem, point) for point in of_file(Path(word)))
        else:
            known = ", ".join((GRID, SMALL, *LAYERS, *LISTS))
            raise BadArgument(f"{word} is no set of layers: there are {known}, and JSON files")


def measure(results: Path, given: argparse.Namespace) -> None:
    """Adds a row for each point that has none."""
    start, rows = time.monotonic(), lines.latest(lines.read(results))
    done = {(row["set"], row["key"]) for row in rows if lines.is_measured(row) or not given.again}
    wanted = dict.fromkeys(taken(points(given.sets or [GRID], given)))
    left = [(name, point) for name, point in wanted if (name, point.problem.key()) not in done]
    print(f"{len(wanted)} points, {len(left)} to measure", file=sys.stderr, flush=True)
    for name in dict.fromkeys(name for name, _ in left):
        settings = Settings(
            DeviceRef.parse(given.device),
            given.seconds,
            given.starts,
            PIPELINES if name == SMALL else (),
            given.seed,
            given.lanes,
            tuple(given.families),
        )
        with contextlib.closing(Measuring(settings)) as measuring:
            begun = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            run = {**measuring.environment(), "created": begun, "seconds": given.seconds, "starts": given.starts}
            lines.add(results, {"run": {**run, "set": name, "seed": given.seed, "command": lines.command()}})
            own = [point for its_set, point in left if its_set == name]
            for row in measuring.rows(own, start + given.within):
                lines.add(results, {"set": name, **row})
                print(f"{time.monotonic() - start:5.0f} s  {told(row)}", file=sys.stderr, flush=True)


def told(row: lines.Row) -> str:
    """Text of a row, in one line."""
    if not lines.is_measured(row):
        return f"{row['name']}: {row['failed']}"
    ours, ratio = row["ours"], row.get("ratio")
    cudnn = ", ".join(f"{layout} {us:.1f}" for layout, us in row["cudnn_us"].items())
    beside = f"cuDNN {cudnn} us, {ratio:.2f}x" if ratio else "no cuDNN"
    return f"{row['name']}: {ours['us']:.1f} us {ours['family']}, {beside}, {row['seconds']} s, {row['failures']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("measure", "table"))
    parser.add_argument("results", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--within", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=34)
    parser.add_argument("--all-passes", type=int, default=0)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--families", nargs="+", default=[])
    given = parser.parse_args()
    if given.action == "measure":
        measure(given.results, given)
    print_tables(lines.latest(lines.read(given.results)))


if __name__ == "__main__":
    main()
