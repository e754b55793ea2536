"""Times winners again whose library baselines were timed under other conditions, and writes them to a store for
shipping.

    usage: python benchmarks/remeasure_verdicts.py RESULTS.db [SECONDS] [SOURCE.db [--all | --stale]]
such as: python benchmarks/remeasure_verdicts.py graphs.db 480; python benchmarks/ship_winners.py graphs.db

It takes winners of SOURCE, by default the shipped store, that were tuned on a GPU like cuda:0: those that `warpsmith db
check --verdicts` lists, or all. With --stale it takes winners whose kernels have changed text since, and keeps their
configs. Each is verified on fresh data and timed in turns with the device's copy, the libraries installed here and the
simplest kernel, all under the conditions of its stored time: if the winner runs in a CUDA graph, so does cuFFT.
READY_AT_ONCE winners are loaded and verified at a time, then timed one after the other, while the others leave the
device alone. It starts none once SECONDS have passed (480 by default); the same command continues with the rest.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import sys
import time
from collections.abc import Callable

from warpsmith.cli.verdicts import summary
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.plans.lookup import regenerate
from warpsmith.store.location import shipped_store
from warpsmith.store.record import Record
from warpsmith.store.store import Store
from warpsmith.tuner.finals.recheck import must_be_measured, ready_again

READY_AT_ONCE = 8
"""Winners prepared at the same time. Each loads libraries for 6 s and is timed for 1 s."""


def main(target: str, seconds: str = "480", source: str = str(shipped_store()), which: str = "") -> None:
    deadline, device = time.monotonic() + float(seconds), DeviceRef.parse("cuda:0")
    with Store.open(source, write=False) as stored, Store.open(target, write=True) as results:
        is_wanted = {"--all": lambda _: True, "--stale": _is_stale}.get(which, must_be_measured)
        wanted = [record for record in stored.records() if is_wanted(record)]
        mine = [record for record in wanted if record.device.key() == device.device().key()]
        left = [record for record in mine if _done(results, record) is None]
        print(f"{len(wanted)} winners, {len(mine)} of this device, {len(left)} to be measured", flush=True)
        for start in range(0, len(left), READY_AT_ONCE):
            if time.monotonic() > deadline:
                print(f"{len(left) - start} are left; the same command goes on")
                return
            _measure(left[start : start + READY_AT_ONCE], device, results)


def _measure(records: list[Record], device: DeviceRef, results: Store) -> None:
    """Prepares all records, then times one after the other."""
    with contextlib.ExitStack() as opened, concurrent.futures.ThreadPoolExecutor(READY_AT_ONCE) as pool:
        ready = list(pool.map(_ready, records, itertools.repeat(device), itertools.repeat(opened)))
        for record, measure in zip(records, ready, strict=True):
            print(f"{record.problem.key()}: {_told(record, measure, results)}", flush=True)


def _ready(record: Record, device: DeviceRef, opened: contextlib.ExitStack) -> Callable[[], Record] | str:
    """The function that measures the record, or the reason why it cannot be measured."""
    try:
        return opened.enter_context(ready_again(record, device, seed=1, renewed=_is_stale(record)))
    except WarpsmithError as error:
        return f"not measured: {error}"


def _is_stale(record: Record) -> bool:
    """True if this version generates another text than the one whose time is stored."""
    return regenerate(record) is None


def _told(record: Record, measure: Callable[[], Record] | str, results: Store) -> str:
    """Measures and stores a record; returns the result as text."""
    if isinstance(measure, str):
        return measure
    try:
        again = measure()
    except WarpsmithError as error:
        return f"not measured: {error}"
    if again.conditions != record.conditions:
        return f"not kept: timed as {again.conditions!r}, stored as {record.conditions!r}"
    results.put_winner(again)
    times = f"{again.timing.median_ns:.0f} ns, was {record.timing.median_ns:.0f} ns"
    return f"{times}; {summary(again.verdicts)}"


def _done(results: Store, record: Record) -> Record | None:
    return results.winner(record.problem.key(), record.device.key(), record.conditions)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
