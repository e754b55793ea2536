"""`warpsmith bench filter2d --sweep`: the design space of one filter size, as a table, a plot and all measurements."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from warpsmith.cli import files
from warpsmith.cli.output import print_json, table
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Accuracy, NonFinite
from warpsmith.generator.registry import families_for
from warpsmith.store.record import FailureKind
from warpsmith.tuner.plots import REMEDY, ImageFormat, PlotLine, can_plot, plot_sweep
from warpsmith.tuner.progress import format_failures, progress_for
from warpsmith.tuner.spaces.regions import plan_sweep
from warpsmith.tuner.spaces.sweep import Point, Sweep, points, sweep
from warpsmith.units import format_duration, format_share, format_time

_ACCURATE = {
    Accuracy.ELEMENTWISE: "",
    Accuracy.NORMWISE: ", accurate in norm",
    Accuracy.IMAGEWISE: ", accurate as an image",
}
HEADER = ("memory path", "outputs per thread", "time", "% of copy", "rows x columns", "config", "tried", "failed")


def run_sweep(problem: Filter2d, ref: DeviceRef, trials: int | None, seed: int, folder: Path, json: bool) -> int:
    """Sweeps the design space and writes sweep.json, sweep.md, sweep.svg and sweep.png into `folder`.

    Ctrl-C ends the sweep and keeps what was measured. Returns the exit code. Raises WarpsmithError if a file cannot be
    written or no config is correct.
    """
    families_for(problem, ref.device())  # raises, before any file is made, if there is nothing to measure
    _ = ref.compiler(CompilerChoice.AUTO, sanitize=False).identity
    plotted = can_plot()
    names = ["sweep.json", "sweep.md", *([f"sweep.{kind}" for kind in ImageFormat] if plotted else [])]
    _prepare(folder, names)
    if not plotted:
        print(f"warpsmith: the plot is left out; {REMEDY}", file=sys.stderr)
    plans = plan_sweep(problem, ref.device(), trials, seed)
    swept = sweep(problem, ref, plans, seed, progress_for(sys.stderr, quiet=False))
    found = points(swept.regions)
    text = _report(swept, found)
    figure = "\n![time over outputs per thread](sweep.svg)\n" if plotted and swept.right else ""
    files.save(folder / "sweep.json", json_module.dumps(swept.spec(), indent=1) + "\n")
    files.save(folder / "sweep.md", text + figure)
    if not swept.right:
        raise WarpsmithError(f"none of {swept.tried} configs is correct; {folder / 'sweep.json'} says why")
    if plotted:
        _plot(swept, found, folder)
    if json:
        print_json({**swept.spec(), "files": [str(folder / name) for name in names]})
    else:
        print(text)
        print(f"written to {folder}: {', '.join(names)}")
    return 0


def workload(problem: Filter2d) -> str:
    """Description of the workload, such as `image 512x512 float32, border valid`."""
    counts = (("plane", problem.planes), ("channel", problem.channels))
    several = "".join(f" x {count} {name}s" for name, count in counts if count > 1)
    rows, columns = problem.image
    accurate = _ACCURATE[problem.accuracy]
    nonfinite = ", nonfinite any" if problem.nonfinite is NonFinite.ANY else ""
    return f"image {rows}x{columns}{several} {problem.dtype}, border {problem.border}{accurate}{nonfinite}"


def _prepare(folder: Path, names: list[str]) -> None:
    """Creates the folder and checks that the files can be written, before minutes of measuring."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WarpsmithError(f"cannot make the folder {folder}: {error.strerror}; name another with --out") from None
    for name in names:
        files.check_writable(folder / name)


def _report(swept: Sweep, found: tuple[Point, ...]) -> str:
    facts = ", ".join((swept.device.name, *(f"{name} {value}" for name, value in swept.environment.items())))
    copy = "unknown" if swept.copy is None else format_time(swept.copy.median_ns)
    lines = (
        f"Design space of {swept.problem.key()}",
        "",
        f"{facts}; the copy takes {copy}; medians, each config timed alone",
        f"{swept.tried} of {swept.size} configs tried, in {len(swept.regions)} regions, "
        f"{format_duration(swept.elapsed_s)}{'; interrupted' if swept.interrupted else ''}",
        "",
        table(HEADER, (_cells(swept, point) for point in found)),
        "",
    )
    return "\n".join(lines)


def _cells(swept: Sweep, point: Point) -> tuple[str, ...]:
    failures = {kind: sum(result.failures.get(kind, 0) for result in point.regions) for kind in FailureKind}
    tried = sum(len(result.trials) for result in point.regions)
    tail = (f"{tried} of {sum(result.size for result in point.regions)}", format_failures(failures) or "-")
    best = point.best
    if best is None or best.median_ns is None:
        return (point.line, str(point.outputs), "-", "-", "-", "-", *tail)
    region = next(result.region for result in point.regions if best in result.trials)
    share = "-" if swept.copy is None else format_share(swept.copy.median_ns, best.median_ns)
    shape = f"{region.rows} x {region.columns}"
    return (point.line, str(point.outputs), format_time(best.median_ns), share, shape, best.config.key(), *tail)


def _plot(swept: Sweep, found: tuple[Point, ...], folder: Path) -> None:
    problem = swept.problem
    assert isinstance(problem, Filter2d)
    title = f"{problem.filter[0]}x{problem.filter[1]} filter, {workload(problem)}, {swept.device.name}"
    copy_ns = None if swept.copy is None else swept.copy.median_ns
    for kind in ImageFormat:
        files.save(folder / f"sweep.{kind}", plot_sweep(title, list(_lines(found)), copy_ns, kind))


def _lines(found: tuple[Point, ...]) -> Iterator[PlotLine]:
    for name, group in groupby(found, key=lambda point: point.line):
        best = ((point.outputs, point.best) for point in group)
        yield PlotLine(name, tuple((outputs, trial.median_ns) for outputs, trial in best if trial and trial.median_ns))
