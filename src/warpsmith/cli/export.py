"""`warpsmith export`: writes tuned kernels to a folder that runs without the tuner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from warpsmith import api
from warpsmith.cli.operations.registry import add_commands
from warpsmith.cli.options import JsonOption, StoreOption
from warpsmith.cli.output import print_facts, print_json
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import Problem

OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Folder of the bundle.", rich_help_panel="Run")
]
ArchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arch",
        help="Architecture to compile for, such as sm_90; default those of the GPUs that were tuned on. Repeatable.",
        rich_help_panel="Run",
    ),
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Write tuned kernels as a bundle.", invoke_without_command=True)
    group.callback()(_export_all)
    add_commands(group, _export_one)
    app.add_typer(group, name="export")


def _export_all(
    context: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Export every stored winner.")] = False,
    out: OutOption = None,
    arch: ArchOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Write tuned kernels as a bundle: CUDA text, machine code, a manifest with checksums."""
    context.obj = {"out": out, "arch": arch, "store": store, "json": json}
    if context.invoked_subcommand is not None:
        if everything:
            raise BadArgument("give --all or an operation, not both")
        return 0
    if not everything:
        raise BadArgument("name what to export: --all, or an operation with its shape")
    return _write(None, out, arch, store, json)


def _export_one(
    problem: Problem,
    context: typer.Context,
    out: OutOption = None,
    arch: ArchOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    # Options may stand before or after the operation's name.
    before = context.obj
    return _write(
        [problem], out or before["out"], arch or before["arch"], store or before["store"], json or before["json"]
    )


def _write(
    problems: list[Problem] | None, out: Path | None, arch: list[str] | None, store: str | None, json: bool
) -> int:
    if out is None:
        raise BadArgument("name the folder to write with --out DIR")
    report = api.export(problems, out, archs=tuple(arch or ()), store=store)
    if json:
        print_json(
            {
                "folder": str(report.folder),
                "kernels": report.kernels,
                "cubins": report.cubins,
                "skipped": list(report.skipped),
            }
        )
        return 0
    print_facts([("bundle", str(report.folder)), ("kernels", str(report.kernels)), ("cubins", str(report.cubins))])
    print_facts(("skipped", reason) for reason in report.skipped)
    return 0
