"""One tuning run: configs through the flow, trials to the store and the search; then the winner is chosen."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

from warpsmith.devices.select import DeviceRef
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import FAMILIES, families_for
from warpsmith.generator.space import Config
from warpsmith.store.poison import Started
from warpsmith.store.record import Failure, FailureKind, Record, Timing, Trial, trial_spec
from warpsmith.store.store import Store
from warpsmith.tuner.choose import choose, fastest_first
from warpsmith.tuner.finals import Finals, shared_device
from warpsmith.tuner.flow import Candidate, Flow
from warpsmith.tuner.interrupt import Interrupt, watching_for_interrupt
from warpsmith.tuner.journal import Journal
from warpsmith.tuner.options import TuneOptions, TuneReport
from warpsmith.tuner.progress import Progress, Snapshot, estimate_time_left
from warpsmith.tuner.rivalry import Search
from warpsmith.tuner.screen import Screen
from warpsmith.tuner.search import FamilySearch
from warpsmith.tuner.stages import Costs, Ledger, Stage
from warpsmith.tuner.timing import TimingPolicy
from warpsmith.tuner.workshop import Workshop, common_device


def tune_into(
    location: str, problem: Problem, devices: tuple[DeviceRef, ...], options: TuneOptions, progress: Progress
) -> TuneReport:
    """`tune` with the store at `location`, which is made only once nothing stands in the way of the search."""
    families_for(problem, common_device(devices))
    _ = devices[0].compiler(options.compiler, options.sanitize).identity
    with Store.open(location, write=True) as store:
        return tune(problem, devices, store, options, progress)


def tune(
    problem: Problem,
    devices: tuple[DeviceRef, ...],
    store: Store,
    options: TuneOptions,
    progress: Progress,
    families: tuple[Family, ...] = FAMILIES,
) -> TuneReport:
    """Searches for the fastest right program for `problem` on `devices` and stores it, with every trial.

    Ctrl-C ends the search and keeps what was found, the winner included.

    Args:
        problem: what is tuned.
        devices: one, or several of one model that search together.
        store: open for writing.
        options: how to search.
        progress: told how it goes.
        families: those that compete.

    Raises:
        BadArgument: no family solves the problem.
        DeviceError, CompileError, StoreError: as their names say.
        TuningFailed: no candidate was right.
    """
    start = time.monotonic()
    kind = devices[0].kind
    policy = TimingPolicy.for_kind(kind, cold=options.cold, launching=options.launching)
    with (
        shared_device(kind) as turn,
        Workshop.open(
            problem,
            devices,
            families,
            options.compiler,
            options.seed,
            options.deadlines,
            sanitize=options.sanitize,
            policy=policy,
            turn=turn,
        ) as workshop,
        Finals.beside(workshop, devices[0], options.seed + 1, policy, options.deadlines, turn) as finals,
    ):
        return _Session(workshop, finals, store, options, progress, start).run()


class _Session:
    def __init__(
        self,
        workshop: Workshop,
        finals: Finals,
        store: Store,
        options: TuneOptions,
        progress: Progress,
        start: float,
    ) -> None:
        self._workshop, self._finals, self._store = workshop, finals, store
        self._options, self._progress, self._start = options, progress, start
        problem, device = workshop.problem, workshop.device
        stored = store.trials(problem, device)
        self._trials: dict[tuple[str, Config], Trial] = {}
        self._failures: collections.Counter[FailureKind] = collections.Counter()
        self._best: Trial | None = None
        self._screen = Screen(problem, device, workshop.families, store.poisoned(device), drops=options.drops)
        for trial in stored:
            if workshop.still_holds(trial) and (options.drops or not _was_dropped(trial)):
                self._note(trial)
        self._reused = len(self._trials)
        self._search = self._new_search()
        self._ledger = Ledger()

    def _new_search(self) -> Search:
        problem, device = self._workshop.problem, self._workshop.device
        earlier = self._store.winner(problem.key(), device.key())
        searches = {}
        for name, family in self._workshop.families.items():
            # Measured under another compiler or other conditions, a winner is no trial of today, but worth being one.
            won = [earlier.trial.config] if earlier is not None and earlier.trial.family == name else []
            searches[name] = FamilySearch(
                f"{problem.key()} on {device.key()} by {name}",
                family.space(problem, device),
                (family.default(problem, device), *won),
                self._options.seed,
                [(trial.config, trial.median_ns) for trial in self._trials.values() if trial.family == name],
            )
        return Search(searches, self._options.seed, self._options.trials - self._reused)

    def run(self) -> TuneReport:
        interrupted = False
        journal = Journal(self._store, self._workshop.problem, self._workshop.device)
        try:
            with watching_for_interrupt() as interrupt:
                self._search_until_done(journal, interrupt)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            self._progress.stop()
            journal.close()
        self._ledger.add(Stage.STORE, journal.seconds)
        with self._ledger.during(Stage.CHOOSE):
            record = None if self._options.sanitize else self._choose()
        report = TuneReport(
            record=record,
            tried=len(self._trials) - self._reused,
            reused=self._reused,
            failures=dict(self._failures),
            space_size=self._search.size,
            elapsed_s=time.monotonic() - self._start,
            interrupted=interrupted,
            costs=self._costs(),
            standings=self._search.standings,
        )
        self._store.add_run(self._workshop.problem, self._workshop.device, self._run_spec(report))
        return report

    def _choose(self) -> Record:
        record = choose(self._workshop, self._finals.bench(), list(self._trials.values()), self._replace)
        self._store.put_winner(record)
        return record

    def _search_until_done(self, journal: Journal, interrupt: Interrupt) -> None:
        interrupt.check()
        flow = Flow(
            self._workshop,
            self._wanted(),
            lambda _: self._best.median_ns if self._best else None,
            self._ledger,
            self._options.trials - self._reused,
            self._screen,
            lambda candidate: journal.started(_started(candidate)),
            self._announce,
        )
        with flow:
            for trial in flow.trials(self._deadline):
                self._note(trial)
                journal.keep(trial)
                with self._ledger.during(Stage.ASK):
                    self._search.tell(trial.family, trial.config, trial.median_ns)
                self._progress.update(self._snapshot())
                interrupt.check()
                if len(self._trials) >= self._options.trials or self._out_of_time():
                    return

    def _announce(self, copy: Timing | Failure) -> None:
        copy_ns = None if isinstance(copy, Failure) else copy.median_ns
        title = f"{self._workshop.problem.key()} on {self._workshop.device.name}"
        self._progress.start(title, self._options.trials, self._workshop.problem.bytes, copy_ns)

    def _wanted(self) -> Iterator[tuple[str, Config]]:
        # Asked for without end: trials count once they are done, and what is on its way by then is given up.
        while len(self._trials) < self._options.trials:
            asked = self._search.ask()
            if asked is None:
                return
            yield asked

    def _note(self, trial: Trial) -> None:
        self._trials[trial.family, trial.config] = trial
        if isinstance(trial.outcome, Failure):
            self._failures[trial.outcome.kind] += 1
        elif self._best is None or fastest_first((self._best, trial))[0] is trial:
            self._best = trial
            self._screen.expect(trial.outcome.timing.median_ns)
            self._workshop.pool.expect(trial.compile_ms)

    def _replace(self, trial: Trial) -> None:
        """A finalist that failed on fresh data."""
        if isinstance(trial.outcome, Failure):
            self._failures[trial.outcome.kind] += 1
        self._trials[trial.family, trial.config] = trial
        self._store.add_trials(self._workshop.problem, self._workshop.device, (trial,))

    def _deadline(self) -> float | None:
        # Where preparing the problem took all the time, there is still an answer: the first default.
        limit = self._options.time_limit_s
        return None if limit is None or not self._trials else self._start + limit

    def _out_of_time(self) -> bool:
        deadline = self._deadline()
        return deadline is not None and time.monotonic() >= deadline

    def _snapshot(self) -> Snapshot:
        elapsed = time.monotonic() - self._start
        done, size = len(self._trials), self._search.size
        total = self._options.trials if size is None else min(self._options.trials, size)
        return Snapshot(
            done=done,
            total=total,
            reused=self._reused,
            best_ns=self._best.median_ns if self._best else None,
            best=f"{self._best.family} {self._best.config}" if self._best else "",
            failures=dict(self._failures),
            elapsed_s=elapsed,
            time_left_s=estimate_time_left(
                done=done, reused=self._reused, total=total, elapsed_s=elapsed, limit_s=self._options.time_limit_s
            ),
        )

    def _costs(self) -> Costs:
        return Costs(
            dict(self._ledger.seconds), self._workshop.pool.processes, len(self._workshop.benches), self._ledger.twins
        )

    def _run_spec(self, report: TuneReport) -> dict[str, Any]:
        return {
            "seed": self._options.seed,
            "trials": report.tried,
            "reused": report.reused,
            "failures": {str(kind): count for kind, count in report.failures.items()},
            "space_size": report.space_size,
            "elapsed_s": report.elapsed_s,
            "interrupted": report.interrupted,
            "costs": report.costs.spec(),
            "families": [dataclasses.asdict(standing) for standing in report.standings],
            "winner": None if report.record is None else trial_spec(report.record.trial),
        }


def _was_dropped(trial: Trial) -> bool:
    return isinstance(trial.outcome, Failure) and trial.outcome.kind is FailureKind.DROPPED


def _started(candidate: Candidate) -> Started:
    """A candidate as the store's poison list knows it."""
    return Started(candidate.program.family, candidate.program.config, candidate.fingerprint)
