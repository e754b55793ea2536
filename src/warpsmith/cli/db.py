"""`warpsmith db`: look into stores, check, merge, carry them elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from warpsmith.cli import files
from warpsmith.cli.options import JsonOption, StoreOption
from warpsmith.cli.output import print_error, print_facts, print_json, record_facts
from warpsmith.errors import BadArgument, NothingStored
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.location import open_for_reading, write_location
from warpsmith.store.store import MergeReport, Store

WordsArgument = Annotated[list[str] | None, typer.Argument(metavar="[WORDS]...", help="Words of the problem's key.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Look into stores, check, merge and carry them.", no_args_is_help=True)
    group.command("ls")(_ls)
    group.command("show")(_show)
    group.command("merge")(_merge)
    group.command("import")(_import)
    group.command("export")(_export)
    group.command("check")(_check)
    app.add_typer(group, name="db")


def _ls(store: StoreOption = None, json: JsonOption = False) -> int:
    """List the winners of every store that is asked, one a line."""
    with open_for_reading(store) as stores:
        rows = [(each.location, record) for each in stores.stores for record in each.records()]
    if json:
        keys = [
            {"store": location, "problem_key": record.problem.key(), "device_key": record.device.key()}
            for location, record in rows
        ]
        print_json({"winners": keys})
        return 0
    for location, record in rows:
        print(f"{record.problem.key()}  {record.device.key()}  {location}")
    return 0


def _show(words: WordsArgument = None, store: StoreOption = None, json: JsonOption = False) -> int:
    """Show the winners whose problem has all the given words, such as `db show filter=3x3`."""
    with open_for_reading(store) as stores:
        records = stores.records()
    wanted = [record for record in records if set(words or ()) <= set(record.problem.key().split())]
    if not wanted:
        raise NothingStored("no stored winner has these words in its problem; `warpsmith db ls` lists all")
    if json:
        print_json({"records": [record.spec() for record in wanted]})
        return 0
    for record in wanted:
        print_facts(record_facts(record))
        print()
    return 0


def _merge(
    source: Annotated[str, typer.Argument(metavar="STORE", help="File or URL to take from.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Take over what another store holds; the faster of two winners stays. All or nothing."""
    with Store.open(source, write=False) as other, Store.open(write_location(store), write=True) as own:
        report = own.merge(other)
    return _tell(report, json)


def _import(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines, as `db export` writes them.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Take over JSON lines. A bad line is named and nothing is imported."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise BadArgument(f"cannot read {file}: {reason}") from None
    # Into memory first: a bad line then leaves no new, empty store behind.
    with Store.open(":memory:", write=True) as whole:
        import_lines(whole, lines, source=str(file))
        with Store.open(write_location(store), write=True) as own:
            report = own.merge(whole)
    return _tell(report, json)


def _export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Written as JSON lines.")],
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Write the store that `tune` would write to as JSON lines."""
    with Store.open(write_location(store), write=False) as own:
        lines = list(export_lines(own))
    if files.same(file, own.location):
        raise BadArgument(f"{file} is the store itself; name another file")
    files.save(file, "".join(f"{line}\n" for line in lines))
    if json:
        print_json({"file": str(file), "lines": len(lines)})
    else:
        print_facts([("written", f"{file}, {len(lines)} lines")])
    return 0


def _check(store: StoreOption = None, json: JsonOption = False) -> int:
    """Look for damage in every store that is asked; exit 1 where there is some."""
    with open_for_reading(store) as stores:
        found = {each.location: list(each.check()) for each in stores.stores}
    if json:
        print_json({"stores": found})
    else:
        for location, problems in found.items():
            print_facts([(("damaged" if problems else "good"), location), *(("", problem) for problem in problems)])
    if damaged := [location for location, problems in found.items() if problems]:
        print_error(f"{', '.join(damaged)}: damaged; see what was found on standard output")
        return 1
    return 0


def _tell(report: MergeReport, json: bool) -> int:
    document: dict[str, Any] = {
        "trials_added": report.trials_added,
        "winners_added": report.winners_added,
        "winners_replaced": report.winners_replaced,
        "winners_kept": report.winners_kept,
    }
    if json:
        print_json(document)
    else:
        print_facts((name.replace("_", " "), str(count)) for name, count in document.items())
    return 0
