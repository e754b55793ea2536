"""`warpsmith db`: inspect, check, prune, merge, import and export stores."""

from __future__ import annotations

import dataclasses
import enum
import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from warpsmith.cli import db_check, db_look, db_prune
from warpsmith.cli.db_look import DeviceKeyOption, subjects_with
from warpsmith.cli.options import JsonOption, StoreOption
from warpsmith.cli.ordered import ordered_group
from warpsmith.cli.output import check_writable, is_same_file, print_facts, print_json, save_file
from warpsmith.errors import BadArgument, NothingStored
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem, member
from warpsmith.store import t4
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.location import write_location
from warpsmith.store.merging import MergeReport, merge_stores
from warpsmith.store.store import Store

COMMANDS = ("ls", "show", "check", "prune", "merge", "import", "export")
"""Commands in the order of the help text."""


class Format(enum.StrEnum):
    """Output format of `db export`."""

    LINES = "lines"
    """JSON lines: the whole store, for `db import`."""
    T4 = "t4"
    """Trials of one problem on one device, in the exchange format of Kernel Tuner and others, and their metadata."""


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        cls=ordered_group(COMMANDS),
        help="Inspect, check, prune, merge, import and export stores.",
        no_args_is_help=True,
    )
    db_look.register(group)
    db_prune.register(group)
    group.command("merge")(_merge)
    group.command("import")(_import)
    group.command("export")(_export)
    db_check.register(group)
    app.add_typer(group, name="db")


def _merge(
    source: Annotated[str, typer.Argument(metavar="STORE", help="File or URL of the store to merge.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Merge another store into this one; the faster of two winners is kept. All or nothing."""
    with Store.open(source, write=False) as other, Store.open(write_location(store), write=True) as own:
        report = merge_stores(own, other)
    return _print_report(report, json)


def _import(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, as `db export` writes them.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Import JSON lines. An invalid line is named, and nothing is imported."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise BadArgument(f"cannot read {file}: {reason}") from None
    # The lines go into memory first: a bad line then leaves no new, empty store behind.
    with Store.open(":memory:", write=True) as whole:
        import_lines(whole, lines, source=str(file))
        with Store.open(write_location(store), write=True) as own:
            report = merge_stores(own, whole)
    return _print_report(report, json)


def _export(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE | WORDS]...", help="The file; or, with --out, words of the problem's key."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File to write; it is written completely or not at all."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="lines (the whole store), or t4 (the trials of one problem).")
    ] = Format.LINES.value,
    device_key: DeviceKeyOption = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Export the store that `tune` writes to as JSON lines, or one problem's trials as T4 results."""
    chosen, given = member(Format, form, "format"), list(words or ())
    if out is None:
        if len(given) != 1:
            raise BadArgument("name the file to write with --out FILE")
        out = Path(given.pop())
    if chosen is Format.T4:
        return _export_t4(out, given, device_key, store, json)
    if given or device_key is not None:
        raise BadArgument("JSON lines carry the whole store; words and --device-key are for --format t4")
    with Store.open(write_location(store), write=False) as own:
        lines = list(export_lines(own))
    _refuse_store(out, own)
    save_file(out, "".join(f"{line}\n" for line in lines))
    if json:
        print_json({"file": str(out), "lines": len(lines)})
    else:
        print_facts([("written", f"{out}, {len(lines)} lines")])
    return 0


def _export_t4(out: Path, words: list[str], device_key: str | None, store: str | None, json: bool) -> int:
    beside = out.with_name(f"{out.stem}-metadata.json")
    with Store.open(write_location(store), write=False) as own:
        problem, device = _only(own, words, device_key)
        trials = own.dated_trials(problem, device)
        winner = own.winner(problem.key(), device.key())
    if winner is not None:  # readers expect one time per config: those under the winner's conditions
        trials = tuple((at, trial) for at, trial in trials if trial.is_under(winner.conditions))
    if not trials:
        raise NothingStored(f"{own.location} has the winner of {problem.key()}, but none of its trials")
    for file in (out, beside):
        _refuse_store(file, own)
        check_writable(file)
    save_file(beside, json_module.dumps(t4.metadata(problem, device, winner), indent=1) + "\n")
    save_file(out, json_module.dumps(t4.results(trials), indent=1) + "\n")
    if json:
        document = {"file": str(out), "metadata": str(beside), "trials": len(trials)}
        print_json({**document, "problem_key": problem.key(), "device_key": device.key()})
    else:
        print_facts([("written", f"{out}, {len(trials)} trials of {problem.key()}"), ("", f"{beside}, their metadata")])
    return 0


def _only(store: Store, words: list[str], device_key: str | None) -> tuple[Problem, Device]:
    """The one problem and device that the words match. Raises NothingStored, or BadArgument if there are several."""
    found = subjects_with(store, words, device_key)
    if not found:
        raise NothingStored("no stored problem has these words; `warpsmith db ls` lists all")
    if len(found) > 1:
        text = "; ".join(f"{problem.key()} on {device.key()}" for problem, device in found[:3])
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        raise BadArgument(f"T4 holds one problem on one device; add words or --device-key to choose of {text}{more}")
    return found[0]


def _refuse_store(file: Path, store: Store) -> None:
    if is_same_file(file, store.location):
        raise BadArgument(f"{file} is the store itself; name another file")


def _print_report(report: MergeReport, json: bool) -> int:
    document = dataclasses.asdict(report)
    if json:
        print_json(document)
    else:
        print_facts((name.replace("_", " "), str(count)) for name, count in document.items())
    return 0
