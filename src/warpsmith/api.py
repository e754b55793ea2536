"""The functions that users call. What they need is imported when they are called: importing warpsmith is quick."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from warpsmith.errors import NothingStored
from warpsmith.generator.problem import Problem

if TYPE_CHECKING:
    from warpsmith.plans.bundle import Bundle
    from warpsmith.plans.match import Match
    from warpsmith.plans.plan import Plan
    from warpsmith.store.record import Record
    from warpsmith.tuner.export import ExportReport
    from warpsmith.tuner.options import TuneReport


def tune(
    problem: Problem,
    device: str = "auto",
    *,
    trials: int = 100,
    time_limit: float | None = None,
    seed: int = 0,
    store: str | None = None,
) -> TuneReport:
    """Searches for the fastest right kernel for `problem` and stores it, with every trial on the way.

    Args:
        problem: what is to be computed.
        device: `auto` (the first GPU, else the host), `cuda:I`, `host`, or `all` for every GPU of this machine.
        trials: trials to have in the store at the end; earlier runs count, so that a killed run goes on.
        time_limit: seconds after which the search stops.
        seed: of the search and of the test data.
        store: a file or URL to keep results in; None is the user's own store.

    Raises:
        BadArgument: no such device, no family solves the problem, or an option out of its range.
        CompileError, DeviceError, StoreError: as their names say.
        TuningFailed: no candidate was right.
    """
    from warpsmith.devices.select import DeviceRef
    from warpsmith.store.location import write_location
    from warpsmith.tuner.options import TuneOptions
    from warpsmith.tuner.progress import SilentProgress
    from warpsmith.tuner.session import tune_into

    options = TuneOptions(trials=trials, time_limit_s=time_limit, seed=seed)
    return tune_into(write_location(store), problem, DeviceRef.parse_all(device), options, SilentProgress())


def plan(problem: Problem, device: str = "auto", *, store: str | None = None) -> Plan:
    """The best stored kernel for `problem`, compiled and loaded. Looks up, never searches.

    Args:
        problem: what is to be computed.
        device: `auto`, `cuda:I` or `host`.
        store: a file or URL to look in first; then come the user's own store and the shipped one.

    Raises:
        BadArgument: no such device, or no family solves the problem.
        CompileError, DeviceError, StoreError: as their names say.
    """
    from warpsmith.plans.make import plan as make

    return make(problem, device, store)


def query(problem: Problem, device: str = "auto", *, store: str | None = None) -> Match:
    """How `plan` would find its answer, without compiling anything; arguments and errors as there."""
    from warpsmith.devices.select import DeviceRef
    from warpsmith.plans.lookup import look_up

    return look_up(problem, DeviceRef.parse(device).device(), store)


def export(
    problems: Iterable[Problem] | None,
    folder: str | Path,
    *,
    archs: tuple[str, ...] = (),
    store: str | None = None,
) -> ExportReport:
    """Writes a bundle of stored winners: CUDA text, machine code, a manifest with checksums.

    Args:
        problems: whose winners, on every device that has one; None for all that is stored.
        folder: an empty or missing folder, or an earlier bundle, which is replaced.
        archs: architectures to compile for, such as `sm_90`; without any, those of the winners' own GPUs.
        store: a file or URL to look in first; then come the user's own store and the shipped one.

    Raises:
        NothingStored: one of the problems has no stored winner, or nothing is stored at all.
        BundleError: the folder cannot be written or holds something else.
    """
    from warpsmith.store.location import open_for_reading
    from warpsmith.tuner.export import export as write

    with open_for_reading(store) as stores:
        records = stores.answers()
    return write(_winners(problems, records), Path(folder), archs)


def _winners(problems: Iterable[Problem] | None, records: tuple[Record, ...]) -> tuple[Record, ...]:
    if problems is None:
        if not records:
            raise NothingStored("nothing is stored yet; run `warpsmith tune` first")
        return records
    chosen: list[Record] = []
    for problem in problems:
        found = [record for record in records if record.problem == problem]
        if not found:
            raise NothingStored(f"nothing is stored for {problem.key()}; run `warpsmith tune` first")
        chosen += found
    return tuple(chosen)


def load_bundle(folder: str | Path) -> Bundle:
    """Opens an exported bundle and checks its files. Needs neither a store nor the tuner's packages.

    Raises BundleError where it is no bundle, incomplete or altered.
    """
    from warpsmith.plans.bundle import load_bundle as load

    return load(folder)
