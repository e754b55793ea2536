"""Tables of separately tuned layers: each pass beside cuDNN and TF32, and the time of each of its steps."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from conv2d_bench import paper
from conv2d_bench.lines import Row
from warpsmith.cli.output import print_table
from warpsmith.generator.conv2d import Pass

STAGES = ("first", "second", "product", "result")
"""Stages of a layer in the frequency domain: the transforms of both factors, the product, and the inverse transform.
The paper calls them A, B, Cgemm and C. The transforms here include the paper's transpositions.
"""


def print_layers(rows: Sequence[Row]) -> None:
    """Prints each pass with its winner, cuDNN and the best time of every family."""
    table, ratios, over_tf32 = [], [], []
    for row in rows:
        ours, cudnn, tf32 = row["ours"]["us"], min(row["cudnn_us"].values(), default=None), _tf32(row)
        if cudnn is not None:
            ratios.append(cudnn / ours)
        if tf32 is not None:
            over_tf32.append(tf32 / ours)
        others = ", ".join(f"{name} {us:.1f}" for name, us in row["families_us"].items())
        numbers = (
            _number(ours),
            _number(cudnn),
            _number(tf32),
            "" if cudnn is None else f"{cudnn / ours:.2f}",
            "" if tf32 is None else f"{tf32 / ours:.2f}",
        )
        table.append((str(row["name"]), str(row["ours"]["family"]), *numbers, f"{row['ours']['error']:.1e}", others))
    header = ("layer", "family", "us", "cuDNN", "its TF32", "speed-up", "over TF32", "error", "families, us")
    print_table(header, table)
    for what, each in (("the same precision", ratios), ("TF32", over_tf32)):
        if each:
            mean = statistics.geometric_mean(each)
            print(f"\ngeometric mean of {len(each)} speed-ups over cuDNN in {what}: {mean:.2f}")
    print()


def print_steps(rows: Sequence[Row]) -> None:
    """Table 5: steps of winners that have several, in us, and the paper's in ms."""
    order = {str(pass_): number for number, pass_ in enumerate(Pass)}
    table = []
    for row in rows:
        steps = dict(row["steps_us"])
        if not steps:
            continue
        known = [steps.pop(stage, None) for stage in STAGES]
        rest = ", ".join(f"{name} {us:.1f}" for name, us in steps.items())
        told = paper.TABLE5_MS.get(str(row["name"]).partition(" ")[0])
        theirs = "" if told is None else ", ".join(f"{each:g}" for each in told[order[row["pass"]]])
        whole = (f"{sum(row['steps_us'].values()):.1f}", f"{row['ours']['us']:.1f}")
        table.append((str(row["name"]), str(row["ours"]["family"]), *map(_number, known), rest, *whole, theirs))
    columns = ("FFT A", "FFT B", "product", "inverse", "other steps", "sum", "whole")
    print_table(("layer", "family", *columns, f"paper, ms: {', '.join(paper.TABLE5_STEPS)}"), table)


def _tf32(row: Row) -> float | None:
    """cuDNN's TF32 time in its faster layout. Rows of earlier versions have one number, or none."""
    found = row["tf32_us"]
    return min(found.values(), default=None) if isinstance(found, dict) else found


def _number(us: float | None) -> str:
    return "" if us is None else f"{us:.1f}"
