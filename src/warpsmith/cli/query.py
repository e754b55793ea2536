"""`warpsmith query`: shows the stored answer for a problem, and how it was found."""

from __future__ import annotations

import typer

from warpsmith.cli.families import standings, standings_table
from warpsmith.cli.operations.registry import add_commands
from warpsmith.cli.options import DeviceOption, JsonOption, MethodOption, StoreOption
from warpsmith.cli.output import match_document, print_facts, print_json, record_facts
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import NothingStored
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.plans.lookup import find
from warpsmith.store.store_chain import open_for_look_up


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Show the stored answer for a problem; exit 3 where there is none.", no_args_is_help=True)
    add_commands(group, _query)
    app.add_typer(group, name="query")


def _query(
    problem: Problem,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    method: MethodOption = AUTO,
    json: JsonOption = False,
) -> int:
    # One opening for both queries, so that a damaged store causes one warning.
    with open_for_look_up(store) as stores:
        match = find(problem, DeviceRef.parse(device).device(), stores, method)
        if match.record is None:
            of = problem.key() if method == AUTO else f"{method} of {problem.key()}"
            raise NothingStored(f"nothing is stored for {of}; run `warpsmith tune {problem.operation}` first")
        families = standings(match, match.record, stores)
    if json:
        document = {"problem": problem.spec(), "problem_key": problem.key(), **match_document(match)}
        print_json({**document, "families": [each.spec() for each in families]})
        return 0
    print_facts([("match", str(match.kind)), *(("", reason) for reason in match.reasons)])
    print_facts(record_facts(match.record))
    if len(families) > 1:
        print(f"\n{standings_table(families)}")
    return 0
