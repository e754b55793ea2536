"""`warpsmith explain`: shows the reasons for an answer, the configs that were tried, and the CUDA text."""

from __future__ import annotations

from typing import Annotated

import typer

from warpsmith.cli.operations.registry import add_commands
from warpsmith.cli.options import DeviceOption, JsonOption, StoreOption
from warpsmith.cli.output import match_document, print_facts, print_json
from warpsmith.cli.space import size_text
from warpsmith.cli.verdicts import beside_facts, conditions_words
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import Device
from warpsmith.generator.gate import Gate
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import OPERATIONS
from warpsmith.plans.lookup import find
from warpsmith.store.conditions import conditions_key
from warpsmith.store.record import Failure, Measurement, Trial, trial_spec
from warpsmith.store.store_chain import open_with_trials
from warpsmith.tuner.finals.choose import fastest_first
from warpsmith.units import format_time


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Show how the kernel for a problem is found and which configurations were tried.", no_args_is_help=True
    )
    add_commands(group, _explain)
    app.add_typer(group, name="explain")


def _explain(
    problem: Problem,
    device: DeviceOption = "auto",
    store: StoreOption = None,
    top: Annotated[int, typer.Option("--top", min=0, help="Number of trials to list.", rich_help_panel="Run")] = 10,
    source: Annotated[bool, typer.Option("--source", help="Print only the CUDA text.", rich_help_panel="Run")] = False,
    json: JsonOption = False,
) -> int:
    with open_with_trials(store) as stores:
        target = stores.measured(DeviceRef.parse(device).device())
        match = find(problem, target, stores)
        trials = [trial for each in stores.stores for trial in each.trials(problem, target)]
    if json:
        gate = Gate(problem, target)
        families = {family.name: gate.why_unable(family) for family in OPERATIONS[problem.operation].families}
        print_json(
            {
                "problem_key": problem.key(),
                "device_key": target.key(),
                **match_document(match),
                "families": families,
                "trials": [trial_spec(trial) for trial in trials],
                "source": match.program.source,
            }
        )
        return 0
    if source:
        print(match.program.source, end="")
        return 0
    print_facts([("problem", problem.key()), ("device", target.key()), ("match", str(match.kind))])
    print_facts(("", reason) for reason in match.reasons)
    print_facts([("kernel", f"{match.program.family} {match.program.config}")])
    if match.record is not None:
        print_facts([("timed", conditions_words(match.record)), *beside_facts(match.record)])
    print_facts(_families(problem, target))
    print_facts(_trials(trials, top))
    return 0


def _families(problem: Problem, device: Device) -> list[tuple[str, str]]:
    facts, gate = [], Gate(problem, device)
    for family in OPERATIONS[problem.operation].families:
        text = gate.why_unable(family)
        if text is None:
            space = gate.space_if_able(family)
            text = "no space: it failed" if space is None else size_text(space)
        facts.append(("family", f"{family.name}: {text}"))
    return facts


def _trials(trials: list[Trial], top: int) -> list[tuple[str, str]]:
    facts = [("trials", f"{len(trials)} stored")]
    timed = [(trial, trial.outcome.timing) for trial in fastest_first(trials) if isinstance(trial.outcome, Measurement)]
    is_mixed = len({conditions_key(timing.policy) for _, timing in timed}) > 1
    for trial, timing in timed[:top]:
        under = f"  ({conditions_key(timing.policy)})" if is_mixed else ""
        facts.append(("", f"{format_time(timing.median_ns):>9}  {trial.family} {trial.config}{under}"))
    for trial in trials:
        if isinstance(trial.outcome, Failure):
            facts.append(("failed", f"{trial.outcome.kind}: {trial.outcome.message}  {trial.family} {trial.config}"))
    return facts
