"""`warpsmith tune`: searches, verifies, times and stores. Without an operation it tunes a list of problems from a file,
or replays a recorded space.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from warpsmith.cli.operations.registry import add_commands
from warpsmith.cli.options import (
    CompilerOption,
    DevicesOption,
    JsonOption,
    MethodOption,
    SamplerOption,
    SeedOption,
    SetOption,
    StoreOption,
    TimeLimitOption,
    TrialsOption,
    seconds,
)
from warpsmith.cli.output import print_facts, print_json, print_table, record_facts, winner_document
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.pins import Pins
from warpsmith.generator.problem import AUTO, Problem, member
from warpsmith.generator.selection import Selection
from warpsmith.store.location import redacted, write_location
from warpsmith.store.record import Trial
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.timing_policy import CacheState, Launching
from warpsmith.tuner.options import Effort, TuneOptions
from warpsmith.tuner.progress import format_failures, progress_for
from warpsmith.tuner.report import TuneReport
from warpsmith.tuner.run.problem_list import ProblemListFailed, ProblemStanding, read_problems, tune_all
from warpsmith.tuner.run.session import tune_into
from warpsmith.tuner.search.competition import Standing
from warpsmith.tuner.search.sampler_choice import SamplerChoice
from warpsmith.units import format_duration, format_time

if TYPE_CHECKING:
    from warpsmith.tuner.spaces.replay import ReplayReport

_EFFORTS = ", ".join(f"{effort} ({effort.trials})" for effort in Effort)
EffortOption = Annotated[
    str, typer.Option("--effort", help=f"Number of trials without --trials: {_EFFORTS}.", rich_help_panel="Run")
]
L2Option = Annotated[
    str | None,
    typer.Option(
        "--l2",
        help="State of the GPU's L2 cache in each timed run: cold or warm; default cold.",
        show_default=False,
        rich_help_panel="Run",
    ),
]
LaunchOption = Annotated[
    str,
    typer.Option(
        "--launch", help="Time launches one by one (eager) or in a CUDA graph (graph).", rich_help_panel="Run"
    ),
]
DropOption = Annotated[
    bool,
    typer.Option(
        "--drop/--no-drop",
        help="Skip candidates whose register spills, occupancy or operation count show that they cannot win.",
        rich_help_panel="Run",
    ),
]
SanitizeOption = Annotated[
    bool,
    typer.Option(
        "--sanitize",
        help="Run under AddressSanitizer and UndefinedBehaviorSanitizer (host); stores no winner.",
        rich_help_panel="Run",
    ),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Search for the fastest correct kernel and store it.", no_args_is_help=True)
    group.callback(invoke_without_command=True)(tune_without_shape)
    add_commands(group, _tune)
    app.add_typer(group, name="tune")


def _tune(
    problem: Problem,
    device: DevicesOption = "auto",
    store: StoreOption = None,
    trials: TrialsOption = None,
    effort: EffortOption = Effort.NORMAL.value,
    time_limit: TimeLimitOption = None,
    seed: SeedOption = 0,
    sampler: SamplerOption = SamplerChoice.ADDITIVE.value,
    method: MethodOption = AUTO,
    pinned: SetOption = [],  # noqa: B006 - typer reads the default, and nothing changes it
    compiler: CompilerOption = CompilerChoice.AUTO.value,
    l2: L2Option = None,
    launch: LaunchOption = Launching.EAGER.value,
    drop: DropOption = True,
    sanitize: SanitizeOption = False,
    json: JsonOption = False,
) -> int:
    usual = member(Effort, effort, "effort").trials
    options = TuneOptions(
        trials=usual if trials is None else trials,
        time_limit_s=None if time_limit is None else seconds(time_limit),
        seed=seed,
        compiler=member(CompilerChoice, compiler, "compiler"),
        sanitize=sanitize,
        drops=drop,
        cold=None if l2 is None else member(CacheState, l2, "L2 state") is CacheState.COLD,
        launching=member(Launching, launch, "way to launch"),
        sampler=member(SamplerChoice, sampler, "sampler"),
        selection=Selection(method, Pins.parse(pinned)),
    )
    devices, location = DeviceRef.parse_all(device), write_location(store)
    report = tune_into(location, problem, devices, options, progress_for(sys.stderr, quiet=False))
    if json:
        print_json(_document(report, redacted(location)))
    else:
        print_facts(_facts(report, redacted(location)))
    return 0


def _facts(report: TuneReport, location: str) -> list[tuple[str, str]]:
    facts = record_facts(report.record) if report.record is not None else []
    if report.record is not None and report.before is not None:
        facts.append(("before", _before(report.record.trial, report.before)))
    if report.record is not None and report.overall is not None:
        facts.append(("overall", _overall(report.record.trial, report.overall.trial)))
    others = f" ({report.others} by others)" if report.others else ""
    trials = (
        f"{report.tried} now{others}, {report.reused} of earlier runs, of {report.space_size or 'very many'} configs"
    )
    failed = format_failures(report.failures) or "none"
    facts.append(("trials", f"{trials}; failed: {failed}; {format_duration(report.elapsed_s)}"))
    facts += [("family", _standing(each)) for each in report.standings]
    facts += [("failed", each.message) for each in report.part_failures]
    facts.append(("stages", format_costs(report)))
    if report.interrupted:
        facts.append(("note", "interrupted; run the same command again to continue"))
    facts.append(("stored", location if report.record is not None else f"{location} (trials only)"))
    return facts


def _before(winner: Trial, before: Trial) -> str:
    """Compares the winner with the answer before the search; both were timed in turns."""
    now_ns, then_ns = winner.median_ns or 0.0, before.median_ns or 0.0
    if (winner.family, winner.config) == (before.family, before.config):
        return "the same kernel: the search found nothing faster"
    return f"{format_time(then_ns)} by {before.family}: now {then_ns / now_ns:.2f}x faster"


def _overall(best: Trial, winner: Trial) -> str:
    """Compares the best of the part that was searched with the winner, which is of another part."""
    ratio = (best.median_ns or 0.0) / (winner.median_ns or 1.0)
    faster = "as fast" if ratio < 1.005 else f"{ratio:.2f}x faster"
    took = f"{format_time(winner.median_ns or 0.0)}, {faster}"
    return f"{winner.family} {winner.config} stays the winner: {took}"


def _standing(standing: Standing) -> str:
    """Text such as `NAME: 64 tried, best 35.2 us`, and the reason why the family was given up."""
    best = "none correct" if standing.best_ns is None else f"best {format_time(standing.best_ns)}"
    after = standing.left_after
    left = "" if after is None else f"; given up after {after} trials of all families: {standing.why}"
    return f"{standing.family}: {standing.tried} tried, {best}{left}"


def format_costs(report: TuneReport) -> str:
    """Text such as `ask 0.2 s, ...`: the cost of each stage of a run, and its trials per second."""
    costs = report.costs
    text = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in costs.seconds.items())
    twins = f"; {costs.twins} not timed again, their machine code was the same" if costs.twins else ""
    rate = report.tried / report.elapsed_s
    return f"{text} (compile in {costs.processes} processes){twins}; {rate:.1f} trials per second"


def _document(report: TuneReport, location: str) -> dict[str, Any]:
    return {**winner_document(report.record), **report.spec(), "store": location}


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
        print_json({"problems": [standing.spec() for standing in standings], "store": redacted(location)})
    else:
        print_table(("problem", "turns", "trials", "time"), map(_cells, standings))
        print_facts([("stored", redacted(location))])
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
