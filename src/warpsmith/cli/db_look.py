"""`warpsmith db ls` and `db show`: select stored problems and devices, and print what is stored of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from warpsmith.cli.operations.registry import OPERATIONS, add_commands
from warpsmith.cli.options import JsonOption, StoreOption
from warpsmith.cli.output import print_facts, print_json, record_facts
from warpsmith.cli.verdicts import conditions_words, format_timing, short, summary
from warpsmith.errors import BadArgument, NothingStored
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store.contents import Counts, Scope, count_rows, subjects_of
from warpsmith.store.record import Failure, Record, checked_of
from warpsmith.store.store import Store
from warpsmith.store.store_chain import open_with_trials
from warpsmith.store.tuners import Run
from warpsmith.units import format_duration, format_time

LISTED = 10
"""Runs and poisoned programs that `db show` prints, of each at most; --json prints all."""

WORDS = "words"
"""Hidden command for `db show` without the options of an operation's shape."""


def register(group: typer.Typer) -> None:
    group.command("ls")(_ls)
    show = typer.Typer(
        cls=_ShowGroup,
        help="Show winners with their trials, runs and poison list: those whose key has all the WORDS, "
        "or of an OPERATION with the options of its shape. Both take --device-key, --store and --json.",
        subcommand_metavar="[WORDS]... | OPERATION --SHAPE",
    )
    show.command(WORDS, hidden=True)(_show_words)
    add_commands(show, _show_problem)
    group.add_typer(show, name="show")


class _ShowGroup(TyperGroup):
    """Group for which `db show filter2d filter=3x3` gives words and `db show filter2d --image ...` a problem's
    shape.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = {argument.partition("=")[0] for argument in args if argument.startswith("--")}
        shaped = args[:1] and args[0] in OPERATIONS and given - {"--store", "--device-key", "--json"}
        if not shaped and args != ["--help"]:
            args = [WORDS, *args]
        return super().parse_args(ctx, args)


def _ls(
    operation: OperationOption = None,
    device_key: DeviceKeyOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """List the winners of every store that is asked, one a line, and what else lies there."""
    scope = scope_of(operation, device_key)
    with open_with_trials(store) as stores:
        check_scope(scope, stores.stores)
        contents = [(each.location, count_rows(each, scope), _records(each, scope)) for each in stores.stores]
    if json:
        winners = [_winner_document(location, record) for location, _, records in contents for record in records]
        totals = [{"store": location, **dataclasses.asdict(counts)} for location, counts, _ in contents]
        print_json({"winners": winners, "stores": totals})
        return 0
    for location, counts, records in contents:
        print(f"{location}: {_format_counts(counts)}")
        for record in records:
            print(f"  {_format_winner(record)}")
    return 0


def _records(store: Store, scope: Scope) -> list[Record]:
    found = store.records(scope.operation)
    return [record for record in found if scope.device_key in (None, record.device.key())]


def _winner_document(location: str, record: Record) -> dict[str, Any]:
    verdict, checked = record.verdict, checked_of(record)
    return {
        "store": location,
        "problem_key": record.problem.key(),
        "device_key": record.device.key(),
        "time_ns": record.trial.median_ns,
        "conditions": record.conditions,
        "vendor": None if verdict is None else verdict.baseline.name,
        "vendor_ratio": None if verdict is None else verdict.speed_up,
        "verdict": summary(record.verdicts),
        "created": record.provenance.created,
        "checked": None if checked is None else dataclasses.asdict(checked),
    }


def _format_winner(record: Record) -> str:
    """Time, speed-up over the fastest other library, day, conditions, problem and device. Long items come last."""
    ours, checked = record.timing.median_ns, checked_of(record)
    ratio, timed = short(record.verdicts), conditions_words(record)
    note = "" if checked is None or checked.verdict.is_good else f"  ({checked.verdict} on {checked.at[:10]})"
    when, keys = record.provenance.created[:10], f"{record.problem.key()}  {record.device.key()}"
    return f"{format_time(ours):>9}  {ratio:>6}  {when}  {timed:<25}  {keys}{note}"


def _format_counts(counts: Counts) -> str:
    failed = _format_failures(counts.failures)
    text = f"{counts.trials} trials{f' (failed: {failed})' if failed else ''}"
    return f"{counts.winners} winners, {text}, {counts.poisoned} poisoned programs, {counts.runs} runs"


def _format_failures(failures: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in failures.items())


def _show_words(
    words: WordsArgument = None,
    device_key: DeviceKeyOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Show the winners whose problem has all the given words, such as `db show filter=3x3`."""
    with open_with_trials(store) as stores:
        views = [_view(each, *found) for each in stores.stores for found in subjects_with(each, words, device_key)]
    if not views:
        raise NothingStored("nothing is stored with these words in its problem; `warpsmith db ls` lists all")
    return _print_views(views, json)


