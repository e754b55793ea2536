"""`warpsmith bench`: stored winners beside the other libraries, in one run, taking turns."""

from __future__ import annotations

import dataclasses
import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from warpsmith.cli import files
from warpsmith.cli.operations import AccuracyOption, ChannelsOption, PlanesOption, read_weights
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption, extent
from warpsmith.cli.output import print_json, print_table
from warpsmith.cli.sweep import run_sweep, workload
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument, WarpsmithError
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import PIXELS, Accuracy, DType, member
from warpsmith.generator.registry import SIMPLEST_FILTER
from warpsmith.plans.lookup import look_up
from warpsmith.plans.match import Match
from warpsmith.store.record import COPY
from warpsmith.tuner.cells import Cell, path_words
from warpsmith.tuner.compare import Comparison, compare
from warpsmith.tuner.plots import REMEDY, ImageFormat, Line, can_plot, plot_comparison
from warpsmith.tuner.progress import format_rate, format_share, format_time

PAPER_FILTERS = ("2x2", "3x3", "4x4", "5x5", "6x6", "7x7")
"""The sizes of Iandola et al. 2013, tables 3 and 4."""
SWEPT_FILTER = "3x3"
"""The size whose design space the paper shows, in figures 2 and 3."""
GLOBAL_ONLY = "global only"
"""The paper's name for the simplest kernel: the default config of the plainest family, the registry's last."""

ImageOption = Annotated[str, typer.Option("--image", metavar="ROWSxCOLUMNS", help="One plane of the image.")]
FiltersOption = Annotated[
    list[str] | None,
    typer.Option("--filter", metavar="ROWSxCOLUMNS", help="Repeatable; default 2x2 to 7x7, with --sweep 3x3."),
]
BorderOption = Annotated[str, typer.Option("--border", help=f"One of {', '.join(Border)}.")]
DTypeOption = Annotated[str, typer.Option("--dtype", help=f"Element type: {', '.join(PIXELS)}.")]
SaveOption = Annotated[Path | None, typer.Option("--save", metavar="FILE", help="Write the JSON document here too.")]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Plot times over filter sizes, as .svg or .png.")
]
WeightsOption = Annotated[
    Path | None, typer.Option("--weights", metavar="FILE.npy", help="Known values of the one --filter.")
]
SweepOption = Annotated[
    bool, typer.Option("--sweep", help="Time the design space of one size instead.", rich_help_panel="Sweep")
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Folder for tables, plot and JSON.", rich_help_panel="Sweep"),
]
TrialsOption = Annotated[
    int | None,
    typer.Option(
        "--trials", min=1, help="Configs to try in all, at least one a cell; default 4 a cell.", rich_help_panel="Sweep"
    ),
]


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    problem: Filter2d
    match: Match
    comparison: Comparison

    @property
    def filter(self) -> str:
        return f"{self.problem.filter[0]}x{self.problem.filter[1]}"

    @property
    def ours(self) -> float:
        """ns."""
        return self.comparison.ours.median_ns

    @property
    def times(self) -> dict[str, float]:
        """The baselines' times in ns, by name."""
        return {baseline.name: baseline.timing.median_ns for baseline in self.comparison.baselines}

    @property
    def rivals(self) -> dict[str, float]:
        """The other libraries' times in ns, by name."""
        return {name: ns for name, ns in self.times.items() if name not in (COPY, GLOBAL_ONLY)}


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Time stored winners beside the libraries installed here.", no_args_is_help=True)
    group.command("filter2d")(_filter2d)
    app.add_typer(group, name="bench")


def _filter2d(
    image: ImageOption = "9216x9216",
    filters: FiltersOption = None,
    border: BorderOption = Border.VALID.value,
    dtype: DTypeOption = DType.FLOAT32.value,
    planes: PlanesOption = 1,
    channels: ChannelsOption = 1,
    weights: WeightsOption = None,
    accuracy: AccuracyOption = Accuracy.ELEMENTWISE.value,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 0,
    save: SaveOption = None,
    plot: PlotOption = None,
    sweep: SweepOption = False,
    out: OutOption = None,
    trials: TrialsOption = None,
    json: JsonOption = False,
) -> int:
    """Image filters beside cuDNN, CuPy and NPP on a GPU, SciPy on the host; default is the paper's workload."""
    problems = [
        Filter2d(
            extent(image, "--image"),
            extent(size, "--filter"),
            planes=planes,
            dtype=member(DType, dtype, "dtype"),
            border=Border.of(border),
            channels=channels,
            accuracy=member(Accuracy, accuracy, "accuracy"),
        )
        for size in filters or ((SWEPT_FILTER,) if sweep else PAPER_FILTERS)
    ]
    if weights is not None:
        problems = [_with_weights(problems, weights)]
    if sweep:
        _refuse("--sweep takes no", {"--save": save, "--plot": plot, "--store": store})
        if len(problems) > 1:
            raise BadArgument("--sweep takes one --filter")
        r, s = problems[0].filter
        return run_sweep(problems[0], DeviceRef.parse(device), trials, seed, out or Path(f"sweep-{r}x{s}"), json)
    _refuse("without --sweep there is no", {"--out": out, "--trials": trials})
    kind = _checked(save, plot)
    ref = DeviceRef.parse(device)
    rows = [_measure(problem, ref, store, seed) for problem in problems]
    _show(rows, ref, save, json)
    if plot is not None:
        files.save(plot, _plot(rows, ref, kind))
    return 0


