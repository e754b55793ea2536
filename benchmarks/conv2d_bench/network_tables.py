"""Prints tables of networks' layers and of whole networks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from conv2d_bench.lines import Row, is_measured
from conv2d_bench.tables import grouped
from warpsmith.cli.output import print_table

GOAL = 0.95
"""Least share of cuDNN's speed that an untuned layer shall have."""
NEAR, FAR = 1.15, 1.5
"""Factors over the best known time that an untuned layer shall be within, mostly and always."""


def print_choice(rows: Sequence[Row]) -> None:
    """Untuned answers beside cuDNN and beside the best known candidate, by type and pass, and the worst of both."""
    for row in rows:
        if not is_measured(row) or "us" not in row["answer"]:
            print(f"- {row['name']}: {row.get('failed') or row['first_failure']}")
    right = [row for row in rows if is_measured(row) and "us" in row["answer"]]
    if not right:
        return
    print_table(SUMMARY, [_summary(" ".join(key), own) for key, own in sorted(_by_kind(right).items())])
    slow = sorted((row for row in right if _cudnn(row) < GOAL), key=_cudnn)
    print(f"\nbelow {GOAL} of cuDNN:\n")
    print_table(HEADER, [_line(row) for row in slow])
    missed = sorted((row for row in right if _loss(row) > NEAR and row not in slow), key=_loss, reverse=True)
    print(f"\nothers above {NEAR} of the best candidate:\n")
    print_table(HEADER, [_line(row) for row in missed])


SUMMARY = ("passes", "count", f"of cuDNN, mean, least, {GOAL} or more", f"over the best: {NEAR} or less, most")
HEADER = ("pass", "answer", "us", "cuDNN us", "of cuDNN", "best", "us", "over best", "expected us, answer and best")


def print_accuracy(rows: Sequence[Row]) -> None:
    """Errors on a network's own data beside cuDNN's, and times, by network."""
    table = []
    right = [row for row in rows if is_measured(row)]
    for (network, numeric), own in grouped(right, lambda row: (str(row["network"]), str(row["numeric"]))).items():
        worst = max(own, key=lambda row: float(row["errors"]["ours"]) / max(float(row["errors"]["cudnn"]), 1e-12))
        errors = [f"{max(float(row['errors'][whose]) for row in own):.1e}" for whose in ("ours", "cudnn")]
        beside = "{ours:.1e}, {cudnn:.1e}".format(**worst["errors"])
        ratios = [float(row["ratio"]) for row in own]
        mean = f"{statistics.geometric_mean(ratios):.2f}, {min(ratios):.2f}"
        table.append((network, numeric, str(len(own)), *errors, f"{beside} {worst['key']} {worst['family']}", mean))
    if table:
        header = ("network", "numerics", "passes", "largest error", "cuDNN's", "worst beside cuDNN's")
        print_table((*header, "of cuDNN, mean, least"), table)


def print_steps(rows: Sequence[Row]) -> None:
    """Whole networks: ms of PyTorch and of the patched model."""
    table = []
    for row in rows:
        if not is_measured(row):
            print(f"- {row['network']} {row['numeric']}: {row['failed']}")
            continue
        cells = [str(row["network"]), str(row["numeric"]), "yes" if row["compiled"] else "no", f"{row['first_s']:.1f}"]
        cells += [_both(row, kind) for kind in ("inference", "training", "inference_kernels", "training_kernels")]
        table.append((*cells, f"{row['replaced']}, {row['left']}"))
    if table:
        header = ("network", "numerics", "compiled", "first step s", "inference ms: PyTorch, warpsmith", "training ms")
        header += ("kernels of inference", "kernels of training")
        print_table((*header, "layers replaced, left"), table)


def _both(row: Row, kind: str) -> str:
    """PyTorch's time, ours and their ratio; empty if they were not measured."""
    times = row.get(f"{kind}_ms")
    return "" if times is None else f"{times['torch']:.2f}, {times['warpsmith']:.2f} ({row[f'{kind}_ratio']:.2f})"


def _by_kind(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    found = grouped(rows, lambda row: tuple(str(row["name"]).split(" ")[1:]))
    return {**found, **grouped(rows, lambda row: (str(row["name"]).split(" ")[1],))}


def _cudnn(row: Row) -> float:
    return float(row.get("untuned_ratio", 1.0))


def _loss(row: Row) -> float:
    """Time of the answer over that of the best candidate in the same turns."""
    return float(row["answer"]["us"]) / float(row["ours"]["us"])


def _summary(name: str, rows: Sequence[Row]) -> tuple[str, ...]:
    ratios, losses = [_cudnn(row) for row in rows], [_loss(row) for row in rows]
    enough, near = (sum(each) / len(rows) for each in ((r >= GOAL for r in ratios), (x <= NEAR for x in losses)))
    beside = f"{statistics.geometric_mean(ratios):.2f}, {min(ratios):.2f}, {enough:.0%}"
    return name, str(len(rows)), beside, f"{near:.0%}, {max(losses):.2f}"


def _line(row: Row) -> tuple[str, ...]:
    answer, ours, cudnn = row["answer"], row["ours"], min(row["cudnn_us"].values(), default=0.0)
    expected = [row["expected_us"].get(each["family"]) for each in (answer, ours)]
    return (
        str(row["name"]),
        f"{_short(answer['family'])} {row['match']}",
        f"{answer['us']:.1f}",
        f"{cudnn:.1f}",
        f"{_cudnn(row):.2f}",
        _short(ours["family"]),
        f"{ours['us']:.1f}",
        f"{_loss(row):.2f}",
        ", ".join("none" if each is None else f"{each:.1f}" for each in expected),
    )


def _short(family: str) -> str:
    return family.removeprefix("conv2d_")