def _show_problem(
    problem: Problem, device_key: DeviceKeyOption = None, store: StoreOption = None, json: JsonOption = False
) -> int:
    with open_with_trials(store) as stores:
        views = [
            _view(each, stored, device)
            for each in stores.stores
            for stored, device in subjects_of(each, Scope(problem.operation, device_key))
            if stored == problem
        ]
    if not views:
        on = "" if device_key is None else f" on {device_key}"
        raise NothingStored(
            f"nothing is stored for {problem.key()}{on}; run `warpsmith tune {problem.operation}` first"
        )
    return _print_views(views, json)


@dataclasses.dataclass(frozen=True, slots=True)
class _View:
    """Everything that one store knows of a problem on a device."""

    location: str
    problem: Problem
    device: Device
    record: Record | None
    """Its winner under the preferred conditions, or the first under others."""
    others: tuple[Record, ...]
    """Its further winners, under other conditions."""
    trials: int
    failures: dict[str, int]
    runs: tuple[Run, ...]
    poisoned: dict[str, Failure]
    """Poisoned programs of the device, whatever they compute."""

    def document(self) -> dict[str, Any]:
        subject: dict[str, Any] = {
            "operation": self.problem.operation,
            "problem": self.problem.spec(),
            "problem_key": self.problem.key(),
            "device": self.device.spec(),
            "device_key": self.device.key(),
            "trial": None,
            "baselines": [],
            "provenance": None,
            "left_out": [],
        }
        won = self.record
        judged: dict[str, Any] = {
            "conditions": None if won is None else won.conditions,
            "verdict": None if won is None else summary(won.verdicts),
            "verdicts": [] if won is None else [each.spec() for each in won.verdicts],
        }
        return {
            **(subject if self.record is None else self.record.spec()),
            **judged,
            "other_winners": [{**other.spec(), "conditions": other.conditions} for other in self.others],
            "store": self.location,
            "trials": {"total": self.trials, "failures": self.failures},
            "runs": [{"created_at": run.created_at, **run.spec} for run in self.runs],
            "poisoned": {name: dataclasses.asdict(failure) for name, failure in self.poisoned.items()},
        }

    def facts(self) -> list[tuple[str, str]]:
        winner = [("problem", self.problem.key()), ("device", self.device.name), ("winner", "none yet")]
        failed = _format_failures(self.failures)
        return [
            *(winner if self.record is None else record_facts(self.record)),
            *(("also", _format_other(other)) for other in self.others),
            ("key", self.device.key()),
            ("store", self.location),
            ("trials", f"{self.trials} stored; failed: {failed or 'none'}"),
            *_run_facts(self.runs),
            *_poison_facts(self.poisoned),
        ]


def _format_other(record: Record) -> str:
    return f"{conditions_words(record)}: {format_timing(record.timing)} by {record.trial.family} {record.trial.config}"


def _view(store: Store, problem: Problem, device: Device) -> _View:
    trials, winners = store.trials(problem, device), store.winners(problem.key(), device.key())
    failures: dict[str, int] = {}
    for trial in trials:
        if isinstance(trial.outcome, Failure):
            failures[str(trial.outcome.kind)] = failures.get(str(trial.outcome.kind), 0) + 1
    return _View(
        store.location,
        problem,
        device,
        next(iter(winners), None),
        winners[1:],
        len(trials),
        dict(sorted(failures.items())),
        store.runs.of(problem, device),
        store.poisoned(device),
    )


