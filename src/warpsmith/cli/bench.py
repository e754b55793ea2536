"""`warpsmith bench`: stored winners beside the other libraries, in one run, taking turns."""

from __future__ import annotations

import dataclasses
import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from warpsmith.cli import files
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption, extent
from warpsmith.cli.output import print_json, print_table
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import member
from warpsmith.plans.lookup import look_up
from warpsmith.plans.match import Match
from warpsmith.store.record import COPY
from warpsmith.tuner.compare import Comparison, compare
from warpsmith.tuner.progress import format_rate, format_share, format_time

PAPER_FILTERS = ("2x2", "3x3", "4x4", "5x5", "6x6", "7x7")
"""The sizes of Iandola et al. 2013, tables 3 and 4."""

ImageOption = Annotated[str, typer.Option("--image", metavar="ROWSxCOLUMNS", help="One plane of the image.")]
FiltersOption = Annotated[
    list[str] | None, typer.Option("--filter", metavar="ROWSxCOLUMNS", help="Repeatable; default 2x2 to 7x7.")
]


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    problem: Filter2d
    match: Match
    comparison: Comparison


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Time stored winners beside the libraries installed here.", no_args_is_help=True)
    group.command("filter2d")(_filter2d)
    app.add_typer(group, name="bench")


def _filter2d(
    image: ImageOption = "9216x9216",
    filters: FiltersOption = None,
    border: Annotated[str, typer.Option("--border", help=f"One of {', '.join(Border)}.")] = Border.VALID.value,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 0,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the JSON document here too.")
    ] = None,
    json: JsonOption = False,
) -> int:
    """Image filters beside cuDNN and CuPy on a GPU, SciPy on the host; default is the paper's workload."""
    problems = [
        Filter2d(extent(image, "--image"), extent(size, "--filter"), border=member(Border, border, "border"))
        for size in filters or PAPER_FILTERS
    ]
    if save is not None:
        files.check_writable(save)  # before minutes of measuring
    ref = DeviceRef.parse(device)
    rows = [_measure(problem, ref, store, seed) for problem in problems]
    document = {"device": ref.device().spec(), "rows": [_row_document(row) for row in rows]}
    if save is not None:
        files.save(save, json_module.dumps(document, indent=1) + "\n")
    if json:
        print_json(document)
    else:
        _print_table(rows, ref)
    return 0


def _measure(problem: Filter2d, ref: DeviceRef, store: str | None, seed: int) -> _Row:
    match = look_up(problem, ref.device(), store)
    return _Row(problem, match, compare(problem, match.program, ref, seed))


def _row_document(row: _Row) -> dict[str, Any]:
    return {
        "problem": row.problem.spec(),
        "problem_key": row.problem.key(),
        "match": str(row.match.kind),
        "family": row.match.program.family,
        "config": row.match.program.config.values(),
        **dataclasses.asdict(row.comparison),
    }


def _print_table(rows: list[_Row], ref: DeviceRef) -> None:
    """A Markdown table, ready for BENCHMARKS.md."""
    problem, comparison = rows[0].problem, rows[0].comparison
    peers = list(dict.fromkeys(each.name for row in rows for each in row.comparison.baselines if each.name != COPY))
    facts = ", ".join(f"{name} {value}" for name, value in comparison.environment.items())
    print(f"{ref.device().name}, {facts}")
    print(
        f"image {problem.image[0]}x{problem.image[1]} {problem.dtype}, border {problem.border}; medians, taken in turns"
    )
    print()
    header = ["filter", "found", "time", "GB/s", "copy", "% of copy", *peers, "fastest peer", "largest error"]
    print_table(header, (_cells(row, peers) for row in rows))


def _cells(row: _Row, peers: list[str]) -> list[str]:
    times = {baseline.name: baseline.timing.median_ns for baseline in row.comparison.baselines}
    ours, copy = row.comparison.ours.median_ns, times[COPY]
    rivals = [times[name] for name in peers if name in times]
    return [
        f"{row.problem.filter[0]}x{row.problem.filter[1]}",
        str(row.match.kind),
        format_time(ours),
        format_rate(row.problem.bytes, ours).removesuffix(" GB/s"),
        format_time(copy),
        format_share(copy, ours),
        *(format_time(times[name]) if name in times else "-" for name in peers),
        f"{min(rivals) / ours:.2f}x our time" if rivals else "-",
        f"{row.comparison.measurement.max_error:.1e}",
    ]
