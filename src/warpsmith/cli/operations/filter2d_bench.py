"""`warpsmith bench filter2d`: stored image filters beside cuDNN, CuPy and NPP on a GPU, SciPy on the host; with
`--sweep`, the design space of one filter size as a table, a plot and all measurements.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json as json_module
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from warpsmith.cli.benching import (
    COPY_SHARE,
    COPY_TIME,
    ERROR,
    FASTEST_PEER,
    FOUND,
    RATE,
    TIME,
    Column,
    Output,
    PlotOption,
    Results,
    Row,
    SaveOption,
    Subject,
    SustainedOption,
    measure,
    peer_column,
)
from warpsmith.cli.operations.filter2d import (
    AccuracyOption,
    ChannelsOption,
    NonFiniteOption,
    PlanesOption,
    read_weights,
)
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption, extent
from warpsmith.cli.output import check_writable, print_json, print_table, save_file, table
from warpsmith.cli.verdicts import peer_cell
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import BadArgument, WarpsmithError
from warpsmith.generator.device import Device
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.filter2d.problem import ACCURACIES
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.padding import Outside, warn_of_reflect
from warpsmith.generator.problem import PIXELS, Accuracy, DType, NonFinite, member
from warpsmith.generator.registry import families_for
from warpsmith.store.record import FailureKind
from warpsmith.tuner.plots import REMEDY, ImageFormat, PlotLine, can_plot, plot_sweep
from warpsmith.tuner.progress import format_failures, progress_for
from warpsmith.tuner.spaces.regions import Region, path_words, plan_sweep
from warpsmith.tuner.spaces.sweep import Point, Sweep, points, sweep
from warpsmith.units import format_duration, format_share, format_time

PAPER_FILTERS = ("2x2", "3x3", "4x4", "5x5", "6x6", "7x7")
"""Filter sizes of Iandola et al. 2013, tables 3 and 4."""
SWEPT_FILTER = "3x3"
"""Filter size whose design space the paper shows, in figures 2 and 3."""
GLOBAL_ONLY = "global only"
"""The paper's name for the simplest kernel: the default config of FILTER2D.simplest."""

FLOP_RATE = Column("TFLOP/s", lambda row: f"{row.subject.problem.flops / row.ours / 1000:.1f}")

