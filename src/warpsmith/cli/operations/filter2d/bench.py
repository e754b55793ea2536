"""`warpsmith bench filter2d`: stored image filters beside cuDNN, CuPy and NPP on a GPU, SciPy on the host."""

from __future__ import annotations

import contextlib
import dataclasses
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
from warpsmith.cli.operations.filter2d.sweep import run_sweep, workload
from warpsmith.cli.operations.filter2d.words import (
    AccuracyOption,
    ChannelsOption,
    NonFiniteOption,
    PlanesOption,
    read_weights,
)
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption, extent
from warpsmith.cli.output import print_table
from warpsmith.cli.verdicts import peer_cell
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.filter2d.problem import ACCURACIES
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.problem import PIXELS, Accuracy, DType, NonFinite, member
from warpsmith.tuner.spaces.regions import Region, path_words

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
BorderOption = Annotated[str, typer.Option("--border", help=f"One of {', '.join(Border)}, or another library's name.")]
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
