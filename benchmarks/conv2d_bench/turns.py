"""Measures layers one after the other: verifies and times candidates, then times the best of them and cuDNN in turns.

A few processes, the lanes, share the device during a whole run, so that it is opened and PyTorch imported once in each.
While one lane times, under a lock, another one draws its inputs, computes the references, and compares results on the
CPU. Meanwhile other processes generate and compile the next problems' programs and compute their samples. A crash or a
hang costs its candidate or its problem, and the process is started again.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import math
import queue
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

from conv2d_bench.candidates import Candidate
from conv2d_bench.lines import Row
from conv2d_bench.points import Point
from conv2d_bench.prepare import Material, Prepare, Preparers, with_folder
from conv2d_bench.rows import answer_row, row_of
from conv2d_bench.sampled import Sample, SampledJudge
from conv2d_bench.search import search
from conv2d_bench.tried import Tried
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.registry import family_named
from warpsmith.store.record import Failure
from warpsmith.tuner.evaluate.bench import Bench, device_worker
from warpsmith.tuner.evaluate.device_lock import PATIENCE_S, shared_device
from warpsmith.tuner.evaluate.outcomes import InTurns
from warpsmith.tuner.evaluate.timing_policy import TimingPolicy
from warpsmith.tuner.workers.compile_pool import CompilePool
from warpsmith.tuner.workers.deadlines import Deadlines
from warpsmith.workers.worker import Worker

FOLDER = Path(__file__).parents[1]
AHEAD = 4
"""Problems that are prepared while others are measured. One has about 25 kernels, for which 16 cores take 0.6 s."""
PREPARERS = 2
"""Processes that prepare. A problem takes one of them 0.4 s, and the device at least 1 s."""
DEADLINES = Deadlines(compile_s=30, first_run_s=30, least_run_s=8 + 2 * PATIENCE_S, setup_s=90)
SLOW_FLOPS_PER_NS = 20_000.0
"""FLOP/ns of cuDNN in float32 where it is slow, to estimate how long turns take (OverFeat's dgrad 5 on an H200:
31,000).
"""
LEAST_SAMPLES, MOST_SAMPLES, SAMPLES_NS = 6, 20, 20e6
"""Samples of a candidate on a GPU, at least and at most, and their total in ns. With the usual spread of 1%, 20 samples
find the fastest of a few to 0.3%.
"""
TURNS_NS = 0.5e9
"""Nanoseconds of all turns of a problem, approximately, at most."""
FAR_NS = 0.2e9
"""Nanoseconds of all samples of a library that is far behind."""
USUAL_FACTOR, SHORT_FACTOR = 5, 1
"""Samples in turns, as a multiple of a search's minimum. The second value is used if the turns would take longer than
TURNS_NS.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a measurement."""

    device: DeviceRef
    seconds: float = 0.0
    """Seconds of searching for each problem, in addition to the defaults and starts."""
    starts: int = 3
    """Configs of each likely family in addition to its default."""
    beside: tuple[str, ...] = ()
    """Families whose best config takes turns with the others, however slow it is."""
    seed: int = 0
    """Random seed of data and searches."""
    lanes: int = 1
    """Processes that measure, one problem each at a time. One waits for another at most `PATIENCE_S`, but cuDNN's
    search takes up to 40 s. So with more than one lane, times of large problems are disturbed.
    """
    families: tuple[str, ...] = ()
    """The only families to try; empty for all."""
    untuned: bool = False
    """Whether what answers without a search is measured, beside other families' defaults and `starts` of its own."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A prepared problem whose candidates are being compiled."""

    material: Material
    candidates: tuple[Candidate, ...]


