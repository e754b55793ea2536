"""Prints tables of measured rows, beside the paper's numbers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from conv2d_bench import paper
from conv2d_bench.lines import Row, is_measured
from conv2d_bench.points import LISTS, TAPS
from warpsmith.cli import output
from warpsmith.cli.output import print_table
from warpsmith.generator.conv2d import Pass

Key = TypeVar("Key", bound=Hashable)

OURS, THEIRS = "conv2d_fft_cublas", "conv2d_cufft"


def print_tables(rows: Sequence[Row]) -> None:
    """Prints a table for each set of rows, and the failures.

    Args:
        rows: one row for each problem of a set.
    """
    for name, own in grouped(rows, lambda row: str(row["set"])).items():
        right = [row for row in own if is_measured(row)]
        print(f"\n{name}: {len(right)} points measured, {len(own) - len(right)} failed\n")
        for row in own:
            if not is_measured(row):
                print(f"- {row['name']}: {row['failed']}")
        compared = [row for row in right if "ratio" in row]
        if name == "grid":
            print_grid(compared)
        elif name == "small":
            print_small(right)
            print_by(compared, "x", lambda row: int(row["y"]) + int(row["k"]) - 1)
        else:
            print_layers(right)
        print_slower(compared)


def grouped(rows: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """Rows by a key, in the order in which the keys first appear."""
    found: dict[Key, list[Row]] = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def summary(ratios: Sequence[float]) -> tuple[str, ...]:
    """Count, geometric mean, minimum, maximum, and share of at least 1.0, of positive speed-ups."""
    share = sum(ratio >= 1 for ratio in ratios) / len(ratios)
    mean = statistics.geometric_mean(ratios)
    return (str(len(ratios)), f"{mean:.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}", f"{share:.0%}")


SUMMARY = ("points", "geometric mean", "worst", "best", "1.0 or more")


def print_grid(rows: Sequence[Row]) -> None:
    """Speed-ups over cuDNN by k, with the paper's, and rates in the paper's metric and in true operations."""
    by_k = grouped(rows, lambda row: int(row["k"]))
    table = []
    for taps in TAPS:
        if own := by_k.get(taps):
            top = paper.TOP_BY_K.get(taps)
            rates = (f"{max(row[name] for row in own):.1f}" for name in ("tred_s", "tflop_s"))
            told = "figure alone" if top is None else f"at most {top:.2f}"
            table.append((str(taps), *summary([row["ratio"] for row in own]), *rates, told))
    if rows:
        table.append(("all", *summary([row["ratio"] for row in rows]), "", "", ""))
    print_table(("k", *SUMMARY, "most TRED/s (T)", "most TFLOP/s", "paper: cuFFT over cuDNN 1.0, K40m"), table)
    print(
        "\nTRED/s are multiply-adds in the paper's metric, S f f' k k h w with the input's h and w; TFLOP/s are both "
        "operations of each multiply-add of a valid convolution, whatever the algorithm does.\n"
    )
    print_by(rows, "pass", lambda row: str(row["pass"]))
    print_by(rows, "family", lambda row: str(row["ours"]["family"]))


def print_by(rows: Sequence[Row], name: str, key: Callable[[Row], Hashable]) -> None:
    """Speed-ups over cuDNN, grouped by a key."""
    print_table((name, *SUMMARY), [(str(each), *summary([row["ratio"] for row in own])) for each, own in
                                   sorted(grouped(rows, key).items(), key=lambda item: str(item[0]))])  # fmt: skip
    print()


def print_small(rows: Sequence[Row]) -> None:
    """Prints `small_filters`, if a point has both pipelines."""
    if not pipelines(rows):
        print("no point has both pipelines\n")
        return
    print(small_filters(rows))
    print("\nBest family over cuDNN in float32, by the size x of the images:\n")


def small_filters(rows: Sequence[Row]) -> str:
    """Table of section 5.4: warpsmith's transforms in place of cuFFT and its transpositions, with cuBLAS between them
    in both.
    """
    ratios = pipelines(rows)
    told = paper.SMALL_FILTERS
    deviation = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
    ours = (statistics.fmean(ratios), deviation, statistics.geometric_mean(ratios), min(ratios), max(ratios))
    header = ("our transforms over cuFFT's, cuBLAS in both", "mean", "deviation", "geometric mean", "least", "largest")
    return output.table(
        header,
        [
            (f"{len(ratios)} points", *(f"{each:.2f}" for each in ours)),
            ("paper: fbfft over cuFFT, K40m", *(f"{each:.2f}" for each in told.values()), ""),
        ],
    )


def pipelines(rows: Iterable[Row]) -> list[float]:
    """Time of cuFFT's pipeline over that of warpsmith's, for rows in which both took turns."""
    times = (row["in_turns_us"] for row in rows)
    return [each[THEIRS] / each[OURS] for each in times if OURS in each and THEIRS in each]


def print_layers(rows: Sequence[Row]) -> None:
    """Each layer and pass, with the paper's times of table 4 if they exist, and sums by network for table 3."""
    order = {str(pass_): number for number, pass_ in enumerate(Pass)}
    table = []
    for row in rows:
        layer = str(row["name"]).partition(" ")[0]
        told = paper.TABLE4_MS.get(layer)
        theirs = "" if told is None else "{:.2f} and {:.2f} ms".format(*told[order[row["pass"]]])
        cudnn = min(row["cudnn_us"].values(), default=None)
        times = (f"{row['ours']['us']:.1f}", row["ours"]["family"], "" if cudnn is None else f"{cudnn:.1f}")
        ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
        rates = (f"{row['tred_s']:.1f}", f"{row['tflop_s']:.1f}", f"{row['ours']['error']:.1e}")
        table.append((str(row["name"]), *times, ratio, *rates, theirs))
    header = ("layer", "us", "family", "cuDNN us", "speed-up", "TRED/s (T)", "TFLOP/s", "error")
    print_table((*header, "paper: cuDNN and cuFFT"), table)
    print()
    if ratios := [row["ratio"] for row in rows if "ratio" in row]:
        print(f"geometric mean of the speed-up: {statistics.geometric_mean(ratios):.2f}\n")
    for network in paper.TABLE3_MS:
        print_network(network, rows)