def _with_weights(problems: list[Filter2d], weights: Path) -> Filter2d:
    if len(problems) != 1:
        raise BadArgument("--weights takes one --filter")
    values, count = read_weights(weights, problems[0].filter, None)
    return dataclasses.replace(problems[0], weights=values, filters=count)


def _refuse(why: str, options: dict[str, object]) -> None:
    for name, value in options.items():
        if value is not None:
            raise BadArgument(f"{why} {name}")


def _checked(save: Path | None, plot: Path | None) -> ImageFormat:
    """The format of the plot. Raises WarpsmithError where a file cannot be made, before minutes of measuring."""
    for file in (save, plot):
        if file is not None:
            files.check_writable(file)
    if plot is None:
        return ImageFormat.SVG
    if not can_plot():
        raise WarpsmithError(REMEDY)
    return member(ImageFormat, plot.suffix.removeprefix(".").lower(), "kind of plot")


def _measure(problem: Filter2d, ref: DeviceRef, store: str | None, seed: int) -> _Row:
    device, plain = ref.device(), SIMPLEST_FILTER
    match = look_up(problem, device, store)
    others = {}
    if plain.why_not(problem, device) is None:
        others[GLOBAL_ONLY] = plain.program(problem, plain.default(problem, device))
    return _Row(problem, match, compare(problem, match.program, ref, seed, others))


def _show(rows: list[_Row], ref: DeviceRef, save: Path | None, json: bool) -> None:
    document = {"device": ref.device().spec(), "rows": [_row_document(row) for row in rows]}
    if save is not None:
        files.save(save, json_module.dumps(document, indent=1) + "\n")
    if json:
        print_json(document)
    else:
        _print_comparison(rows, ref)
        print("\nWhat was fastest, in the form of the paper's tables 3 and 4:\n")
        _print_layouts(rows)


def _row_document(row: _Row) -> dict[str, Any]:
    return {
        "problem": row.problem.spec(),
        "problem_key": row.problem.key(),
        "match": str(row.match.kind),
        "family": row.match.program.family,
        "config": row.match.program.config.values(),
        **dataclasses.asdict(row.comparison),
    }


def _print_comparison(rows: list[_Row], ref: DeviceRef) -> None:
    """A Markdown table, ready for BENCHMARKS.md."""
    peers = list(dict.fromkeys(name for row in rows for name in row.rivals))
    facts = ", ".join(f"{name} {value}" for name, value in rows[0].comparison.environment.items())
    print(f"{ref.device().name}, {facts}")
    print(f"{workload(rows[0].problem)}; medians, taken in turns")
    print()
    header = [
        "filter",
        "found",
        "time",
        "GB/s",
        "TFLOP/s",
        "copy",
        "% of copy",
        *peers,
        "fastest peer",
        "largest error",
    ]
    print_table(header, (_comparison_cells(row, peers) for row in rows))


def _comparison_cells(row: _Row, peers: list[str]) -> list[str]:
    return [
        row.filter,
        str(row.match.kind),
        format_time(row.ours),
        format_rate(row.problem.bytes, row.ours).removesuffix(" GB/s"),
        f"{row.problem.flops / row.ours / 1000:.1f}",
        format_time(row.times[COPY]),
        format_share(row.times[COPY], row.ours),
        *(format_time(row.times[name]) if name in row.times else "-" for name in peers),
        f"{min(row.rivals.values()) / row.ours:.2f}x our time" if row.rivals else "-",
        f"{row.comparison.measurement.max_error:.1e}",
    ]


def _print_layouts(rows: list[_Row]) -> None:
    header = ["filter", "optimal layout", "family", "outputs a thread", "speed-up over the fastest peer"]
    print_table([*header, f"speed-up over {GLOBAL_ONLY}", "% of copy"], map(_layout_cells, rows))


def _layout_cells(row: _Row) -> list[str]:
    program = row.match.program
    cell = Cell.of(program.family, program.config)
    peer = min(row.rivals, key=row.rivals.__getitem__, default=None)
    return [
        row.filter,
        path_words(cell),
        program.family,
        f"{cell.outputs} ({cell.rows} x {cell.columns})",
        f"{row.rivals[peer] / row.ours:.2f}x ({peer})" if peer is not None else "-",
        f"{row.times[GLOBAL_ONLY] / row.ours:.2f}x" if GLOBAL_ONLY in row.times else "-",
        format_share(row.times[COPY], row.ours),
    ]


def _plot(rows: list[_Row], ref: DeviceRef, kind: ImageFormat) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row.rivals))
    lines = [Line("warpsmith", tuple((place, row.ours) for place, row in enumerate(rows)))]
    lines += [_line(rows, name) for name in (*names, GLOBAL_ONLY)]
    title = f"{workload(rows[0].problem)}, {ref.device().name}"
    return plot_comparison(title, [row.filter for row in rows], lines, _line(rows, COPY), kind)


def _line(rows: list[_Row], name: str) -> Line:
    return Line(name, tuple((place, row.times[name]) for place, row in enumerate(rows) if name in row.times))
