"""`warpsmith query`: what is stored for a problem, and how it was found."""

from __future__ import annotations

import typer

from warpsmith import api
from warpsmith.cli.operations.registry import add_commands
from warpsmith.cli.options import DeviceOption, JsonOption, StoreOption
from warpsmith.cli.output import match_document, print_facts, print_json, record_facts
from warpsmith.errors import NothingStored
from warpsmith.generator.problem import Problem


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Show the stored answer for a problem; exit 3 where there is none.", no_args_is_help=True)
    add_commands(group, _query)
    app.add_typer(group, name="query")


def _query(problem: Problem, device: DeviceOption = "auto", store: StoreOption = None, json: JsonOption = False) -> int:
    match = api.query(problem, device, store=store)
    if match.record is None:
        raise NothingStored(f"nothing is stored for {problem.key()}; run `warpsmith tune {problem.operation}` first")
    if json:
        print_json({"problem": problem.spec(), "problem_key": problem.key(), **match_document(match)})
        return 0
    print_facts([("match", str(match.kind)), *(("", reason) for reason in match.reasons)])
    print_facts(record_facts(match.record))
    return 0
