"""`warpsmith doctor`: what this machine can do, and what to install for the rest."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import platform
from collections.abc import Callable

import typer

from warpsmith.cli.options import JsonOption, StoreOption
from warpsmith.cli.output import print_error, print_json
from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.extras import Extra, require
from warpsmith.store.location import open_for_reading, shown, write_location


@dataclasses.dataclass(frozen=True, slots=True)
class _Finding:
    """One thing looked at."""

    name: str
    good: bool
    told: str


def register(app: typer.Typer) -> None:
    app.command("doctor")(_doctor)


def _doctor(store: StoreOption = None, json: JsonOption = False) -> int:
    """Check compilers, devices and stores; exit 1 if no device can be used or a store cannot be read."""
    looks: dict[str, Callable[[], str]] = {
        "warpsmith": lambda: f"{importlib.metadata.version('warpsmith')}, Python {platform.python_version()}",
        "host": lambda: DeviceRef.parse("host").device().name,
        "host compiler": lambda: DeviceRef.parse("host").compiler(CompilerChoice.AUTO).identity,
        "gpu": lambda: DeviceRef.parse("cuda:0").device().key(),
        "nvrtc": lambda: DeviceRef.parse("cuda:0").compiler(CompilerChoice.NVRTC).identity,
        "nvcc": lambda: DeviceRef.parse("cuda:0").compiler(CompilerChoice.NVCC).identity,
        "stores": lambda: _stores(store),
        "writes to": lambda: shown(write_location(store)),
        **{f"extra {extra}": functools.partial(_extra, extra) for extra in Extra},
    }
    findings = [_look(name, look) for name, look in looks.items()]
    good = {finding.name: finding.good for finding in findings}
    usable = good["stores"] and ((good["host"] and good["host compiler"]) or (good["gpu"] and good["nvrtc"]))
    if json:
        print_json({"usable": usable, "findings": [dataclasses.asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            print(f"{'ok' if finding.good else '--':<3}{finding.name:<14} {finding.told}")
    if not usable:
        print_error("no device can be used here, or a store cannot be read; the findings on standard output say why")
    return 0 if usable else 1


def _look(name: str, look: Callable[[], str]) -> _Finding:
    try:
        return _Finding(name, True, look())
    except WarpsmithError as error:
        return _Finding(name, False, str(error))


def _extra(extra: Extra) -> str:
    require(extra, "it")
    return "installed"


def _stores(store: str | None) -> str:
    with open_for_reading(store) as stores:
        told = [f"{each.location} ({len(each.records())} winners)" for each in stores.stores]
    return ", ".join(told)
