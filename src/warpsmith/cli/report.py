"""`warpsmith report`: every stored winner as a Markdown table."""

from __future__ import annotations

from typing import Any

import typer

from warpsmith.cli.options import JsonOption, StoreOption
from warpsmith.cli.output import print_json, print_table
from warpsmith.cli.verdicts import conditions_words, copy_share, peer_cell, summary
from warpsmith.errors import NothingStored
from warpsmith.store.record import Record
from warpsmith.store.store_chain import open_for_reading
from warpsmith.units import format_time


def register(app: typer.Typer) -> None:
    app.command("report")(_report)


def _report(store: StoreOption = None, json: JsonOption = False) -> int:
    """Print every stored winner: its time and conditions, share of copy speed, the fastest peer timed as it was."""
    with open_for_reading(store) as stores:
        records = stores.records()
    if not records:
        raise NothingStored("nothing is stored yet; run `warpsmith tune` first")
    if json:
        print_json({"records": [_document(record) for record in records]})
        return 0
    header = ("problem", "device", "family", "time", "timed", "% of copy", "fastest peer", "left out")
    print_table(header, map(_cells, records))
    return 0


def _document(record: Record) -> dict[str, Any]:
    return {
        **record.spec(),
        "conditions": record.conditions,
        "verdict": summary(record.verdicts),
        "verdicts": [each.spec() for each in record.verdicts],
    }


def _cells(record: Record) -> tuple[str, ...]:
    return (
        record.problem.key(),
        record.device.name,
        record.trial.family,
        format_time(record.timing.median_ns),
        conditions_words(record),
        copy_share(record.verdicts) or "-",
        peer_cell(record.verdicts),
        "; ".join(f"{each.name}: {each.reason}" for each in record.left_out) or "-",
    )
