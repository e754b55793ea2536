"""`warpsmith bench`: stored winners beside the other libraries, in one run, taking turns."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Annotated, Any

import typer

from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption, extent
from warpsmith.cli.output import print_json
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.problem import Problem, member
from warpsmith.generator.registry import FAMILIES
from warpsmith.plans.lookup import find
from warpsmith.plans.match import Match
from warpsmith.store.location import open_for_reading
from warpsmith.store.record import COPY, Baseline, Failure, Measurement, Timing
from warpsmith.tuner.evaluate import Deadlines
from warpsmith.tuner.jobs import Compiled
from warpsmith.tuner.progress import format_rate, format_share, format_time
from warpsmith.tuner.workshop import Workshop

PAPER_FILTERS = ("2x2", "3x3", "4x4", "5x5", "6x6", "7x7")
"""The sizes of Iandola et al. 2013, tables 3 and 4."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """One problem: our kernel and everything that ran beside it."""

    match: Match
    problem: Problem
    max_error: float
    ours: Timing
    baselines: tuple[Baseline, ...]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Time stored winners beside the libraries installed here.", no_args_is_help=True)
    group.command("filter2d")(_filter2d)
    app.add_typer(group, name="bench")


def _filter2d(
    image: Annotated[
        str, typer.Option("--image", metavar="ROWSxCOLUMNS", help="One plane of the image.")
    ] = "9216x9216",
    filters: Annotated[
        list[str] | None, typer.Option("--filter", metavar="ROWSxCOLUMNS", help="Repeatable; default 2x2 to 7x7.")
    ] = None,
    border: Annotated[str, typer.Option("--border", help=f"One of {', '.join(Border)}.")] = Border.VALID.value,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> int:
    """Image filters beside cuDNN and CuPy on a GPU, SciPy on the host; default is the paper's workload."""
    problems = [
        Filter2d(extent(image, "--image"), extent(size, "--filter"), border=member(Border, border, "border"))
        for size in filters or PAPER_FILTERS
    ]
    ref = DeviceRef.parse(device)
    rows = [_measure(problem, ref, store, seed) for problem in problems]
    if json:
        print_json({"device": ref.device().spec(), "rows": [_row_document(row) for row in rows]})
    else:
        _print_table(rows, ref)
    return 0


def _measure(problem: Problem, ref: DeviceRef, store: str | None, seed: int) -> _Row:
    """Verifies the stored answer for `problem` on fresh data, then times it and its peers in turns."""
    with open_for_reading(store) as stores:
        match = find(problem, ref.device(), stores)
    opened = Workshop.open(problem, ref, FAMILIES, CompilerChoice.AUTO, seed, Deadlines(), sanitize=False)
    with contextlib.ExitStack() as stack:
        workshop = stack.enter_context(opened)
        compiled = workshop.compile(match.program).result()
        outcome: Measurement | Failure | Compiled = compiled
        if isinstance(compiled, Compiled):
            outcome = workshop.bench.evaluate(match.program, compiled)
            if isinstance(outcome, Measurement):
                beside = workshop.bench.side_by_side(match.program, compiled)
                if not isinstance(beside, Failure):
                    return _Row(match, problem, outcome.max_error, *beside)
                outcome = beside
    raise WarpsmithError(f"{problem.key()}: {outcome.message if isinstance(outcome, Failure) else outcome}")


def _row_document(row: _Row) -> dict[str, Any]:
    return {
        "problem": row.problem.spec(),
        "problem_key": row.problem.key(),
        "match": str(row.match.kind),
        "family": row.match.program.family,
        "config": row.match.program.config.values(),
        "max_error": row.max_error,
        "timing": dataclasses.asdict(row.ours),
        "baselines": [dataclasses.asdict(baseline) for baseline in row.baselines],
    }


def _print_table(rows: list[_Row], ref: DeviceRef) -> None:
    """A Markdown table, ready for BENCHMARKS.md."""
    peers = [baseline.name for baseline in rows[0].baselines if baseline.name != COPY]
    header = ["problem", "found", "time", "GB/s", "copy", "% of copy", *(f"{name}" for name in peers), "fastest peer"]
    print(f"{ref.device().name}; {rows[0].ours.policy}")
    print()
    print(f"| {' | '.join(header)} |")
    print(f"|{'---|' * len(header)}")
    for row in rows:
        times = {baseline.name: baseline.timing.median_ns for baseline in row.baselines}
        ours, copy = row.ours.median_ns, times[COPY]
        rivals = [times[name] for name in peers if name in times]
        cells = [
            row.problem.key(),
            str(row.match.kind),
            format_time(ours),
            format_rate(row.problem.bytes, ours),
            format_time(copy),
            format_share(copy, ours),
            *(format_time(times[name]) if name in times else "-" for name in peers),
            f"{min(rivals) / ours:.2f}x our time" if rivals else "-",
        ]
        print(f"| {' | '.join(cells)} |")
