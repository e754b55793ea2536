"""Helper tuner for a further device of this machine, which searches beside the leader."""

from __future__ import annotations

import dataclasses
import time

from warpsmith.devices.base import Compiler
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import SilentProgress
from warpsmith.tuner.run.publish import publish
from warpsmith.tuner.run.search_loop import SearchLoop
from warpsmith.tuner.run.sharing import Sharing
from warpsmith.tuner.workers.job import Job, WorkerState


@dataclasses.dataclass(frozen=True, slots=True)
class Accompany(Job[None]):
    """Tunes on one device until there are enough trials; usually the leader ends it sooner."""

    store: str
    """Path or URL of the store."""
    tuner: str
    """Id of this tuner in the store."""
    problem: Problem
    device: DeviceRef
    model: Device
    """Model of `device`, whose compiler is `compiler`. Finding them out would start the driver of every GPU again."""
    compiler: Compiler
    options: TuneOptions
    families: tuple[Family, ...]
    processes: int
    """Number of compiler processes."""

    def run(self, state: WorkerState) -> None:  # noqa: ARG002 - it opens a worker of its own
        options, deadlines = self.options, self.options.deadlines
        policy = options.timing_policy(self.device.kind)
        with Store.open(self.store, write=True) as store:
            bench = Bench(
                self.device, self.compiler, self.problem, options.seed, policy, deadlines, sanitize=options.sanitize
            )
            with Evaluator.furnished(
                self.problem, self.model, self.families, self.compiler, deadlines, bench, self.processes
            ) as evaluator:
                seen, stored = store.trials_since(self.problem, self.model, 0)
                with Sharing(store, self.problem, self.model, self.tuner, seen) as sharing:
                    start = time.monotonic()
                    loop = SearchLoop(evaluator, store, stored, options, SilentProgress(), start, sharing)
                    loop.run()
                    publish(loop, store)
