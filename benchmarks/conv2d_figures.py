"""Figures 1 to 6 of fbfft: the speed-up over cuDNN by problem size and output size, a heat map for each filter size.

    usage: python benchmarks/conv2d_figures.py RESULTS.jsonl [FOLDER]

RESULTS is a file of `conv2d_grid.py measure`. FOLDER, by default docs/images, gets conv2d-figure1.svg (k = 3) to
conv2d-figure6.svg (k = 13). As in the paper the problem size is S f f' and grows downwards, and the output size grows
to the right. A cell is the geometric mean of its points and passes. If cuDNN is faster at one of several, the smallest
speed-up follows in brackets. Cells without a sampled point stay empty, and cells whose points all have less than 30 us
of direct work are hatched. It needs Matplotlib and no GPU, and takes seconds.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", figures 1 to 6.
"""

from __future__ import annotations

import collections
import dataclasses
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from conv2d_bench import lines
from conv2d_bench.points import OUTPUTS, TAPS, grid, has_work

Cell = tuple[int, int]
"""Problem size S f f' and output size y."""
FIGURES = dict(zip(TAPS, range(1, 1 + len(TAPS)), strict=True))
MOST = 16.0
"""Speed-up at which the colour scale ends; it begins at its inverse."""


@dataclasses.dataclass(frozen=True, slots=True)
class HeatMap:
    """Contents of a figure."""

    taps: int
    ratios: dict[Cell, tuple[float, ...]]
    """Speed-ups of the points and passes in each cell."""
    points: int
    """Number of points of the paper's grid that the cells cover."""
    sizes: tuple[int, ...]
    """Problem sizes that have work with some output size, the smallest first."""
    idle: frozenset[Cell]
    """Cells of those sizes whose points all have too little work."""

    @property
    def speed_ups(self) -> dict[Cell, float]:
        """Geometric mean of each cell."""
        return {cell: statistics.geometric_mean(each) for cell, each in self.ratios.items()}

    @property
    def mean(self) -> float:
        """Geometric mean over all points and passes, as in `conv2d_grid.py table`."""
        every = [ratio for each in self.ratios.values() for ratio in each]
        return statistics.geometric_mean(every) if every else math.nan

    @property
    def empty(self) -> int:
        """Number of cells with work that were not measured."""
        return len(self.sizes) * len(OUTPUTS) - len(self.idle) - len(self.ratios)


def heat_map(taps: int, rows: Iterable[lines.Row]) -> HeatMap:
    """Heat map of k = `taps`, from rows of `conv2d_grid.py`. Rows of another k, or without cuDNN, are skipped."""
    ratios: dict[Cell, list[float]] = collections.defaultdict(list)
    points = set()
    for row in rows:
        if row.get("k") == taps and "ratio" in row:
            size = row["S"] * row["f"] * row["f'"]
            ratios[size, row["y"]].append(row["ratio"])
            points.add((row["S"], row["f"], row["f'"], row["y"]))
    places = [place for place in grid() if place[3] == taps]
    busy = {(s * f * filters, y) for s, f, filters, k, y in places if has_work((s, f, filters, k, y))}
    sizes = tuple(sorted({size for size, _ in busy} | {size for size, _ in ratios}))
    idle = {(size, y) for size in sizes for y in OUTPUTS} - busy - ratios.keys()
    found = {cell: tuple(each) for cell, each in ratios.items()}
    return HeatMap(taps, found, len(points), sizes, frozenset(idle))


def title(figure: HeatMap) -> str:
    """Title of a figure, with the numbers of measured and missing cells."""
    most = max(map(len, figure.ratios.values()), default=0)
    return (
        f"{figure.taps}x{figure.taps} filters: speed-up over cuDNN in float32, geometric mean {figure.mean:.2f}\n"
        f"{figure.points} sampled points in {len(figure.ratios)} cells, at most {most} a cell\n"
        f"{figure.empty} cells are not measured (empty), {len(figure.idle)} have less than 30 us of direct work "
        "(hatched)"
    )


def draw(figure: HeatMap, device: str, path: Path) -> None:
    """Writes a figure as SVG, with the same bytes for the same rows."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "warpsmith"
    from matplotlib import pyplot
    from matplotlib.patches import Rectangle

    canvas, axes = pyplot.subplots(figsize=(7.5, 2.2 + 0.24 * len(figure.sizes)), layout="constrained")
    speed_ups = figure.speed_ups
    shades = [[_shade(speed_ups.get((size, y))) for y in OUTPUTS] for size in figure.sizes]
    limit = math.log2(MOST)
    image = axes.imshow(shades, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
    for down, size in enumerate(figure.sizes):
        for across, y in enumerate(OUTPUTS):
            if (ratio := speed_ups.get((size, y))) is not None:
                colour = "white" if abs(math.log2(ratio)) > 0.6 * limit else "black"
                told = _told(ratio, min(figure.ratios[size, y]))
                axes.text(across, down, told, ha="center", va="center", fontsize=7, color=colour)
            elif (size, y) in figure.idle:
                corner = (across - 0.5, down - 0.5)
                axes.add_patch(Rectangle(corner, 1, 1, hatch="////", fill=False, edgecolor="0.8", linewidth=0))
    axes.set_xticks(range(len(OUTPUTS)), [str(y) for y in OUTPUTS])
    axes.set_yticks(range(len(figure.sizes)), [f"{size:,}" for size in figure.sizes], fontsize=7)
    axes.set(xlabel="output rows and columns", ylabel="problem size S f f'")
    axes.set_title(f"{title(figure)}\n{device}", fontsize=8)
    bar = canvas.colorbar(image, ax=axes, ticks=[-4, -2, 0, 2, 4])
    bar.ax.set_yticklabels(["1/16", "1/4", "1", "4", "16"])
    canvas.savefig(path, metadata={"Date": None})
    pyplot.close(canvas)


def _shade(ratio: float | None) -> float:
    return math.nan if ratio is None else math.log2(ratio)


def _told(ratio: float, least: float) -> str:
    told = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2f}"
    return f"{told} ({least:.2f})" if least < min(1.0, ratio) else told


def device_of(rows: Sequence[dict[str, Any]]) -> str:
    """Names of the devices of a file's runs."""
    return ", ".join(dict.fromkeys(str(row["run"]["device"]) for row in rows if "run" in row))


def main(results: str, folder: str = "docs/images") -> None:
    rows = lines.read(Path(results))
    measured = [row for row in lines.latest(rows) if row["set"] == "grid"]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for taps, number in FIGURES.items():
        figure = heat_map(taps, measured)
        if figure.ratios:
            draw(figure, device_of(rows), Path(folder) / f"conv2d-figure{number}.svg")
        print(f"figure {number}: {title(figure)}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
