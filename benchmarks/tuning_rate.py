"""Configurations per second beside Kernel Tuner, on the same kernels, in one run.

    usage: python benchmarks/tuning_rate.py [FAMILY] [CONFIGS] [PEER_CONFIGS]

Both tune a 5x5 filter of a 4096x4096 image whose weights are literals or in constant memory, so that the kernels take
two pointers and nothing else. Both start with empty caches. Kernel Tuner gets a random sample of the same space as
source texts, which it compiles with NVRTC through CuPy, and verifies nothing. warpsmith verifies every result against
float64. Its time runs from the call to the stored winner, including the timing of other libraries.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import warpsmith as ws
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import Family, Work
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Pointer, Program
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.space import Config, Space
from warpsmith.store.record import Measurement
from warpsmith.store.store import Store
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress, Snapshot
from warpsmith.tuner.run.session import tune

SIZE, FILTER = 4096, 5
CHOICES = {"path": ("global",), "weights": ("constant", "literal")}
"""Parameters that Kernel Tuner's CuPy backend can launch: no textures."""
CUDA = DeviceRef(DeviceKind.CUDA)


class Narrowed(Family):
    """A family with a restricted space."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self.name = family.name  # type: ignore[misc]  # one narrowed family a run

    def why_not(self, problem: Problem, device: Device) -> str | None:
        return self._family.why_not(problem, device)

    def space(self, problem: Problem, device: Device) -> Space:
        return self._family.space(problem, device).narrowed(CHOICES)

    def default(self, problem: Problem, device: Device) -> Config:
        values = self._family.default(problem, device).values()
        config = self.space(problem, device).like(values)
        assert config is not None
        return config

    def program(self, problem: Problem, config: Config) -> Program:
        return self._family.program(problem, config)

    def work(self, problem: Problem, config: Config) -> Work | None:
        return self._family.work(problem, config)


class Timeline(SilentProgress):
    """Records when each tenth of the trials was done."""

    def __init__(self) -> None:
        self.tenths: list[str] = []

    def update(self, snapshot: Snapshot) -> None:
        if snapshot.done == 1 or snapshot.done % (snapshot.total // 10) == 0:
            self.tenths.append(f"{snapshot.done} at {snapshot.elapsed_s:.1f} s")


def problem_of() -> ws.Filter2d:
    """The filter, with random weights, none of which is 0."""
    weights = np.random.default_rng(0).standard_normal((FILTER, FILTER)).astype(np.float32)
    return ws.Filter2d(image=(SIZE, SIZE), filter=(FILTER, FILTER), weights=tuple(map(float, weights.ravel())))


def ours(family: Family, configs: int, *, drops: bool) -> float:
    """Tunes with an empty cache and an empty store, and prints the result. Returns configurations per second."""
    with tempfile.TemporaryDirectory() as folder, Store.open(f"{folder}/store.db", write=True) as store:
        os.environ["WARPSMITH_CACHE_DIR"] = folder
        options, timeline = TuneOptions(trials=configs, drops=drops), Timeline()
        report = tune(problem_of(), (CUDA,), store, options, timeline, (Narrowed(family),))
        trials = store.trials(problem_of(), CUDA.device())
    right = sum(isinstance(trial.outcome, Measurement) for trial in trials)
    assert report.record is not None
    elapsed = report.elapsed_s
    seconds = {str(stage): round(cost, 2) for stage, cost in report.costs.seconds.items()}
    dropping = "dropping" if drops else "dropping none"
    print(f"warpsmith, {dropping}: {report.tried} configs, {right} verified, in {elapsed:.2f} s: ", end="")
    print(f"{report.tried / elapsed:.1f} a second; {report.costs.twins} twins; failures {dict(report.failures)}")
    print(f"  seconds of each stage, compile in {report.costs.processes} processes: {seconds}")
    print(f"  trials done: {', '.join(timeline.tenths)}")
    print(f"  best {(report.record.trial.median_ns or 0) / 1e3:.1f} us: {report.record.trial.config}")
    for baseline in report.record.baselines:
        print(f"  beside it: {baseline.name} {baseline.timing.median_ns / 1e3:.1f} us")
    return report.tried / elapsed


def source_with(symbol: str, program: Program) -> str:
    """The source text. Kernel Tuner fills constant memory for every kernel, so a kernel without any gets some."""
    return program.source if program.launches[0].constants else f"{program.source}\n__constant__ float {symbol}[25];\n"


def kernel_tuner(family: Family, configs: int) -> float:
    """Tunes a random sample of `configs` configs and prints the result. Returns configurations per second."""
    import kernel_tuner

    problem, device = problem_of(), CUDA.device()
    space, rng = Narrowed(family).space(problem, device), random.Random(0)
    sample: set[Config] = set()
    while len(sample) < configs and (config := space.drawn(rng)) is not None:
        sample.add(config)
    programs = [family.program(problem, config) for config in sorted(sample, key=Config.key)]
    symbol = next(launch.constants[0].symbol for launch in (each.launches[0] for each in programs) if launch.constants)
    (launch,) = programs[0].launches
    image = np.random.default_rng(1).standard_normal((SIZE, SIZE)).astype(np.float32)
    arrays = {"image": image, "result": np.zeros(problem.output.shape, np.float32)}
    blocks = [program.launches[0].block for program in programs]

    def has_its_block(chosen: dict[str, int]) -> bool:  # no lambda: Kernel Tuner parses its text
        block = blocks[chosen["candidate"]]
        return (chosen["bx"], chosen["by"], chosen["bz"]) == tuple(block)

    _mend_uuid()
    start = time.monotonic()
    results, _ = kernel_tuner.tune_kernel(
        launch.entry,
        lambda chosen: source_with(symbol, programs[chosen["candidate"]]),
        lambda chosen: programs[chosen["candidate"]].launches[0].grid,
        [arrays[argument.buffer] for argument in launch.arguments if isinstance(argument, Pointer)],
        {"candidate": list(range(len(programs)))}
        | {name: sorted({block[axis] for block in blocks}) for axis, name in enumerate(("bx", "by", "bz"))},
        restrictions=has_its_block,
        block_size_names=["bx", "by", "bz"],
        grid_div_x=[],
        grid_div_y=[],
        grid_div_z=[],
        lang="CUPY",
        compiler_options=["-std=c++17"],
        cmem_args={symbol: np.array(problem.weights, np.float32)},
        quiet=True,
    )
    elapsed = time.monotonic() - start
    right = [result for result in results if isinstance(result["time"], float)]
    costs = {
        name: round(float(np.mean([result[name] for result in right])), 1)
        for name in ("compile_time", "benchmark_time", "framework_time")
    }
    version = kernel_tuner.__version__
    rate = len(results) / elapsed
    print(f"Kernel Tuner {version}: {len(results)} configs, in {elapsed:.2f} s: {rate:.1f} a second; ms each: {costs}")
    print(f"  best {min(result['time'] for result in right) * 1e3:.1f} us")
    return rate


def _mend_uuid() -> None:
    """Restores full GPU UUIDs: CuPy cuts them at the first zero byte, which Kernel Tuner cannot handle."""
    from cupy.cuda import runtime

    whole = runtime.getDeviceProperties
    runtime.getDeviceProperties = lambda device: whole(device) | {"uuid": whole(device)["uuid"].ljust(16, b"\0")}


def main() -> None:
    """Runs Kernel Tuner in a separate process, then warpsmith in this one."""
    if sys.argv[1] == "peer":
        print(kernel_tuner(next(each for each in FAMILIES if each.name == sys.argv[2]), int(sys.argv[3])))
        return
    family = next(each for each in FAMILIES if each.name == sys.argv[1])
    configs, peer_configs = int(sys.argv[2]), int(sys.argv[3])
    print(f"{family.name}, {FILTER}x{FILTER}, {SIZE}x{SIZE}, on {CUDA.device().name}")
    with tempfile.TemporaryDirectory() as folder:
        cold = os.environ | {"CUPY_CACHE_DIR": folder, "CUDA_CACHE_DISABLE": "1"}
        command = [sys.executable, str(Path(__file__)), "peer", family.name, str(peer_configs)]
        told = subprocess.run(command, env=cold, text=True, stdout=subprocess.PIPE, check=True).stdout
        os.environ |= {"CUPY_CACHE_DIR": folder + "/ours"}
        *lines, rate = told.splitlines()
        print("\n".join(line for line in lines if not line.startswith("Using")))
        for drops in (False, True):
            print(f"  {ours(family, configs, drops=drops) / float(rate):.1f} times its rate")


if __name__ == "__main__":
    main()
