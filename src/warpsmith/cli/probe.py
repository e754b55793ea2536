"""`warpsmith probe`: measures what a GPU reaches, and stores it for the models that expect times."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from warpsmith.cli.options import DeviceOption, JsonOption, StoreOption
from warpsmith.cli.output import print_facts, print_json, print_table
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.ceilings import Figure
from warpsmith.generator.device import Device
from warpsmith.store.ceilings import StoredCeilings
from warpsmith.store.location import redacted, write_location
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.probe import measurable_device, probe_device
from warpsmith.units import format_ceiling

AgainOption = Annotated[
    bool, typer.Option("--again", help="Measure also where ceilings are stored.", rich_help_panel="Run")
]


def register(app: typer.Typer) -> None:
    app.command("probe")(_probe)


def _probe(
    device: DeviceOption = "auto", store: StoreOption = None, again: AgainOption = False, json: JsonOption = False
) -> int:
    """Measure the ceilings of a GPU, once: memory, L2, shared memory, arithmetic, launches, barriers.

    A search does it by itself before the first one on a GPU. Models of kernels then expect what this GPU reaches, where
    the data sheet says otherwise.
    """
    ref, location = DeviceRef.parse(device), write_location(store)
    measurable_device(ref)  # before a store is made
    with Store.open(location, write=True) as opened:
        measured, stored, is_new = probe_device(ref, opened, again=again)
    if json:
        print_json(_document(measured, stored, is_new, redacted(location)))
        return 0
    print_table(("ceiling", "measured", "data sheet", "share"), map(_cells, measured.figures))
    said = redacted(location) if is_new else f"since {stored.created}; `warpsmith probe --again` measures anew"
    refusals = [("refused", refusal) for figure in measured.figures if (refusal := figure.refusal)]
    print_facts(
        [("device", measured.key()), ("with", f"{stored.driver}, {stored.compiler}"), *refusals, ("stored", said)]
    )
    return 0


def _cells(figure: Figure) -> tuple[str, ...]:
    sheet = "-" if figure.sheet is None else f"{figure.sheet:.0f}"
    share = "-" if figure.share is None else f"{figure.share:.2f}"
    return figure.name, format_ceiling(figure.measured), sheet, share


def _document(device: Device, stored: StoredCeilings, is_new: bool, location: str) -> dict[str, Any]:
    return {
        "device_key": device.key(),
        "device": device.spec(),
        "ceilings": [
            {
                "name": each.name,
                "measured": each.measured,
                "data_sheet": each.sheet,
                "expected": each.expected,
                "factor": each.factor,
                "refused": each.refusal,
            }
            for each in device.figures
        ],
        "created": stored.created,
        "driver": stored.driver,
        "compiler": stored.compiler,
        "measured_now": is_new,
        "store": location,
        "python": python_of(stored),
    }


def python_of(stored: StoredCeilings) -> str:
    """The ceilings as the text of `generator.ceilings.REFERENCE_CEILINGS`, to four digits."""
    fields = ", ".join(f"{name}={float(f'{value:.4g}'):g}" for name, value in stored.ceilings.spec().items())
    return f"Ceilings({fields})"
