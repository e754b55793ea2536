"""The search of one tuning run: programs through the flow, trials to the store and to whoever learns from them."""

from __future__ import annotations

import collections
import time

from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.store.poison import Started
from warpsmith.store.record import Failure, FailureKind, Timing, Trial
from warpsmith.store.store import Store
from warpsmith.tuner.choose import fastest_first
from warpsmith.tuner.companions import Companions
from warpsmith.tuner.crew import Crew
from warpsmith.tuner.flow import Candidate, Flow
from warpsmith.tuner.interrupt import Interrupt, watching_for_interrupt
from warpsmith.tuner.journal import GATHER_S, SHARED_GATHER_S, Journal
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import Progress, Snapshot, estimate_time_left
from warpsmith.tuner.rivalry import POLISH_SHARE, Search
from warpsmith.tuner.screen import Screen
from warpsmith.tuner.search import FamilySearch
from warpsmith.tuner.stages import Ledger, Stage
from warpsmith.tuner.supply import Supply
from warpsmith.tuner.workshop import Workshop

POLL_S = 0.2
"""Between two looks at what others found, while there is nothing else to do."""


class Searching:
    """Everything that is known of a problem's candidates, and the search for more.

    Args:
        workshop: compiles and evaluates.
        store: open for writing.
        stored: the trials there.
        options: how to search.
        progress: told how it goes.
        start: when the run began, of time.monotonic().
        crew: whom the store is shared with; None for nobody.
        companions: this machine's other devices.
    """

    def __init__(
        self,
        workshop: Workshop,
        store: Store,
        stored: tuple[Trial, ...],
        options: TuneOptions,
        progress: Progress,
        start: float,
        crew: Crew | None,
        companions: Companions,
    ) -> None:
        self._workshop, self._store, self._options = workshop, store, options
        self._progress, self._start, self._crew, self._companions = progress, start, crew, companions
        problem, device = workshop.problem, workshop.device
        self.trials: dict[tuple[str, Config], Trial] = {}
        self.failures: collections.Counter[FailureKind] = collections.Counter()
        self.best: Trial | None = None
        self._screen = Screen(problem, device, workshop.families, store.poisoned(device), drops=options.drops)
        for trial in stored:
            if self._counts(trial) and workshop.still_holds(trial):
                self._note(trial)
        self.reused = len(self.trials)
        self.others = 0
        """Trials of other tuners that came in meanwhile."""
        self.ledger = Ledger()
        self.search = self._new_search()
        self._supply = Supply(self.search, workshop, self.ledger, crew, self._answers)

    def _new_search(self) -> Search:
        problem, device = self._workshop.problem, self._workshop.device
        seed = self._options.seed if self._crew is None else self._crew.seed(self._options.seed)
        earlier = self._store.winner(problem.key(), device.key())
        searches = {}
        for name, family in self._workshop.families.items():
            # Measured under another compiler or other conditions, a winner is no trial of today, but worth being one.
            won = [earlier.trial.config] if earlier is not None and earlier.trial.family == name else []
            searches[name] = FamilySearch(
                f"{problem.key()} on {device.key()} by {name}",
                family.space(problem, device),
                (family.default(problem, device), *won, *family.starts(problem, device)),
                seed,
                [(trial.config, trial.median_ns) for trial in self.trials.values() if trial.family == name],
                self._store.server_url,
            )
        return Search(searches, seed, self._options.trials - self.reused, self._is_late)

    def run(self) -> bool:
        """Searches until it is done; False where Ctrl-C ended it. Whatever happens, what was tried is stored."""
        gather_s = GATHER_S if self._crew is None else SHARED_GATHER_S
        journal = Journal(self._store, self._workshop.problem, self._workshop.device, gather_s)
        try:
            with watching_for_interrupt() as interrupt:
                self._until_done(journal, interrupt)
        except KeyboardInterrupt:
            return False
        finally:
            self._progress.stop()
            journal.close()
            self.ledger.add(Stage.STORE, journal.seconds)
        return True

    def replace(self, trial: Trial) -> None:
        """Another outcome of a program that was tried: a finalist that failed on fresh data."""
        self._note(trial)
        self._store.add_trials(self._workshop.problem, self._workshop.device, (trial,))

    def _until_done(self, journal: Journal, interrupt: Interrupt) -> None:
        interrupt.check()
        flow = Flow(
            self._workshop,
            self._next,
            lambda _: self.best.median_ns if self.best else None,
            self.ledger,
            self._options.trials - self.reused,
            self._screen,
            lambda candidate: journal.started(_started(candidate)),
            self._announce,
        )
        with flow:
            while not self._is_done():
                for trial in flow.trials(self._deadline):
                    self._note(trial)
                    journal.keep(trial)
                    self._supply.tell(trial)
                    self._learn()
                    self._progress.update(self._snapshot())
                    interrupt.check()
                    if self._is_done():
                        return
                if not self._supply.waits_for_others:
                    return
                time.sleep(POLL_S)
                interrupt.check()
                self._learn()
                self._supply.offer_again()

    def _announce(self, copy: Timing | Failure) -> None:
        copy_ns = None if isinstance(copy, Failure) else copy.median_ns
        title = f"{self._workshop.problem.key()} on {self._workshop.device.name}"
        self._progress.start(title, self._options.trials, self._workshop.problem.bytes, copy_ns)

    def _next(self) -> Program | None:
        # Asked for without end: trials count once they are done, and what is on its way by then is given up.
        return self._supply.next() if len(self.trials) < self._options.trials else None

    def _is_done(self) -> bool:
        deadline = self._deadline()
        return len(self.trials) >= self._options.trials or (deadline is not None and time.monotonic() >= deadline)

    def _learn(self) -> None:
        """Takes in what others tried."""
        self._companions.check()
        for trial in self._crew.news() if self._crew is not None else ():
            if (trial.family, trial.config) in self.trials or not self._answers(trial):
                continue
            # To generate its program takes a millisecond: it is made sure only of those that say the most.
            leads = trial.median_ns is not None and (self.best is None or trial.median_ns <= (self.best.median_ns or 0))
            if not leads or self._workshop.still_holds(trial):
                self.others += 1
                self._note(trial)
                self._supply.learn(trial)

    def _answers(self, trial: Trial) -> bool:
        """Whether another's trial makes ours superfluous, as far as is known while our own device is being opened."""
        return self._counts(trial) and (not self._workshop.bench.is_open or self._workshop.may_hold(trial))

    def _counts(self, trial: Trial) -> bool:
        """Not one that was dropped, where nothing is to be."""
        is_dropped = isinstance(trial.outcome, Failure) and trial.outcome.kind is FailureKind.DROPPED
        return self._options.drops or not is_dropped

    def _note(self, trial: Trial) -> None:
        self.trials[trial.family, trial.config] = trial
        if isinstance(trial.outcome, Failure):
            self.failures[trial.outcome.kind] += 1
        elif self.best is None or fastest_first((self.best, trial))[0] is trial:
            self.best = trial
            self._screen.expect(trial.outcome.timing.median_ns)
            self._workshop.pool.expect(trial.compile_ms)

    def _deadline(self) -> float | None:
        # Where preparing the problem took all the time, there is still an answer: the first default.
        limit = self._options.time_limit_s
        return None if limit is None or not self.trials else self._start + limit

    def _is_late(self) -> bool:
        """Whether the last part of a time limit has come."""
        limit = self._options.time_limit_s
        return limit is not None and time.monotonic() >= self._start + (1 - POLISH_SHARE) * limit

    def _snapshot(self) -> Snapshot:
        elapsed = time.monotonic() - self._start
        done, size = len(self.trials), self.search.size
        # Others may bring in more than were wanted.
        total = max(done, self._options.trials if size is None else min(self._options.trials, size))
        return Snapshot(
            done=done,
            total=total,
            reused=self.reused,
            best_ns=self.best.median_ns if self.best else None,
            best=f"{self.best.family} {self.best.config}" if self.best else "",
            failures=dict(self.failures),
            elapsed_s=elapsed,
            time_left_s=estimate_time_left(
                done=done, reused=self.reused, total=total, elapsed_s=elapsed, limit_s=self._options.time_limit_s
            ),
        )


def _started(candidate: Candidate) -> Started:
    """A candidate as the store's poison list knows it."""
    return Started(candidate.program.family, candidate.program.config, candidate.fingerprint)