class Measuring:
    """Measures problems; see the module. Close it after use.

    Args:
        settings: the settings.

    Raises DeviceError if the device does not exist, CompileError if the compiler is missing.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._device: Device = settings.device.device()
        self._compiler = settings.device.compiler()
        with contextlib.ExitStack() as opened:
            self._lock_file = opened.enter_context(shared_device(settings.device))
            # The host has no lock that separates timings, so it gets one lane.
            count = 1 if self._lock_file is None else settings.lanes
            self._lanes: queue.SimpleQueue[Worker] = queue.SimpleQueue()
            for _ in range(count):
                lane = device_worker(with_folder(str(FOLDER)))
                opened.callback(lane.close)
                self._lanes.put(lane)
            self._threads = ThreadPoolExecutor(count)
            self._count = count
            self._ahead = opened.enter_context(contextlib.closing(Preparers(PREPARERS, with_folder(str(FOLDER)))))
            # Searches have a pool of their own, so that they do not wait for the programs of the next problems.
            pools = [CompilePool(self._compiler, DEADLINES) for _ in range(2 if settings.seconds else 1)]
            self._pools = [opened.enter_context(contextlib.closing(pool)) for pool in pools]
            self._opened = opened.pop_all()

    def rows(self, points: Iterable[Point], ends: float = math.inf) -> Iterator[Row]:
        """Yields one row for each point, as soon as it is measured: with its times, or with `failed` and the reason.

        Args:
            points: points to measure, started in this order.
            ends: value of time.monotonic() after which no further point is started. Points that are started are
                finished.
        """
        ready: collections.deque[tuple[Point, Future[Prepared]]] = collections.deque()
        running: set[Future[Row]] = set()
        left = iter(points)
        while True:
            while len(running) < self._count and time.monotonic() < ends:
                for point in itertools.islice(left, 1 + AHEAD - len(ready)):
                    ready.append((point, self._ahead.submit(self._preparation(point), self._compiling)))
                if not ready:
                    break
                running.add(self._threads.submit(self._row, *ready.popleft()))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for each in done:
                yield each.result()

    def environment(self) -> dict[str, str]:
        """Facts about the device and its software. It opens the device."""
        problem = Conv2d((1, 1, 8, 8), (1, 1, 3, 3))
        with self._lane() as lane, contextlib.closing(self._bench(problem, None, USUAL_FACTOR, lane)) as bench:
            return {"device": self._device.name, "compiler": self._compiler.identity, **bench.opened.environment}

    def close(self) -> None:
        """Ends all processes."""
        self._threads.shutdown(cancel_futures=True)
        self._opened.close()

    def _preparation(self, point: Point) -> Prepare:
        settings = self._settings
        given = settings.starts, settings.beside, settings.families, settings.seed, settings.untuned
        return Prepare(point, self._device, *given)

    def _compiling(self, material: Material) -> Prepared:
        pool = self._pools[0]
        for program in material.first:
            pool.submit(program)
        found = []
        for name, config, program in material.programs:
            family = family_named(name)
            assert family is not None  # the name is one of the registry's
            found.append(Candidate(family, config, program, pool.submit(program)))
        return Prepared(material, tuple(found))

    @contextlib.contextmanager
    def _lane(self) -> Iterator[Worker]:
        lane = self._lanes.get()
        try:
            yield lane
        finally:
            self._lanes.put(lane)

    def _row(self, point: Point, preparing: Future[Prepared]) -> Row:
        start, problem = time.monotonic(), point.problem
        try:
            prepared = preparing.result()
            with self._lane() as lane:
                row = self._measured(prepared, lane)
        except Exception as error:  # the row reports it, and the run continues
            row = {"failed": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
        named = {"name": point.name, "key": problem.key(), "problem": problem.spec(), **point.axes}
        return {**named, "pass": str(problem.pass_), **row, "took_s": round(time.monotonic() - start, 2)}

    def _bench(self, problem: Conv2d, known: Sample | None, factor: int, lane: Worker) -> Bench:
        settings, policy = self._settings, _policy(self._device.kind)
        return Bench(
            settings.device,
            self._compiler,
            problem,
            settings.seed,
            dataclasses.replace(policy, final_factor=factor, far_budget_ns=FAR_NS),
            DEADLINES,
            sanitize=False,
            lock_file=self._lock_file,
            judge=SampledJudge(known, self._device.kind, self._lock_file),
            worker=lane,
        )

    def _measured(self, prepared: Prepared, lane: Worker) -> Row:
        material, settings, marks = prepared.material, self._settings, [time.monotonic()]
        problem, known = material.point.problem, material.sample
        if not prepared.candidates:
            raise RuntimeError("none of the families that are asked for solves it")
        with contextlib.closing(self._bench(problem, known, _factor(problem), lane)) as bench:
            _ = bench.opened
            marks.append(time.monotonic())
            families = {each.family.name: each.family for each in prepared.candidates}
            spared = settings.beside if material.choice is None else (material.choice.family,)
            tried = Tried(problem, self._device, families, spared, bench)
            tried.evaluate_all(prepared.candidates)
            if settings.seconds and tried.right:
                search(problem, self._device, self._pools[1], settings.seed, tried, settings.seconds)
            marks.append(time.monotonic())
            if not tried.right:
                raise RuntimeError(f"no candidate is right: {tried.first_failure or tried.failures}")
            answer = None if material.choice is None else tried.right_of(prepared.candidates[0])
            chosen = tried.chosen(*(() if answer is None else (answer,)))
            beside = bench.side_by_side(tuple(chosen))
            marks.append(time.monotonic())
        row: Row = {}
        if isinstance(beside, Failure):
            row["not_in_turns"] = beside.message
            beside = InTurns(tuple(each.measurement.timing for each in chosen), (), ())
        if material.choice is not None:
            row |= answer_row(material.choice, answer, chosen, beside, tried)
        spent = {"prepare": material.seconds}
        spent |= zip(("open", "candidates", "turns"), (b - a for a, b in itertools.pairwise(marks)), strict=True)
        return {
            **row_of(problem, chosen, beside, tried.by_family()),
            **row,
            "tried": len(tried.times),
            "failures": tried.failures,
            "first_failure": tried.first_failure,
            "float64": "all" if known is None else len(known.places),
            "seconds": {name: round(value, 2) for name, value in spent.items()},
        }


def _policy(kind: DeviceKind) -> TimingPolicy:
    usual = TimingPolicy.for_kind(kind)
    if kind is DeviceKind.HOST:
        return usual
    return dataclasses.replace(usual, min_samples=LEAST_SAMPLES, max_samples=MOST_SAMPLES, budget_ns=SAMPLES_NS)


def _factor(problem: Conv2d) -> int:
    """Final factor of the `TimingPolicy`: samples in turns, reduced so that a slow library does not take too much
    time.
    """
    samples = USUAL_FACTOR * _policy(DeviceKind.CUDA).min_samples
    return SHORT_FACTOR if 2 * samples * problem.flops / SLOW_FLOPS_PER_NS > TURNS_NS else USUAL_FACTOR
