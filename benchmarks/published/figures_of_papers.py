"""Tables and pictures of transforms, layers and filters, from stored rows."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from conv2d_bench import lines, tables
from conv2d_bench.lines import Row

from warpsmith.cli.output import table

KIND_TITLES = {"r2c": "real to complex", "c2r": "complex to real", "ifft": "complex to complex, inverse"}


def measured_by(rows: Sequence[Row]) -> str:
    """Line that names the devices, their software and the commands of the runs of some rows."""
    runs = [row["run"] for row in rows if "run" in row]
    return "\n".join(dict.fromkeys(map(_measured_by, runs)))


def _measured_by(run: Mapping[str, Any]) -> str:
    facts = (f"{name} {run[name]}" for name in ("driver", "cufft", "commit") if run.get(name))
    day = str(run.get("created", ""))[:10]
    return f"{', '.join(filter(None, (run['device'], *facts, day)))}: `{run['command']}`"


def speed_ups(rows: Sequence[Row], figure: int, kind: str) -> dict[tuple[int, ...], dict[int, float]]:
    """Speed-up over cuFFT by size and batch, of one kind of transforms of figure 7 or 8."""
    found: dict[tuple[int, ...], dict[int, float]] = {}
    for row in rows:
        if row.get("figure") == figure and row["kind"] == kind:
            found.setdefault(tuple(row["size"]), {})[row["batch"]] = row["cufft_ns"] / row["ours_ns"]
    return found


def batches_table(figure: int) -> Callable[[Sequence[Row]], str]:
    """Table of figure 7 or 8: for each kind, speed-ups by size and batch, and their geometric mean."""

    def written(rows: Sequence[Row]) -> str:
        parts = [measured_by(rows)]
        for kind, title in KIND_TITLES.items():
            if not (found := speed_ups(rows, figure, kind)):
                continue
            batches = sorted({batch for each in found.values() for batch in each})
            every = [ratio for each in found.values() for ratio in each.values()]
            mean = statistics.geometric_mean(every)
            parts.append(f"{title}: geometric mean {mean:.2f}, least {min(every):.2f}, largest {max(every):.2f}")
            cells = (
                ("x".join(map(str, size)), *(f"{each[batch]:.2f}" if batch in each else "" for batch in batches))
                for size, each in found.items()
            )
            parts.append(table(("n", *map(str, batches)), cells))
        return "\n\n".join(parts)

    return written


def draw_batches(figure: int) -> Callable[[Sequence[Row], Path], None]:
    """Picture of figure 7 or 8: speed-up against the batch, a panel for each kind and a line for each size."""

    def draw(rows: Sequence[Row], path: Path) -> None:
        pyplot = plotter()
        kinds = [kind for kind in KIND_TITLES if speed_ups(rows, figure, kind)]
        canvas, axes = pyplot.subplots(1, len(kinds), figsize=(4.5 * len(kinds), 4.5), sharey=True, squeeze=False)
        for panel, kind in zip(axes[0], kinds, strict=True):
            for size, each in speed_ups(rows, figure, kind).items():
                panel.plot(list(each), list(each.values()), marker="o", label="x".join(map(str, size)))
            panel.axhline(1, color="black", linewidth=0.8)
            panel.set(xscale="log", xlabel="batch", ylim=(0, None), title=KIND_TITLES[kind])
        axes[0][0].set_ylabel("speed-up over cuFFT")
        axes[0][-1].legend(title="points")
        save(canvas, path)

    return draw


def small_filters_table(rows: Sequence[Row]) -> str:
    """Tables of section 5.4: our transforms in place of cuFFT's beside the paper's figures, and the best family beside
    cuDNN.
    """
    points = [row for row in rows if "key" in row and lines.is_measured(row)]
    beside = [row for row in points if "ratio" in row]
    parts = [measured_by(rows), tables.small_filters(points)]
    header = "our transforms over cuFFT's: {}"
    for name, size in (("image", _image_side), ("planes", _planes)):
        parts.append(_summaries(header.format(name), points, size, tables.pipelines))
    for name, size in (("image", _image_side), ("planes", _planes)):
        parts.append(_summaries(f"best family over cuDNN: {name}", beside, size, _ratios))
    return "\n\n".join(parts)


def _image_side(row: Row) -> int:
    return int(row["y"]) + int(row["k"]) - 1


def _planes(row: Row) -> int:
    return int(row["S"])


def _ratios(rows: Sequence[Row]) -> list[float]:
    return [row["ratio"] for row in rows]


def _summaries(
    header: str, rows: Sequence[Row], key: Callable[[Row], int], ratios: Callable[[Sequence[Row]], list[float]]
) -> str:
    """Table of speed-ups, grouped by a key."""
    groups = sorted(tables.grouped(rows, key).items())
    return table((header, *tables.SUMMARY), [(str(name), *tables.summary(ratios(own))) for name, own in groups])


def paths_table(rows: Sequence[Row]) -> str:
    """Table of the best time of each memory path, in us, by filter."""
    found = {(row["path"], row["filter"]): row for row in rows if "key" in row}
    filters = list(dict.fromkeys(name for _, name in found))
    lowest = {each: min(row["us"] for (_, name), row in found.items() if name == each) for each in filters}
    cells = [
        (path, *(_path_cell(found.get((path, each)), lowest[each]) for each in filters))
        for path in dict.fromkeys(path for path, _ in found)
    ]
    return "\n\n".join([measured_by(rows), table(("path, us (times the best)", *filters), cells)])


def _path_cell(row: Row | None, lowest: float) -> str:
    return "" if row is None else f"{row['us']:.1f} ({row['us'] / lowest:.2f})"


def plotter() -> Any:
    """Matplotlib's pyplot, which writes the same bytes for the same drawing."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "warpsmith"
    from matplotlib import pyplot

    return pyplot


def save(canvas: Any, path: Path) -> None:
    canvas.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    plotter().close(canvas)
