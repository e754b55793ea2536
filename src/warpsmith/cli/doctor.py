"""`warpsmith doctor`: checks what this machine can do, and says what to install for the rest."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import platform
from collections.abc import Callable

import typer

from warpsmith.cli.options import JsonOption, StoreOption
from warpsmith.cli.output import print_error, print_json
from warpsmith.devices.compiler_report import (
    CompilerReport,
    Condition,
    report_on_host_compiler,
    report_on_nvcc,
    report_on_nvrtc,
    report_on_pycuda,
)
from warpsmith.devices.library_versions import installed_version
from warpsmith.devices.native import native
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import DeviceError, WarpsmithError
from warpsmith.extras import Extra, require
from warpsmith.generator.ceilings import Figure
from warpsmith.generator.library_calls import Library
from warpsmith.store.location import redacted, write_location
from warpsmith.store.store_chain import open_for_reading
from warpsmith.units import format_ceiling

TRIAL_ARCH = "sm_80"
"""Architecture for which GPU compilers are tested if there is no GPU: CUDA 11 to 13 support it."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Finding:
    """Result of one check."""

    name: str
    good: bool
    status: Condition
    told: str


def register(app: typer.Typer) -> None:
    app.command("doctor")(_doctor)


def _doctor(store: StoreOption = None, json: JsonOption = False) -> int:
    """Check compilers, devices and stores; exit 1 if no device can be used or a store cannot be read.

    Each compiler is tried on a small kernel, also where there is no GPU; PyCUDA's where PyCUDA is installed. NVIDIA's
    libraries are candidates beside our kernels, and nothing else needs them.
    """
    gpu = _check("gpu", lambda: DeviceRef.parse("cuda:0").device().key())
    arch = DeviceRef.parse("cuda:0").device().arch if gpu.good else TRIAL_ARCH
    findings = [
        _check("warpsmith", lambda: f"{importlib.metadata.version('warpsmith')}, Python {platform.python_version()}"),
        _check("host", lambda: DeviceRef.parse("host").device().name),
        _of("host compiler", report_on_host_compiler()),
        _check("calls", _calls),
        gpu,
        *([_check("ceilings", lambda: _ceilings(store))] if gpu.good else []),
        _of("nvrtc", report_on_nvrtc(arch)),
        _of("nvcc", report_on_nvcc(arch)),
        *(_of("pycuda", report) for report in (report_on_pycuda(arch),) if report is not None),
        *(_check(library, functools.partial(installed_version, library)) for library in Library),
        _check("stores", lambda: _stores(store)),
        _check("writes to", lambda: redacted(write_location(store))),
        *(_check(f"extra {extra}", functools.partial(_extra, extra)) for extra in Extra),
    ]
    good = {finding.name: finding.good for finding in findings}
    usable = good["stores"] and ((good["host"] and good["host compiler"]) or (good["gpu"] and good["nvrtc"]))
    if json:
        print_json({"usable": usable, "findings": [dataclasses.asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            status = "" if finding.good else f"{finding.status}: "
            print(f"{'ok' if finding.good else '--':<3}{finding.name:<14} {status}{finding.told}")
    if not usable:
        print_error("no device can be used here, or a store cannot be read; the findings on standard output say why")
    return 0 if usable else 1


def _of(name: str, report: CompilerReport) -> _Finding:
    return _Finding(name, report.condition is Condition.OK, report.condition, report.message)


def _check(name: str, check: Callable[[], str]) -> _Finding:
    try:
        return _Finding(name, True, Condition.OK, check())
    except WarpsmithError as error:
        condition = Condition.MISSING if isinstance(error, DeviceError) else Condition.BROKEN
        return _Finding(name, False, condition, str(error))


def _calls() -> str:
    """How calls of plans run."""
    if native() is None:
        raise DeviceError("bound one by one in Python, which is slower: install warpsmith where there is a C compiler")
    return "compiled"


def _extra(extra: Extra) -> str:
    require(extra, "it")
    return "installed"


def _ceilings(store: str | None) -> str:
    """What was measured on the first GPU."""
    device = DeviceRef.parse("cuda:0").device()
    with open_for_reading(store) as stores:
        stored = stores.ceilings(device)
    if stored is None:
        raise DeviceError("not measured: warpsmith probe")
    figures = dataclasses.replace(device, ceilings=stored.ceilings).figures
    shares = (f"{each.name} {format_ceiling(each.measured)}{_share(each)}" for each in figures)
    refusals = (each.refusal for each in figures if each.refusal)
    return "; ".join((f"{stored.created}: {', '.join(shares)}", *refusals))


def _share(figure: Figure) -> str:
    return "" if figure.share is None else f" ({figure.share:.0%})"


def _stores(store: str | None) -> str:
    with open_for_reading(store) as stores:
        text = [f"{each.location} ({len(each.records())} winners)" for each in stores.stores]
    return ", ".join(text)
