"""Configurations per second of one GPU and of several, in one run, each with an empty store and an empty cache.

    usage: python benchmarks/device_scaling.py FAMILY IMAGE FILTER CONFIGS [GPUS]
such as: python benchmarks/device_scaling.py filter2d_plain 12288x12288 5x5 2160

One GPU and several get the same number of configs. If that is the whole space, as above, the work is identical, in any
order. Otherwise a search that has come further tries other kernels, which take longer or shorter. One GPU has its share
of the machine's cores. Three rates are printed: from the call to the stored winner, including the timing of other
libraries; from the first trial to the last; and from the first tenth of the trials, when all GPUs are open, to the
last.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import warpsmith as ws
from warpsmith.cli.options import extent
from warpsmith.devices.host.machine import cores
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.registry import FAMILIES
from warpsmith.store.record import Measurement
from warpsmith.store.store import Store
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress, Snapshot
from warpsmith.tuner.run.session import tune


class Clock(SilentProgress):
    """Records the number of finished trials over time."""

    def __init__(self) -> None:
        self.noted: list[tuple[int, float]] = []

    def update(self, snapshot: Snapshot) -> None:
        self.noted.append((snapshot.done, snapshot.elapsed_s))

    def rate(self, part: float) -> float:
        """Trials per second, from the time when this part of them was done to the last."""
        last, until = self.noted[-1]
        done, since = next(each for each in self.noted if each[0] >= part * last)
        return (last - done) / (until - since)


def run(family_name: str, image: str, taps: str, configs: int, gpus: int) -> None:
    """Tunes once and prints the result, then only the rates on a line of their own."""
    problem = ws.Filter2d(image=extent(image, "the image"), filter=extent(taps, "the filter"))
    family = next(each for each in FAMILIES if each.name == family_name)
    devices = DeviceRef.parse_all("all")[:gpus]
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, Store.open(f"{folder}/store.db", write=True) as store:
        os.environ["WARPSMITH_CACHE_DIR"] = folder
        options = TuneOptions(trials=configs, drops=False)
        report = tune(problem, devices, store, options, clock, (family,))
        trials = store.trials(problem, devices[0].device())
    right = sum(isinstance(trial.outcome, Measurement) for trial in trials)
    shares = [sum(trial.gpu == str(device) for trial in trials) for device in devices]
    stages = {str(stage): round(cost, 1) for stage, cost in report.costs.seconds.items()}
    print(
        f"{gpus} GPUs, {report.costs.processes} compilers each: {report.tried} configs in {report.elapsed_s:.1f} s;",
        end=" ",
    )
    print(f"{len(trials)} stored, {right} right, by GPU {shares}; seconds of the first's stages: {stages}")
    print(report.tried / report.elapsed_s, clock.rate(0.0), clock.rate(0.1))


def main() -> None:
    """Runs one GPU with its share of the cores, then all, each in a separate process."""
    if sys.argv[1] == "run":
        run(*sys.argv[2:5], int(sys.argv[5]), int(sys.argv[6]))  # type: ignore[misc]
        return
    gpus = int(sys.argv[5]) if len(sys.argv) > 5 else len(DeviceRef.parse_all("all"))
    rates = []
    for used in (1, gpus):
        share = ["taskset", "-c", f"0-{cores() * used // gpus - 1}"]
        command = [*share, sys.executable, __file__, "run", *sys.argv[1:5], str(used)]
        *told, last = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        rates.append([float(rate) for rate in last.split()])
        print("\n".join(told), flush=True)
    spans = ("from start to stored winner", "from first trial to last", "from first tenth to last")
    for name, one, several in zip(spans, *rates, strict=True):
        print(f"{name}: {one:.1f} configs a second with 1, {several:.1f} with {gpus}: {several / one:.2f} times")


if __name__ == "__main__":
    main()