ImageOption = Annotated[str, typer.Option("--image", metavar="ROWSxCOLUMNS", help="One plane of the image.")]
FiltersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter", metavar="ROWSxCOLUMNS", help="Size of the filter. Repeatable; default 2x2 to 7x7, with --sweep 3x3."
    ),
]
BorderOption = Annotated[
    str,
    typer.Option(
        "--border",
        help=f"One of {', '.join(Border)}, or another library's name. reflect repeats the pixel at the edge, as in "
        "SciPy and OpenCV; symmetric is the same.",
    ),
]
DTypeOption = Annotated[str, typer.Option("--dtype", help=f"Element type: {', '.join(PIXELS)}.")]
WeightsOption = Annotated[
    Path | None, typer.Option("--weights", metavar="FILE.npy", help="Known weights of the one --filter.")
]
SweepOption = Annotated[
    bool,
    typer.Option(
        "--sweep",
        help="Time the search space of one filter size instead, evenly over memory paths and outputs per thread.",
        rich_help_panel="Sweep",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder for tables, plot and JSON.", rich_help_panel="Sweep"),
]
TrialsOption = Annotated[
    int | None,
    typer.Option(
        "--trials",
        min=1,
        help="Total number of configurations to try, at least one per region; default 4 per region.",
        rich_help_panel="Sweep",
    ),
]


def bench_filter2d(
    image: ImageOption = "9216x9216",
    filters: FiltersOption = None,
    border: BorderOption = Border.VALID.value,
    dtype: DTypeOption = DType.FLOAT32.value,
    planes: PlanesOption = 1,
    channels: ChannelsOption = 1,
    weights: WeightsOption = None,
    accuracy: AccuracyOption = Accuracy.ELEMENTWISE.value,
    nonfinite: NonFiniteOption = NonFinite.WINDOW.value,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 0,
    save: SaveOption = None,
    plot: PlotOption = None,
    sustained: SustainedOption = None,
    sweep: SweepOption = False,
    out: OutOption = None,
    trials: TrialsOption = None,
    json: JsonOption = False,
) -> int:
    """Compare image filters with cuDNN, CuPy and NPP on a GPU, or SciPy on the host.

    The default is the workload of Iandola et al. 2013.
    """
    warn_of_reflect(border, Outside.SYMMETRIC)
    problems = [
        Filter2d(
            extent(image, "--image"),
            extent(size, "--filter"),
            planes=planes,
            dtype=member(DType, dtype, "dtype", PIXELS),
            border=Border.of(border),
            channels=channels,
            accuracy=member(Accuracy, accuracy, "accuracy", ACCURACIES),
            nonfinite=member(NonFinite, nonfinite, "nonfinite"),
        )
        for size in filters or ((SWEPT_FILTER,) if sweep else PAPER_FILTERS)
    ]
    if weights is not None:
        problems = [_with_weights(problems, weights)]
    if sweep:
        _refuse("--sweep takes no", {"--save": save, "--plot": plot, "--store": store, "--sustained": sustained})
        return _sweep(problems, DeviceRef.parse(device), trials, seed, out, json)
    _refuse("without --sweep there is no", {"--out": out, "--trials": trials})
    output, ref = Output(save, plot, json), DeviceRef.parse(device)
    rows = measure([_subject(problem, ref.device()) for problem in problems], ref, store, seed, sustained)
    output.write(Results(ref.device(), workload(problems[0]), rows), "filter (rows x columns)", _show)
    return 0


def _sweep(
    problems: list[Filter2d], device: DeviceRef, trials: int | None, seed: int, out: Path | None, json: bool
) -> int:
    if len(problems) > 1:
        raise BadArgument("--sweep takes one --filter")
    r, s = problems[0].filter
    return run_sweep(problems[0], device, trials, seed, out or Path(f"sweep-{r}x{s}"), json)


def _with_weights(problems: list[Filter2d], weights: Path) -> Filter2d:
    if len(problems) != 1:
        raise BadArgument("--weights takes one --filter")
    values, count = read_weights(weights, problems[0].filter, None)
    return dataclasses.replace(problems[0], weights=values, filters=count)


def _refuse(why: str, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise BadArgument(f"{why} {name}")


def _subject(problem: Filter2d, device: Device) -> Subject:
    plain, own, gate = FILTER2D.simplest, {}, Gate(problem, device)
    with contextlib.suppress(IllegalConfig):
        own[GLOBAL_ONLY] = gate.program(plain, gate.default(plain))
    return Subject(problem, {"filter": f"{problem.filter[0]}x{problem.filter[1]}"}, own)


def _show(results: Results) -> None:
    peers = map(peer_column, results.peers)
    results.print_comparison([FOUND, TIME, RATE, FLOP_RATE, COPY_TIME, COPY_SHARE, *peers, FASTEST_PEER, ERROR])
    print("\nWhat was fastest, in the form of the paper's tables 3 and 4:\n")
    header = ["filter", "optimal layout", "family", "outputs per thread", "compared with the fastest peer"]
    print_table([*header, f"speed-up over {GLOBAL_ONLY}", "% of copy"], map(_layout_cells, results.rows))


def _layout_cells(row: Row) -> list[str]:
    program = row.match.program
    region = Region.of(program.family, program.config)
    return [
        row.subject.size,
        path_words(region),
        program.family,
        f"{region.outputs} ({region.rows} x {region.columns})",
        peer_cell(row.verdicts),
        f"{row.times[GLOBAL_ONLY] / row.ours:.2f}x" if GLOBAL_ONLY in row.times else "-",
        COPY_SHARE.cell(row),
    ]


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
    save_file(folder / "sweep.json", json_module.dumps(swept.spec(), indent=1) + "\n")
    save_file(folder / "sweep.md", text + figure)
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
        check_writable(folder / name)


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
        save_file(folder / f"sweep.{kind}", plot_sweep(title, list(_lines(found)), copy_ns, kind))


def _lines(found: tuple[Point, ...]) -> Iterator[PlotLine]:
    for name, group in groupby(found, key=lambda point: point.line):
        best = ((point.outputs, point.best) for point in group)
        yield PlotLine(name, tuple((outputs, trial.median_ns) for outputs, trial in best if trial and trial.median_ns))
