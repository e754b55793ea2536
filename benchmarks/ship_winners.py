"""Copies a store's winners and runners-up, but not its trials, into the cache.db that ships with the package.

python benchmarks/ship_winners.py RESULTS/store.db
"""

import sys
from pathlib import Path

from warpsmith.generator.device import DeviceKind
from warpsmith.store.store import Store

SHIPPED = Path(__file__).parent.parent / "cache.db"


def main(source: str) -> None:
    with Store.open(source, write=False) as measured, Store.open(str(SHIPPED), write=True) as shipped:
        for record in measured.records():
            # Times of a host device hold for one machine only.
            if record.device.kind is DeviceKind.CUDA:
                shipped.put_winner(record)
                beside = measured.runners_up(record.problem.key(), record.device.key())
                shipped.put_runners_up(each for each in beside if each.conditions == record.conditions)
                print(f"{record.problem.key()} on {record.device.name}")


if __name__ == "__main__":
    main(sys.argv[1])
