"""`warpsmith tune` without an operation: a list of problems from a file, or a replay of a recorded space."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warpsmith.cli.options import (
    CompilerOption,
    DevicesOption,
    JsonOption,
    SamplerOption,
    SeedOption,
    StoreOption,
    TimeLimitOption,
    seconds,
)
from warpsmith.cli.output import print_facts, print_json, print_table
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import member
from warpsmith.store.location import shown, write_location
from warpsmith.store.store import Store
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import progress_for
from warpsmith.tuner.run.problem_list import ProblemListFailed, ProblemStanding, read_problems, tune_all
from warpsmith.tuner.search.sampler_choice import SamplerChoice
from warpsmith.units import format_time

if TYPE_CHECKING:
    from warpsmith.tuner.spaces.replay import ReplayReport

FromOption = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE.json",
        help="Tune a list of problems within one --time-limit for all.",
        show_default=False,
        rich_help_panel="Instead of an operation",
    ),
]
ReplayOption = Annotated[
    Path | None,
    typer.Option(
        "--replay",
        metavar="FILE.jsonl.gz",
        help="Replay searches on a recorded space, without a device: trials until within 2% of its best.",
        show_default=False,
        rich_help_panel="Instead of an operation",
    ),
]


def tune_without_shape(
    context: typer.Context,
    problems: FromOption = None,
    replay: ReplayOption = None,
    device: DevicesOption = "auto",
    store: StoreOption = None,
    time_limit: TimeLimitOption = None,
    seed: SeedOption = 0,
    sampler: SamplerOption = SamplerChoice.ADDITIVE.value,
    compiler: CompilerOption = CompilerChoice.AUTO.value,
    json: JsonOption = False,
) -> int:
    """Search for the fastest correct kernel and store it."""
    if context.invoked_subcommand is not None:
        if problems is not None or replay is not None:
            raise BadArgument(f"--from and --replay take no operation, but {context.invoked_subcommand} was named")
        return 0
    if (problems is None) == (replay is None):
        raise BadArgument("name an operation, or give one of --from and --replay")
    chosen = member(SamplerChoice, sampler, "sampler")
    if replay is not None:
        return _replay(replay, chosen, json)
    assert problems is not None
    options = TuneOptions(
        time_limit_s=None if time_limit is None else seconds(time_limit),
        seed=seed,
        compiler=member(CompilerChoice, compiler, "compiler"),
        sampler=chosen,
    )
    return _tune_all(problems, DeviceRef.parse_all(device), write_location(store), options, json)


def _tune_all(path: Path, devices: tuple[DeviceRef, ...], location: str, options: TuneOptions, json: bool) -> int:
    problems = read_problems(path)
    with Store.open(location, write=True) as opened:
        standings = tune_all(problems, devices, opened, options, progress_for(sys.stderr, quiet=False))
    if json:
        print_json({"problems": [standing.spec() for standing in standings], "store": shown(location)})
    else:
        print_table(("problem", "turns", "trials", "time"), map(_cells, standings))
        print_facts([("stored", shown(location))])
    if all(standing.best_ns is None for standing in standings):
        raise ProblemListFailed(f"none of {len(standings)} problems has a winner; the first: {standings[0].failure}")
    return 0


def _cells(standing: ProblemStanding) -> tuple[str, ...]:
    time = format_time(standing.best_ns) if standing.best_ns is not None else standing.failure or "not tuned yet"
    return standing.problem.key(), str(standing.turns), str(standing.trials), time


def _replay(path: Path, sampler: SamplerChoice, json: bool) -> int:
    from warpsmith.tuner.spaces.recording import Recording
    from warpsmith.tuner.spaces.replay import replay_report

    report = replay_report(Recording.read(path), sampler=sampler)
    if json:
        print_json(report.spec())
    else:
        print_facts(_replay_facts(report))
    return 0


def _replay_facts(report: ReplayReport) -> list[tuple[str, str]]:
    near = f"{report.near} of {report.size} recorded configs lie within 2% of the best, {format_time(report.best_ns)}"
    ours, luck = report.search, report.by_luck
    share = "more than were tried" if report.share is None else f"{report.share:.1%} of the space"
    return [
        ("problem", report.problem.key()),
        ("device", report.device.name),
        ("family", report.family),
        ("space", near),
        ("best", str(report.best)),
        ("search", f"{ours.median or 'over ' + str(report.trials)} trials to come within 2%, {share}"),
        ("", f"p20 {ours.p20 or '-'}, p80 {ours.p80 or '-'}, median of {report.seeds} seeds"),
        ("random", f"{luck.median or 'over ' + str(report.trials)} trials"),
    ]
