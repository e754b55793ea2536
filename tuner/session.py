"""One tuning run: ask, generate, compile ahead, verify, time, store, tell; then choose and store the winner."""

from __future__ import annotations

import dataclasses
import enum
import time
from collections.abc import Iterator, Mapping

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import FAMILIES, families_for
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind, Record, Trial
from warpsmith.store.store import Store
from warpsmith.tuner.choose import choose, failures_by_kind, fastest_first
from warpsmith.tuner.evaluate import Deadlines
from warpsmith.tuner.interrupt import Interrupt, watching_for_interrupt
from warpsmith.tuner.progress import Progress, Snapshot, estimate_time_left
from warpsmith.tuner.rivalry import Search
from warpsmith.tuner.search import FamilySearch
from warpsmith.tuner.workshop import Workshop

LARGEST_SEED = 2**32 - 1
"""Optuna's samplers take 32 bits."""


class Effort(enum.StrEnum):
    """How long to search, where no number of trials is given."""

    QUICK = "quick"
    NORMAL = "normal"
    FULL = "full"

    @property
    def trials(self) -> int:
        """Candidates to try."""
        return {Effort.QUICK: 20, Effort.NORMAL: 100, Effort.FULL: 400}[self]


@dataclasses.dataclass(frozen=True, slots=True)
class TuneOptions:
    """How to search."""

    trials: int = 100
    """Trials to have in the store at the end, with those of earlier runs."""
    time_limit_s: float | None = None
    """The search stops here; choosing the winner comes after."""
    seed: int = 0
    compiler: CompilerChoice = CompilerChoice.AUTO
    sanitize: bool = False
    """Run candidates under AddressSanitizer and UndefinedBehaviorSanitizer (host device); stores no winner."""
    deadlines: Deadlines = dataclasses.field(default_factory=Deadlines)

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise BadArgument(f"trials must be 1 or more; got {self.trials}")
        if self.time_limit_s is not None and not self.time_limit_s > 0:
            raise BadArgument(f"a time limit must be above 0 seconds; got {self.time_limit_s}")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise BadArgument(f"a seed must be from 0 to {LARGEST_SEED}; got {self.seed}")


@dataclasses.dataclass(frozen=True, slots=True)
class TuneReport:
    """What came of a tuning run."""

    record: Record | None
    """The winner as stored; None for a run under sanitizers."""
    tried: int
    """Trials of this run."""
    reused: int
    """Trials of earlier runs that still hold."""
    failures: Mapping[FailureKind, int]
    space_size: int | None
    elapsed_s: float
    interrupted: bool


def tune_into(
    location: str, problem: Problem, device: DeviceRef, options: TuneOptions, progress: Progress
) -> TuneReport:
    """`tune` with the store at `location`, which is made only once nothing stands in the way of the search."""
    families_for(problem, device.device())
    _ = device.compiler(options.compiler, options.sanitize).identity
    with Store.open(location, write=True) as store:
        return tune(problem, device, store, options, progress)


def tune(
    problem: Problem,
    device: DeviceRef,
    store: Store,
    options: TuneOptions,
    progress: Progress,
    families: tuple[Family, ...] = FAMILIES,
) -> TuneReport:
    """Searches for the fastest right program for `problem` on `device` and stores it, with every trial.

    Ctrl-C ends the search and keeps what was found, the winner included.

    Raises:
        BadArgument: no family solves the problem.
        DeviceError, CompileError, StoreError: as their names say.
        TuningFailed: no candidate was right.
    """
    start = time.monotonic()
    with Workshop.open(
        problem, device, families, options.compiler, options.seed, options.deadlines, sanitize=options.sanitize
    ) as workshop:
        return _Session(workshop, store, options, progress, start).run()


class _Session:
    def __init__(
        self, workshop: Workshop, store: Store, options: TuneOptions, progress: Progress, start: float
    ) -> None:
        self._workshop, self._store, self._options, self._progress = workshop, store, options, progress
        self._start = start
        stored = store.trials(workshop.problem, workshop.device)
        self._trials = {(trial.family, trial.config): trial for trial in stored if workshop.still_holds(trial)}
        self._reused = len(self._trials)
        self._search = self._new_search()

    def _new_search(self) -> Search:
        problem, device = self._workshop.problem, self._workshop.device
        searches = {
            name: FamilySearch(
                f"{problem.key()} on {device.key()} by {name}",
                family.space(problem, device),
                family.default(problem, device),
                self._options.seed,
                [(trial.config, trial.median_ns) for trial in self._trials.values() if trial.family == name],
            )
            for name, family in self._workshop.families.items()
        }
        return Search(searches, self._options.seed)

    def run(self) -> TuneReport:
        problem, copy = self._workshop.problem, self._workshop.bench.copy_timing()
        title = f"{problem.key()} on {self._workshop.device.name}"
        copy_ns = None if isinstance(copy, Failure) else copy.median_ns
        self._progress.start(title, self._options.trials, problem.bytes, copy_ns)
        interrupted = False
        try:
            with watching_for_interrupt() as interrupt:
                self._search_until_done(interrupt)
        except KeyboardInterrupt:
            interrupted = True
            self._workshop.bench.abandon()
        finally:
            self._progress.stop()
        return TuneReport(
            record=None if self._options.sanitize else self._choose(),
            tried=len(self._trials) - self._reused,
            reused=self._reused,
            failures=failures_by_kind(self._trials.values()),
            space_size=self._search.size,
            elapsed_s=time.monotonic() - self._start,
            interrupted=interrupted,
        )

    def _choose(self) -> Record:
        record = choose(self._workshop, list(self._trials.values()), self._options.seed + 1, self._keep)
        self._store.put_winner(record)
        return record

    def _search_until_done(self, interrupt: Interrupt) -> None:
        interrupt.check()
        for candidate in self._workshop.candidates(self._asked()):
            # Where preparing the problem took all the time, there is still an answer: the first default.
            if self._out_of_time() and self._trials:
                return
            best = self._best()
            trial = self._workshop.evaluate(candidate, best.median_ns if best is not None else None)
            self._keep(trial)
            self._search.tell(trial.family, trial.config, trial.median_ns)
            self._progress.update(self._snapshot())
            interrupt.check()

    def _asked(self) -> Iterator[tuple[str, Config]]:
        for _ in range(self._options.trials - self._reused):
            asked = self._search.ask()
            if asked is None:
                return
            yield asked

    def _keep(self, trial: Trial) -> None:
        """Commits a trial; one that was tried before is replaced."""
        self._store.add_trial(self._workshop.problem, self._workshop.device, trial)
        self._trials[trial.family, trial.config] = trial

    def _out_of_time(self) -> bool:
        limit = self._options.time_limit_s
        return limit is not None and time.monotonic() - self._start >= limit

    def _best(self) -> Trial | None:
        return next(iter(fastest_first(self._trials.values())), None)

    def _snapshot(self) -> Snapshot:
        best = self._best()
        elapsed = time.monotonic() - self._start
        done, size = len(self._trials), self._search.size
        total = self._options.trials if size is None else min(self._options.trials, size)
        return Snapshot(
            done=done,
            total=total,
            reused=self._reused,
            best_ns=best.median_ns if best else None,
            best=f"{best.family} {best.config}" if best else "",
            failures=failures_by_kind(self._trials.values()),
            elapsed_s=elapsed,
            time_left_s=estimate_time_left(
                done=done, reused=self._reused, total=total, elapsed_s=elapsed, limit_s=self._options.time_limit_s
            ),
        )
