"""`warpsmith report`: every stored winner as a Markdown table."""

from __future__ import annotations

import typer

from warpsmith.cli.options import JsonOption, StoreOption
from warpsmith.cli.output import print_json, print_table
from warpsmith.errors import NothingStored
from warpsmith.store.location import open_for_reading
from warpsmith.store.record import COPY, Record
from warpsmith.tuner.progress import format_share, format_time


def register(app: typer.Typer) -> None:
    app.command("report")(_report)


def _report(store: StoreOption = None, json: JsonOption = False) -> int:
    """Print every stored winner: time, share of copy speed, the fastest peer measured beside it."""
    with open_for_reading(store) as stores:
        records = stores.records()
    if not records:
        raise NothingStored("nothing is stored yet; run `warpsmith tune` first")
    if json:
        print_json({"records": [record.spec() for record in records]})
        return 0
    header = ("problem", "device", "family", "time", "% of copy", "fastest peer")
    print_table(header, map(_cells, records))
    return 0


def _cells(record: Record) -> tuple[str, ...]:
    ours = record.trial.median_ns or 0.0
    times = {baseline.name: baseline.timing.median_ns for baseline in record.baselines}
    copy = times.pop(COPY, None)
    fastest = min(times, key=lambda name: times[name], default=None)
    return (
        record.problem.key(),
        record.device.name,
        record.trial.family,
        format_time(ours),
        format_share(copy, ours) if copy is not None else "-",
        f"{fastest}: {times[fastest] / ours:.2f}x our time" if fastest is not None else "-",
    )
