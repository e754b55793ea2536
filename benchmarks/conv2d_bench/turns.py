"""Layers measured one after the other: our candidates verified and timed, then the best of them and cuDNN in turns.

One process has the device for a whole run, so that the device is opened and PyTorch imported once; while it works, the
next problems' programs are compiled by other processes, and their samples are computed. What crashes or hangs costs its
candidate or its problem, and the process begins anew.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import math
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from conv2d_bench.candidates import Candidate, configs, single_units
from conv2d_bench.lines import Row
from conv2d_bench.points import Point
from conv2d_bench.rows import row_of
from conv2d_bench.sampled import Sample, SampledJudge, has_sample, sample
from conv2d_bench.search import search
from conv2d_bench.tried import Tried
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.store.record import Failure
from warpsmith.tuner.evaluate.bench import Bench, device_worker
from warpsmith.tuner.evaluate.buffers import GUARD_BYTES
from warpsmith.tuner.evaluate.device_verify import verification
from warpsmith.tuner.evaluate.outcomes import InTurns
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.operations.answers import random_operands
from warpsmith.tuner.operations.judge import FLOAT32_BOUND
from warpsmith.tuner.workers.compile_pool import CompilePool
from warpsmith.tuner.workers.deadlines import Deadlines

FOLDER = Path(__file__).parents[1]
AHEAD = 3
"""Problems that are made ready while another one is measured."""
DEADLINES = Deadlines(compile_s=30, first_run_s=30, least_run_s=8, setup_s=90)
SLOW_FLOPS_A_NS = 20_000.0
"""Of cuDNN in float32 where it is slow, to guess how long turns will take (OverFeat's dgrad 5 on an H200: 31,000)."""
TURNS_NS = 1e9
"""Of all turns of a problem, about, at the most."""
USUAL_FACTOR, SHORT_FACTOR = 3, 1
"""Samples in turns for each that a search takes at the least; the latter where they would take longer than TURNS_NS."""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How problems are measured."""

    device: DeviceRef
    seconds: float = 0.0
    """Of searching for each problem, on top of the defaults and starts."""
    starts: int = 3
    """Configs of each likely family beside its default."""
    beside: tuple[str, ...] = ()
    """Families whose best config takes turns with the others however slow it is."""
    seed: int = 0
    """Of data and searches."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A problem with what is made of it before its turn."""

    point: Point
    sample: Sample | None
    candidates: tuple[Candidate, ...]
    seconds: float
    """That this took, beside the compilers."""


class Measuring:
    """Measures problems; see the module. To be closed.

    Args:
        settings: how.

    Raises DeviceError where the device is not there, CompileError where the compiler is not.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._device: Device = settings.device.device()
        self._compiler = settings.device.compiler()
        elsewhere = os.environ.get("PYTHONPATH")
        self._worker = device_worker({"PYTHONPATH": os.pathsep.join((str(FOLDER), *filter(None, (elsewhere,))))})
        self._ahead = ThreadPoolExecutor(1)
        # Those of searches are apart: they do not wait for the programs of the problems that come next.
        self._pools = [CompilePool(self._compiler, DEADLINES) for _ in range(2 if settings.seconds else 1)]

    def rows(self, points: Iterable[Point], ends: float = math.inf) -> Iterator[Row]:
        """One row for each point, as it is measured: with its times, or with `failed` and why.

        Args:
            points: what is measured.
            ends: of time.monotonic(); no further point is begun then.
        """
        waiting: collections.deque[tuple[Point, Future[Prepared]]] = collections.deque()
        left = iter(points)
        while True:
            for point in itertools.islice(left, 1 + AHEAD - len(waiting)):
                waiting.append((point, self._ahead.submit(self._prepare, point)))
            if not waiting or time.monotonic() >= ends:
                return
            point, preparing = waiting.popleft()
            start = time.monotonic()
            try:
                row = self._measured(preparing.result())
            except Exception as error:  # it is told, and the next one's turn
                row = {"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
            problem = point.problem
            named = {"name": point.name, "key": problem.key(), "problem": problem.spec(), **point.axes}
            yield {**named, "pass": str(problem.pass_), **row, "took_s": round(time.monotonic() - start, 2)}

    def environment(self) -> dict[str, str]:
        """What is known of the device and its software; opens it."""
        with contextlib.closing(self._bench(Conv2d((1, 1, 8, 8), (1, 1, 3, 3)), None, USUAL_FACTOR)) as bench:
            return {"device": self._device.name, "compiler": self._compiler.identity, **bench.opened.environment}

    def close(self) -> None:
        """Ends all processes."""
        self._ahead.shutdown(cancel_futures=True)
        for pool in self._pools:
            pool.close()
        self._worker.close()

    def _prepare(self, point: Point) -> Prepared:
        start, problem, settings, pool = time.monotonic(), point.problem, self._settings, self._pools[0]
        if self._device.kind is DeviceKind.CUDA:
            # Into the cache, where the device's process finds it: its text has the result's size.
            pool.submit(verification(problem.output, GUARD_BYTES, self._device.multiprocessors, FLOAT32_BOUND))
        wanted = configs(problem, self._device, settings.starts, settings.beside)
        programs = [(family, config, family.program(problem, config)) for family, config in wanted]
        for single in single_units(program for *_, program in programs):
            pool.submit(single)
        candidates = [Candidate(*each, pool.submit(each[2])) for each in programs]
        known = sample(problem, random_operands(problem, settings.seed), settings.seed) if has_sample(problem) else None
        return Prepared(point, known, tuple(candidates), time.monotonic() - start)

    def _bench(self, problem: Conv2d, known: Sample | None, factor: int) -> Bench:
        settings = self._settings
        return Bench(
            settings.device,
            self._compiler,
            problem,
            settings.seed,
            dataclasses.replace(TimingPolicy.for_kind(self._device.kind), final_factor=factor),
            DEADLINES,
            sanitize=False,
            judge=SampledJudge(known, self._device.kind),
            worker=self._worker,
        )

    def _measured(self, prepared: Prepared) -> Row:
        problem, settings, marks = prepared.point.problem, self._settings, [time.monotonic()]
        with contextlib.closing(self._bench(problem, prepared.sample, _factor(problem))) as bench:
            _ = bench.opened
            marks.append(time.monotonic())
            families = {each.family.name: each.family for each in prepared.candidates}
            tried = Tried(problem, self._device, families, settings.beside, bench)
            tried.evaluate_all(prepared.candidates)
            if settings.seconds and tried.right:
                search(problem, self._device, self._pools[1], settings.seed, tried, settings.seconds)
            marks.append(time.monotonic())
            if not tried.right:
                raise RuntimeError(f"no candidate is right: {tried.first_failure or tried.failures}")
            chosen = tried.chosen()
            beside = bench.side_by_side(tuple(chosen))
            marks.append(time.monotonic())
        row: Row = {}
        if isinstance(beside, Failure):
            row["not_in_turns"] = beside.message
            beside = InTurns(tuple(each.measurement.timing for each in chosen), (), ())
        spent = {"prepare": prepared.seconds}
        spent |= zip(("open", "candidates", "turns"), (b - a for a, b in itertools.pairwise(marks)), strict=True)
        return {
            **row_of(problem, chosen, beside, tried.by_family()),
            **row,
            "tried": len(tried.times),
            "failures": tried.failures,
            "first_failure": tried.first_failure,
            "float64": "all" if prepared.sample is None else len(prepared.sample.places),
            "seconds": {name: round(value, 2) for name, value in spent.items()},
        }


def _factor(problem: Conv2d) -> int:
    """Samples in turns, as a `TimingPolicy`'s final factor, so that a slow library does not take the run's time."""
    samples = USUAL_FACTOR * TimingPolicy.for_kind(DeviceKind.CUDA).min_samples
    return SHORT_FACTOR if 2 * samples * problem.flops / SLOW_FLOPS_A_NS > TURNS_NS else USUAL_FACTOR