def _run_facts(runs: tuple[Run, ...]) -> list[tuple[str, str]]:
    """The newest runs, the newest last, with the costs of their stages."""
    left_out = [("", f"and {len(runs) - LISTED} older runs")] if len(runs) > LISTED else []
    return [("run", _format_run(run)) for run in runs[-LISTED:]] + left_out


def _format_run(run: Run) -> str:
    """Text of a run. Values that the run's version did not store are left out."""
    from warpsmith.tuner.costs import CostStage

    parts, spec = [run.created_at[:19]], run.spec
    if isinstance(count := spec.get("trials"), int):
        parts.append(f"{count} trials")
    if isinstance(elapsed := spec.get("elapsed_s"), int | float):
        parts[-1] += f" in {format_duration(elapsed)}"
    costs = spec.get("costs")
    seconds = costs.get("seconds") if isinstance(costs, dict) else None
    if isinstance(seconds, dict):
        stages = [(stage, cost) for stage in CostStage if isinstance(cost := seconds.get(stage), int | float)]
        parts.append(", ".join(f"{stage} {cost:.1f} s" for stage, cost in stages))
    if spec.get("interrupted"):
        parts.append("interrupted")
    return "; ".join(parts)


def _poison_facts(poisoned: Mapping[str, Failure]) -> list[tuple[str, str]]:
    if not poisoned:
        return []
    named = sorted(poisoned.items())[:LISTED]
    lines = [("", f"{fingerprint}  {failure.kind}: {failure.message}") for fingerprint, failure in named]
    return [("poisoned", f"{len(poisoned)} programs that are not run again on this device"), *lines]


def _print_views(views: list[_View], json: bool) -> int:
    if json:
        print_json({"records": [view.document() for view in views]})
        return 0
    for view in views:
        print_facts(view.facts())
        print()
    return 0


WordsArgument = Annotated[list[str] | None, typer.Argument(metavar="[WORDS]...", help="Words of the problem's key.")]
OperationOption = Annotated[
    str | None,
    typer.Option("--operation", help=f"One of {', '.join(OPERATIONS)}; default all.", show_default=False),
]
DeviceKeyOption = Annotated[
    str | None,
    typer.Option(
        "--device-key", metavar="KEY", help="Key of a device as `db ls` prints it; default all.", show_default=False
    ),
]


def scope_of(operation: str | None, device_key: str | None) -> Scope:
    """The requested part of a store. Raises BadArgument for an unknown operation."""
    if operation is not None and operation not in OPERATIONS:
        raise BadArgument(f"unknown operation {operation!r}; choose one of {', '.join(OPERATIONS)}")
    return Scope(operation, device_key)


def check_scope(scope: Scope, stores: Iterable[Store]) -> None:
    """Raises NothingStored if the stores hold nothing of a requested scope."""
    opened = tuple(stores)
    if scope == Scope():
        return
    for store in opened:
        found = count_rows(store, scope)
        if found.winners or found.trials or found.poisoned or found.runs:
            return
    keys = sorted({device.key() for store in opened for _, device in subjects_of(store)})
    text = f"the devices that are stored are {', '.join(keys)}" if keys else "nothing is stored yet"
    of = f" of {scope.operation}" if scope.operation is not None else ""
    on = f" for the device {scope.device_key}" if scope.device_key is not None else ""
    raise NothingStored(f"nothing{of} is stored{on}; {text}")


def subjects_with(
    store: Store, words: Iterable[str] | None, device_key: str | None
) -> tuple[tuple[Problem, Device], ...]:
    """Problems whose key has all the words, on the device. Words may come one by one, or as a whole key in quotes."""
    wanted = {word for given in words or () for word in given.split()}
    return tuple(
        (problem, device)
        for problem, device in subjects_of(store, Scope(device_key=device_key))
        if wanted <= set(problem.key().split())
    )
