"""Times winners again that were set beside a library under other conditions, and writes them to a store to be shipped.

    usage: python benchmarks/remeasure_verdicts.py RESULTS.db [SECONDS] [SOURCE.db [--all | --stale]]
such as: python benchmarks/remeasure_verdicts.py graphs.db 480; python benchmarks/ship_winners.py graphs.db

Takes the winners of SOURCE, the shipped store where none is named, that `warpsmith db check --verdicts` lists, or all,
and that were tuned on a GPU like cuda:0. With --stale it takes those whose kernels have another text by now, and keeps
their configs. Each is verified on fresh data and timed in turns with the device's copy, the
libraries installed here and the simplest kernel, all under the conditions of its stored time: where ours is in a CUDA
graph, so is cuFFT. READY_AT_ONCE are loaded and verified at a time, then timed one after the other, while the others
leave the device alone. Begins none once SECONDS have passed (480 without a number); the same command goes on with the
rest.
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
"""Each loads libraries for 6 s and is timed for 1."""


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
    """Makes all of them ready, then times one after the other."""
    with contextlib.ExitStack() as opened, concurrent.futures.ThreadPoolExecutor(READY_AT_ONCE) as pool:
        ready = list(pool.map(_ready, records, itertools.repeat(device), itertools.repeat(opened)))
        for record, measure in zip(records, ready, strict=True):
            print(f"{record.problem.key()}: {_told(record, measure, results)}", flush=True)


def _ready(record: Record, device: DeviceRef, opened: contextlib.ExitStack) -> Callable[[], Record] | str:
    """What measures the record; why it cannot be measured."""
    try:
        return opened.enter_context(ready_again(record, device, seed=1, renewed=_is_stale(record)))
    except WarpsmithError as error:
        return f"not measured: {error}"


def _is_stale(record: Record) -> bool:
    """Whether this version generates another text than the one whose time is stored."""
    return regenerate(record) is None


def _told(record: Record, measure: Callable[[], Record] | str, results: Store) -> str:
    """Measures and stores a record; what came of it."""
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
