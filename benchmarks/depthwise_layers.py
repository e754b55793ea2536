"""Depthwise and grouped layers beside cuDNN in float32: verifies each pass against float64, tunes it and times it in
turns.

    usage: python benchmarks/depthwise_layers.py [LAYER[:PASS] ...] [--seconds 5] [--trials N] [--all-families]
                                                 [--results FILE.jsonl] [--device cuda:0] [--seed 0]
such as: python benchmarks/depthwise_layers.py                          # all layers, 5 s of search a pass
         python benchmarks/depthwise_layers.py d7x28 g4x28:wgrad --trials 1   # what answers unsearched

A layer is one of LAYERS: `d7x28` is depthwise with 7x7 taps on planes of 28x28, `g4x28` has four channels per group.
The default and the starts are verified and timed, then configs of a search of SECONDS; with `--trials 1` only the
default. The fastest takes turns with cuDNN (its own search on, TF32 off) in both layouts, NCHW and NHWC. Only
`conv2d_depthwise` is tried. With `--all-families` all families that solve the layer are tried, and `conv2d_depthwise`
takes turns beside the winner.

`GB/s` are the bytes of all operands, read or written once, over warpsmith's time; `of peak` is the share of 64 TFLOP/s.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conv2d_bench import lines
from conv2d_bench.points import Point, taken
from conv2d_bench.rows import APART, LAST
from conv2d_bench.turns import Measuring, Settings

from warpsmith.cli.output import print_table
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.conv2d.sums.depthwise.depthwise_family import Conv2dDepthwise

FAMILY = Conv2dDepthwise.name
FLOPS_PER_NS = 64e3
STARTS = 8
"""Configs beside the default that are tried before a search begins."""

# Name: N, C, rows and columns, K, taps, stride, groups. The padding is half the filter.
LAYERS = {
    "d7x28": (32, 192, 28, 192, 7, 1, 192),
    "d5x28": (32, 192, 28, 192, 5, 1, 192),
    "d3x28": (32, 192, 28, 192, 3, 1, 192),
    "d31x56": (16, 128, 56, 128, 31, 1, 128),
    "d7x56": (32, 96, 56, 96, 7, 1, 96),
    "d7x14": (32, 384, 14, 384, 7, 1, 384),
    "d7x7": (32, 768, 7, 768, 7, 1, 768),
    "d3x112": (32, 32, 112, 32, 3, 1, 32),
    "d3x112s2": (32, 96, 112, 96, 3, 2, 96),
    "d5x27": (32, 192, 27, 192, 5, 1, 192),
    "d7x28n1": (1, 192, 28, 192, 7, 1, 192),
    "d7x28n256": (256, 192, 28, 192, 7, 1, 192),
    "m2x28": (32, 96, 28, 192, 3, 1, 96),
    "g4x28": (32, 128, 28, 128, 3, 1, 32),
    "g8x28": (32, 256, 28, 256, 3, 1, 32),
    "g16x14": (32, 512, 14, 512, 3, 1, 32),
}


def layer(name: str, pass_: Pass) -> Conv2d:
    images, channels, size, filters, taps, stride, groups = LAYERS[name]
    return Conv2d(
        (images, channels, size, size),
        (filters, channels // groups, taps, taps),
        stride=stride,  # type: ignore[arg-type]  # one number is both
        padding=taps // 2,  # type: ignore[arg-type]
        groups=groups,
        pass_=pass_,
    )


def points(words: list[str]) -> Iterator[Point]:
    """Each layer in one pass or in all three. Raises BadArgument for an unknown layer or pass."""
    for word in words or LAYERS:
        name, _, wanted = word.partition(":")
        if name not in LAYERS:
            raise BadArgument(f"{word} is no layer: there are {', '.join(LAYERS)}")
        if wanted and wanted not in list(Pass):
            raise BadArgument(f"{word}: {wanted} is no pass: there are {', '.join(Pass)}")
        for pass_ in (Pass(wanted),) if wanted else Pass:
            yield Point(f"{name} {pass_}", layer(name, pass_))


def table_line(row: lines.Row) -> tuple[str, ...]:
    """Cells of a pass."""
    if not lines.is_measured(row):
        return (str(row["name"]), str(row["failed"]), *[""] * 9)
    problem, ours, cudnn = Conv2d.of(row["problem"]), row["ours"], row["cudnn_us"]
    best = min(cudnn.values(), default=None)
    own = row["in_turns_us"].get(FAMILY)
    return (
        str(row["name"]),
        str(ours["family"]),
        f"{ours['us']:.2f}",
        "" if own is None else f"{own:.2f}",
        *("" if layout not in cudnn else f"{cudnn[layout]:.1f}" for layout in (APART, LAST)),
        "" if best is None else f"{best / ours['us']:.2f}",
        f"{problem.bytes / ours['us'] / 1e3:.0f}",
        f"{problem.flops / (1000 * ours['us'] * FLOPS_PER_NS):.0%}",
        f"{ours['error']:.1e}",
        str(ours["config"]),
    )


HEADER = ("layer", "family", "us", "own us", "cuDNN", "cuDNN last", "speed-up", "GB/s", "of peak", "error", "config")


def measure(wanted: list[Point], given: argparse.Namespace) -> Iterator[lines.Row]:
    """One row for each pass."""
    searched = given.trials is None or given.trials > 1
    settings = Settings(
        device=DeviceRef.parse(given.device),
        seconds=given.seconds if searched else 0.0,
        starts=STARTS if given.trials is None else min(given.trials - 1, STARTS),
        beside=(FAMILY,) if given.all_families else (),
        seed=given.seed,
        families=() if given.all_families else (FAMILY,),
    )
    with contextlib.closing(Measuring(settings)) as measuring:
        print(measuring.environment(), file=sys.stderr)
        yield from measuring.rows(wanted)


def main(words: list[str] | None = None) -> None:
    parser: Any = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", metavar="LAYER[:PASS]")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--trials", type=int, default=None)
    parser.add_argument("--all-families", action="store_true")
    parser.add_argument("--results", type=Path, default=None)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    rows = []
    for row in measure(taken(points(given.layers)), given):
        rows.append(row)
        print(" | ".join(table_line(row)), file=sys.stderr, flush=True)
        if given.results is not None:
            lines.add(given.results, row)
    print_table(HEADER, [table_line(row) for row in rows])


if __name__ == "__main__":
    main()
