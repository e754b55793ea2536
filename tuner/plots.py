"""Plots of measurements in the style of the paper's figures. The only module that imports Matplotlib.

Source: figures 2 to 5 of Iandola et al. 2013, "Communication-minimizing 2D convolution in GPU registers".
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import io
import math
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REMEDY = 'a plot needs Matplotlib: pip install "warpsmith[plots]"'
"""Message for a plot request without Matplotlib."""

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Palette of Okabe and Ito, which colour-blind readers can distinguish."""
_MARKERS = "osD^vPXh<"
"""Markers; their number differs from that of the colours, so that two lines differ in at least one of the two."""
_COPY = "copy"


class ImageFormat(enum.StrEnum):
    SVG = "svg"
    PNG = "png"


@dataclasses.dataclass(frozen=True, slots=True)
class PlotLine:
    """One line of a plot: pairs of a position on the x axis and a time in ns, from left to right."""

    name: str
    points: tuple[tuple[float, float], ...]


def can_plot() -> bool:
    """True if Matplotlib is installed."""
    return find_spec("matplotlib") is not None


def plot_sweep(title: str, lines: Sequence[PlotLine], copy_ns: float | None, image: ImageFormat) -> bytes:
    """Plots times over outputs per thread, one line per memory path, with the copy's time as a level; like figures 2
    and 3.

    Both scales are logarithmic: paths lie further apart than they did in the paper.

    Args:
        title: one line.
        lines: x is the number of outputs per thread, 1 or more. A line without points is named and not drawn.
        copy_ns: the copy's time in ns; None if unknown.
        image: file format.

    Returns:
        The file's content; equal arguments give equal SVGs.
    """
    with _axes(title, "outputs per thread", image) as (axes, file):
        for index, line in enumerate(lines):
            _draw(axes, line, index)
        if copy_ns is not None:
            axes.axhline(copy_ns / 1e3, color="0.45", linestyle="--", linewidth=1, label=_COPY, gid=_gid(_COPY))
        axes.set_xscale("log", base=2)
        _label_powers_of_two(axes, max((x for line in lines for x, _ in line.points), default=1))
        axes.set_yscale("log")
        _label_a_few_times(axes)
    return file.getvalue()


def plot_comparison(
    title: str, x_label: str, sizes: Sequence[str], lines: Sequence[PlotLine], copies: PlotLine, image: ImageFormat
) -> bytes:
    """Plots times over sizes, one line per library, on a logarithmic scale, with the copy as the floor; like figures 4
    and 5.

    Args:
        title: one line.
        x_label: meaning of the sizes, such as `filter (rows x columns)`.
        sizes: labels of the sizes, from left to right.
        lines: x is an index of `sizes`.
        copies: line of the device's own copy of as many bytes as the problem must move.
        image: file format.

    Returns:
        The file's content; equal arguments give equal SVGs.
    """
    with _axes(title, x_label, image) as (axes, file):
        for index, line in enumerate(lines):
            _draw(axes, line, index)
        xs, ys = _coordinates(copies)
        axes.plot(xs, ys, color="0.45", linestyle="--", linewidth=1, label=copies.name, gid=_gid(copies.name))
        axes.set_xticks(range(len(sizes)), sizes)
        axes.set_yscale("log")
        _label_a_few_times(axes)
    return file.getvalue()


@contextlib.contextmanager
def _axes(title: str, x_label: str, image: ImageFormat) -> Iterator[tuple[Axes, io.BytesIO]]:
    """Yields axes to draw on, and the file that holds the plot afterwards."""
    from matplotlib import style
    from matplotlib.figure import Figure

    # The user's own settings are ignored, and the salt makes the identifiers in an SVG reproducible.
    settings = {"svg.hashsalt": "warpsmith", "svg.fonttype": "none", "font.size": 9.0}
    with style.context(settings, after_reset=True):
        figure = Figure(figsize=(8, 4), layout="constrained")
        axes = figure.add_subplot()
        file = io.BytesIO()
        yield axes, file
        figure.suptitle(title, fontsize=9, x=0.01, horizontalalignment="left")  # has a line of its own
        axes.set_xlabel(x_label)
        axes.set_ylabel("time (us)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        figure.legend(loc="outside right upper", frameon=False)
        metadata = {"Date": None} if image is ImageFormat.SVG else None
        figure.savefig(file, format=str(image), dpi=150, metadata=metadata)


def _draw(axes: Axes, line: PlotLine, index: int) -> None:
    colour, marker = _COLOURS[index % len(_COLOURS)], _MARKERS[index % len(_MARKERS)]
    xs, ys = _coordinates(line)
    axes.plot(xs, ys, color=colour, marker=marker, markersize=4, linewidth=1.2, label=line.name, gid=_gid(line.name))


def _coordinates(line: PlotLine) -> tuple[list[float], list[float]]:
    """X positions, and times in us."""
    return [x for x, _ in line.points], [ns / 1e3 for _, ns in line.points]


def _gid(name: str) -> str:
    return "line-" + "".join(letter if letter.isalnum() else "-" for letter in name)


def _label_powers_of_two(axes: Axes, largest: float) -> None:
    from matplotlib.ticker import NullLocator

    powers = math.ceil(math.log2(largest)) + 1
    ticks = [2**power for power in range(0, powers, 1 if powers <= 10 else 2)]  # more labels would overlap
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def _label_a_few_times(axes: Axes) -> None:
    """Labels times as plain numbers, several per power of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axes.get_ylim()
    # Labels at 1, 2 and 5 alone may be a single one within about a decade.
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high > 20 * low else (1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
