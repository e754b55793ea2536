"""Times winners again that were set beside a library under other conditions, and writes them to a store to be shipped.

    usage: python benchmarks/remeasure_verdicts.py RESULTS.db [SECONDS] [SOURCE.db]
such as: python benchmarks/remeasure_verdicts.py graphs.db 480; python benchmarks/ship_winners.py graphs.db

Takes the winners of SOURCE, the shipped store where none is named, that `warpsmith db check --verdicts` lists and that
were tuned on a GPU like cuda:0. Each is verified on fresh data and timed in turns with the device's copy, the libraries
installed here and the simplest kernel, all under the conditions of its stored time: where ours is in a CUDA graph, so
is cuFFT. While one is timed, others load their libraries; they take turns on the GPU. Begins none once SECONDS have
passed (480 without a number); the same command goes on with the rest.
"""

from __future__ import annotations

import concurrent.futures
import sys
import time

from warpsmith.cli.verdicts import summary
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import WarpsmithError
from warpsmith.store.location import shipped_store
from warpsmith.store.record import Record
from warpsmith.store.store import Store
from warpsmith.tuner.recheck import measured_again, must_be_measured

READY_AT_ONCE = 4
"""Records whose libraries and references are made ready while another one is timed: loading takes 6 s, timing 1 s."""
LATER = "later"


def main(target: str, seconds: str = "480", source: str = str(shipped_store())) -> None:
    deadline, device = time.monotonic() + float(seconds), DeviceRef.parse("cuda:0")
    with Store.open(source, write=False) as stored, Store.open(target, write=True) as results:
        unfair = [record for record in stored.records() if must_be_measured(record)]
        mine = [record for record in unfair if record.device.key() == device.device().key()]
        left = [record for record in mine if _done(results, record) is None]
        print(f"{len(unfair)} winners, {len(mine)} of this device, {len(left)} to be measured", flush=True)

        def measured(record: Record) -> Record | str:
            return LATER if time.monotonic() > deadline else _measured(record, device)

        later = 0
        with concurrent.futures.ThreadPoolExecutor(READY_AT_ONCE) as pool:
            for record, again in zip(left, pool.map(measured, left), strict=True):
                if again == LATER:
                    later += 1
                elif isinstance(again, str):
                    print(f"{record.problem.key()}: {again}", flush=True)
                else:
                    results.put_winner(again)
                    times = f"{again.timing.median_ns:.0f} ns, was {record.timing.median_ns:.0f} ns"
                    print(f"{record.problem.key()}: {times}; {summary(again.verdicts)}", flush=True)
        if later:
            print(f"{later} are left; the same command goes on")


def _done(results: Store, record: Record) -> Record | None:
    return results.winner(record.problem.key(), record.device.key(), record.conditions)


def _measured(record: Record, device: DeviceRef) -> Record | str:
    """The record with times of today, or why there is none."""
    try:
        again = measured_again(record, device, seed=1)
    except WarpsmithError as error:
        return f"not measured: {error}"
    if again.conditions != record.conditions:
        return f"not kept: timed as {again.conditions!r}, stored as {record.conditions!r}"
    return again


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    main(*sys.argv[1:])
