"""`warpsmith space`: lists the parameters of a problem's kernels, their values, the rules between them, the size."""

from __future__ import annotations

import math
from typing import Any

import typer

from warpsmith.cli.operations.registry import add_commands
from warpsmith.cli.options import DeviceOption, JsonOption, MethodOption, SetOption
from warpsmith.cli.output import print_facts, print_json, print_table
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.gate import Gate
from warpsmith.generator.pins import Pins
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.generator.registry import OPERATIONS, selected_families
from warpsmith.generator.selection import Selection
from warpsmith.generator.space import Parameter, Space

COUNTED = 20_000
"""Largest space whose configs are counted; that takes about half a second."""


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="List the parameters of a problem's kernels, their values, the rules between them, and the size.",
        no_args_is_help=True,
    )
    add_commands(group, _space)
    app.add_typer(group, name="space")


def _space(
    problem: Problem,
    device: DeviceOption = "auto",
    method: MethodOption = AUTO,
    pinned: SetOption = [],  # noqa: B006 - typer reads the default, and nothing changes it
    json: JsonOption = False,
) -> int:
    selection = Selection(method, Pins.parse(pinned))
    gate = Gate(problem, DeviceRef.parse(device).device(), selection.pins)
    able = {family.name: gate.space(family) for family in selected_families(selection, gate)}
    others = {} if method != AUTO else _unable(gate)
    if json:
        _print_document(gate, able, others)
        return 0
    print_facts([("problem", problem.key()), ("device", gate.device.key())])
    for name, space in able.items():
        shown = space.shown()
        of_part = f"; values and rules are those with {shown.part}, and --set lists others" if shown.part else ""
        print(f"\n{name}: {size_text(space)}{of_part}")
        print_table(("parameter", "values", "meaning"), map(_parameter_cells, shown.parameters))
        if shown.rules:
            print()
            print_table(("rule", "parameters"), ((each.why, ", ".join(each.parameters)) for each in shown.rules))
    if others:
        print()
        print_facts(("not here", f"{name}: {why}") for name, why in others.items())
    return 0


def size_text(space: Space) -> str:
    """Number of configs as text, such as `412 configs`; spaces of more than COUNTED are not counted."""
    listing = space.listed(COUNTED)
    if listing is not None:
        return f"{len(listing)} configs"
    return f"over {COUNTED} configs of {_combinations(space):.1e} combinations of values"


def _combinations(space: Space) -> int:
    """Combinations of the values that a list shows, before the rules."""
    return math.prod(len(parameter.values) for parameter in space.shown().parameters)


def _unable(gate: Gate) -> dict[str, str]:
    """Reason of each family of the operation that has no config here."""
    families = OPERATIONS[gate.problem.operation].families
    return {family.name: why for family in families if (why := gate.why_unable(family)) is not None}


def _parameter_cells(parameter: Parameter) -> tuple[str, str, str]:
    return parameter.name, ", ".join(map(str, parameter.values)), parameter.meaning


def _print_document(gate: Gate, able: dict[str, Space], others: dict[str, str]) -> None:
    families = [{"family": name, **_space_document(space)} for name, space in able.items()]
    unable = [{"family": name, "why": why} for name, why in others.items()]
    problem = gate.problem
    subject = {"problem": problem.spec(), "problem_key": problem.key(), "device_key": gate.device.key()}
    print_json({**subject, "families": families, "unable": unable})


def _space_document(space: Space) -> dict[str, Any]:
    listing, shown = space.listed(COUNTED), space.shown()
    return {
        "size": None if listing is None else len(listing),
        "combinations": _combinations(space),
        "of": shown.part or None,
        "parameters": [
            {"name": each.name, "values": list(each.values), "meaning": each.meaning} for each in shown.parameters
        ],
        "rules": [{"why": each.why, "parameters": list(each.parameters)} for each in shown.rules],
    }