def print_network(network: str, rows: Sequence[Row]) -> None:
    """Table 3: sums over a network's layers by pass. They omit the first layer, which is strided; the paper's include
    it.
    """
    known = {str(row["name"]): row for row in rows if "ratio" in row}
    table = []
    for pass_, (cudnn_ms, cufft_ms) in zip(Pass, paper.TABLE3_MS[network], strict=True):
        own = [known.get(f"{layer} {pass_}") for layer in LISTS[network]]
        whole = [row for row in own if row is not None]
        if len(whole) < len(own):
            return
        ours, theirs = (sum(each) / 1e3 for each in zip(*map(_pair, whole), strict=True))
        told = f"{cudnn_ms:.2f} and {cufft_ms:.2f} ms: {cudnn_ms / cufft_ms:.2f}"
        table.append((str(pass_), f"{ours:.3f}", f"{theirs:.3f}", f"{theirs / ours:.2f}", told))
    print(f"{network}, all layers but the first:\n")
    header = ("pass", "ours, ms", "cuDNN, ms", "speed-up", "paper, with the first layer: cuDNN and cuFFT")
    print_table(header, table)
    print()


def _pair(row: Row) -> tuple[float, float]:
    return float(row["ours"]["us"]), float(min(row["cudnn_us"].values()))


def print_slower(rows: Sequence[Row]) -> None:
    """Points at which cuDNN is faster, the slowest first."""
    slower = sorted((row for row in rows if row["ratio"] < 1), key=lambda row: float(row["ratio"]))
    if slower:
        print("cuDNN is faster at:\n")
        told = [(*_pair(row), row) for row in slower]
        table = [
            (str(row["name"]), f"{ours:.1f}", str(row["ours"]["family"]), f"{theirs:.1f}", f"{row['ratio']:.2f}")
            for ours, theirs, row in told
        ]
        print_table(("point", "us", "family", "cuDNN us", "speed-up"), table)
