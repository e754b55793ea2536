"""`warpsmith db prune`: removes rows that a store no longer needs."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Any

import typer

from warpsmith.cli.db_look import DeviceKeyOption, OperationOption, check_scope, scope_of
from warpsmith.cli.options import JsonOption, StoreOption
from warpsmith.cli.output import print_facts, print_json
from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import family_named
from warpsmith.generator.space import Config
from warpsmith.store.contents import Counts, Scope, count_rows
from warpsmith.store.location import write_location
from warpsmith.store.prune import Pruned, Unwanted, compact_store, programs_of, prune_store, stale_programs
from warpsmith.store.store import Store

LINE_EVERY_S = 5.0
"""Seconds between two lines of progress; generating a text takes 20 ms, and a store may hold 10^5."""

KeepOption = Annotated[
    int | None,
    typer.Option(
        "--keep-trials",
        metavar="N",
        min=0,
        help="Keep the N fastest trials, under each timing conditions, of each problem that has a winner; no others.",
        show_default=False,
    ),
]
StaleOption = Annotated[
    bool, typer.Option("--stale", help="Remove trials and winners whose kernel text this version no longer generates.")
]
PoisonedOption = Annotated[
    bool,
    typer.Option(
        "--poisoned",
        help="Remove programs from the poison list, so that they are tried again, such as after a driver update.",
    ),
]
# A dry run is the default, as in `git clean`: the rows took hours on a GPU, and nothing can restore them.
YesOption = Annotated[
    bool,
    typer.Option(
        "--yes/--dry-run", help="Remove it; the default only lists what would be removed.", show_default=False
    ),
]


def register(group: typer.Typer) -> None:
    group.command("prune")(_prune)


def _prune(
    keep_trials: KeepOption = None,
    stale: StaleOption = False,
    poisoned: PoisonedOption = False,
    operation: OperationOption = None,
    device_key: DeviceKeyOption = None,
    yes: YesOption = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Remove what is no longer of use from the store that `tune` writes to; without --yes only list it.

    --operation and --device-key restrict what is removed; alone, they remove everything of theirs. All or nothing.
    """
    scope, whole = scope_of(operation, device_key), keep_trials is None and not stale and not poisoned
    if whole and scope == Scope():
        raise BadArgument("name what to remove: --keep-trials N, --stale, --poisoned, --operation or --device-key")
    location = write_location(store)
    with Store.open(location, write=False) as own:
        check_scope(scope, (own,))
        programs = programs_of(own, scope) if stale else ()
        gone = stale_programs(programs, _still_generated, _Progress(len(programs)))
        before, unwanted = count_rows(own), Unwanted(scope, keep_trials, gone, poisoned, everything=whole)
        if not yes:
            _print_pruned(prune_store(own, unwanted, dry_run=True), before, own.location, removed=False, json=json)
            return 0
    with Store.open(location, write=True) as own:
        _print_pruned(prune_store(own, unwanted), before, own.location, removed=True, json=json)
        freed = compact_store(own)
    if not json:
        print_facts([("freed", f"{freed / 1e6:.1f} MB")])
    return 0


def _still_generated(problem: Problem, device: Device, family: str, config: Config, fingerprint: str) -> bool:
    known = family_named(family)
    program = None if known is None else Gate(problem, device).program_if_legal(known, config)
    return program is not None and program.has_fingerprint(fingerprint)


class _Progress:
    """Prints the progress of a long check on standard error."""

    def __init__(self, total: int) -> None:
        self._total, self._printed_at = total, time.monotonic()

    def __call__(self, done: int) -> None:
        if time.monotonic() - self._printed_at >= LINE_EVERY_S:
            self._printed_at = time.monotonic()
            print(f"generated {done} of {self._total} kernels again", file=sys.stderr, flush=True)


def _print_pruned(pruned: Pruned, before: Counts, location: str, *, removed: bool, json: bool) -> None:
    trials = sum(pruned.trials.values())
    if json:
        print_json({"store": location, "removed": removed, **_document(pruned)})
        return
    text = (
        f"{trials} of {before.trials} trials, {len(pruned.winners)} of {before.winners} winners, "
        f"{pruned.runners_up} runners-up, "
        f"{pruned.runs} of {before.runs} runs, {pruned.poisoned} of {before.poisoned} poisoned programs"
    )
    print_facts([("removed" if removed else "to remove", text), ("from", location)])
    if pruned.study_trials:
        print_facts([("", f"{pruned.study_trials} trials of Optuna's studies there")])
    for subject in sorted({*pruned.trials, *pruned.winners}):
        winner = ", its winner" if subject in pruned.winners else ""
        print_facts([("", f"{' on '.join(subject)}: {pruned.trials.get(subject, 0)} trials{winner}")])
    if not removed:
        print_facts([("note", "nothing was removed; add --yes to remove it")])


def _document(pruned: Pruned) -> dict[str, Any]:
    return {
        "trials": [
            {"problem_key": problem, "device_key": device, "count": count}
            for (problem, device), count in pruned.trials.items()
        ],
        "winners": [{"problem_key": problem, "device_key": device} for problem, device in pruned.winners],
        "runs": pruned.runs,
        "poisoned": pruned.poisoned,
        "study_trials": pruned.study_trials,
        "runners_up": pruned.runners_up,
    }
