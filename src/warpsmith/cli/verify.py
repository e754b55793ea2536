"""`warpsmith verify`: checks the stored answer once more against float64, on fresh data."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsmith.cli.operations.registry import add_commands
from warpsmith.cli.options import DeviceOption, JsonOption, SeedOption, StoreOption
from warpsmith.cli.output import print_facts, print_json
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.problem import Problem
from warpsmith.plans.lookup import look_up
from warpsmith.tuner.finals.compare import check
from warpsmith.tuner.operations.registry import judge_of


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Verify a stored kernel against a float64 reference; exit 1 if its result is wrong.", no_args_is_help=True
    )
    add_commands(group, _verify)
    app.add_typer(group, name="verify")


def _verify(
    problem: Problem,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    seed: SeedOption = 1,
    sanitize: Annotated[
        bool,
        typer.Option(
            "--sanitize", help="Run under AddressSanitizer and UndefinedBehaviorSanitizer.", rich_help_panel="Run"
        ),
    ] = False,
    json: JsonOption = False,
) -> int:
    ref = DeviceRef.parse(device)
    match = look_up(problem, ref.device(), store)
    outcome = check(problem, match.program, ref, seed, sanitize=sanitize)
    bound = judge_of(problem).error_bound(problem, problem.output)
    if json:
        print_json(
            {
                "problem_key": problem.key(),
                "match": str(match.kind),
                "right": True,
                "max_error": outcome.max_error,
                "bound": bound,
            }
        )
        return 0
    print_facts(
        [
            ("problem", problem.key()),
            ("match", str(match.kind)),
            ("kernel", f"{match.program.family} {match.program.config}"),
            ("correct", f"largest error {outcome.max_error:.2g} {problem.error_unit}, bound {bound:.0e}"),
        ]
    )
    return 0
