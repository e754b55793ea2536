"""Search loop of one tuning run: sends programs through the flow, and trials to the store and the search."""

from __future__ import annotations

import collections
import contextlib
import functools
import math
import time
from collections.abc import Callable, Iterable, Mapping

from warpsmith.errors import DeviceError, MissingExtra
from warpsmith.generator.family import Family
from warpsmith.generator.gate import IllegalConfig
from warpsmith.generator.program import Program
from warpsmith.generator.selection import Selection
from warpsmith.generator.space import Config
from warpsmith.store.optuna_tables import study_prefix
from warpsmith.store.poison import Started
from warpsmith.store.record import Failure, FailureKind, Timing, Trial
from warpsmith.store.store import Store
from warpsmith.tuner.costs import CostStage, Ledger
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.faults import NEVER_CONTAINED, Faults, Part
from warpsmith.tuner.finals.choose import TuningFailed, fastest_first, was_dropped
from warpsmith.tuner.options import TuneOptions
from warpsmith.tuner.progress import Progress, Snapshot, estimate_time_left
from warpsmith.tuner.run.flow import Candidate, Flow, FlowCallbacks
from warpsmith.tuner.run.interrupt import Interrupt, watching_for_interrupt
from warpsmith.tuner.run.journal import GATHER_S, SHARED_GATHER_S, Journal
from warpsmith.tuner.run.parts import KnownStages, known_stages
from warpsmith.tuner.run.proposals import Proposals
from warpsmith.tuner.run.screen import Screen
from warpsmith.tuner.run.sharing import HelperTuners, Sharing
from warpsmith.tuner.search.competition import POLISH_SHARE, Competition, Prospect
from warpsmith.tuner.search.family_search import FamilySearch, LateSearch, NoSearch
from warpsmith.tuner.search.finished import Finished
from warpsmith.tuner.search.guarded import guarded
from warpsmith.tuner.search.known import Key, Known, have_times


class TimeLimit:
    """A limit that starts when the device is ready.

    Opening the device and computing the float64 reference of a large problem take seconds that do not count as search.

    Args:
        limit_s: seconds; None for no limit.
        now: the clock, in seconds.
    """

    def __init__(self, limit_s: float | None, now: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = math.inf if limit_s is None else limit_s
        self._now = now
        self._ends = math.inf

    def begin(self) -> None:
        """Starts the limit; call it when the device is ready."""
        self._ends = self._now() + self._limit_s

    @property
    def ends(self) -> float | None:
        """Clock time at which the limit passes; None if there is no limit, or before it begins."""
        return None if self._ends == math.inf else self._ends

    def is_late(self, share: float) -> bool:
        """True in the last `share` of the limit."""
        return self._ends < math.inf and self._now() >= self._ends - share * self._limit_s


POLL_S = 0.2
"""Seconds between two looks at the others' trials while there is nothing else to do."""


class SearchLoop(FlowCallbacks):
    """All trials of a problem so far, and the search for more.

    Args:
        evaluator: compiles and evaluates candidates.
        store: store open for writing.
        stored: trials in the store.
        options: options of the search.
        progress: display of the progress.
        start: time.monotonic() at the start of the run.
        sharing: this tuner's connection to others on the same store; None if there are none.
        helpers: tuners on this machine's other devices; None if there are none.
        known: candidates to try first, likeliest first; see `known_first`. Each is asked for at its turn.
        faults: collects the parts that fail; None for a new list, `faults`.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        store: Store,
        stored: tuple[Trial, ...],
        options: TuneOptions,
        progress: Progress,
        start: float,
        sharing: Sharing | None,
        helpers: HelperTuners | None = None,
        known: Iterable[Key] = (),
        faults: Faults | None = None,
    ) -> None:
        self.faults = Faults() if faults is None else faults
        self._limit = TimeLimit(options.time_limit_s)
        self._evaluator, self._store, self._options = evaluator, store, options
        self._progress, self._start, self._sharing, self._helpers = progress, start, sharing, helpers
        problem, device = evaluator.problem, evaluator.device
        self.trials: dict[Key, Trial] = {}
        self.failures: collections.Counter[FailureKind] = collections.Counter()
        self.best: Trial | None = None
        self._known = Known(known)
        stages = {name: self._stages_of(each) for name, each in evaluator.families.items()}
        self._screen = Screen(
            problem,
            device,
            evaluator.families,
            store.poisoned(device),
            drops=options.drops,
            spared=self._known.made,
            expected_ns=min((each.best_ns for each in stages.values() if each.best_ns), default=math.inf),
            likely_ns=min(filter(None, map(evaluator.gate.likely_ns, evaluator.families.values())), default=math.inf),
            faults=self.faults,
        )
        for trial in stored:
            if self._counts(trial) and evaluator.still_holds(trial):
                self._note(trial)
        self.reused = len(self.trials)
        self.finished: list[Finished] = []
        """Trials of this process, oldest first."""
        self.others = 0
        """Number of trials of other tuners that arrived meanwhile."""
        self.ledger = Ledger()
        self.search = self._new_search(stages)
        self._proposals = Proposals(self.search, evaluator, self.ledger, sharing, self._answers, self.faults)

    def _stages_of(self, family: Family) -> KnownStages:
        """Knowledge from the trials of a family's stages; empty if the family cannot name its stages."""
        try:
            return known_stages(family, self._evaluator.problem, self._evaluator.device, self._store)
        except NEVER_CONTAINED:
            raise
        except Exception as error:
            self.faults.add(Part.FAMILY, family.name, error)
            return KnownStages()

    def _new_search(self, stages: Mapping[str, KnownStages]) -> Competition:
        subject, gate = (self._evaluator.problem.key(), self._evaluator.device.key()), self._evaluator.gate
        earlier = (*self._store.winners(*subject)[:1], *self._store.runners_up(*subject))
        searches, prospects = {}, {}
        for name, family in self._evaluator.families.items():
            # A winner under another compiler or other conditions is no valid trial today, but its config is worth
            # trying.
            won = [each.trial.config for each in earlier if each.trial.family == name]
            mine = [trial for trial in self.trials.values() if trial.family == name]
            prospects[name] = Prospect(stages[name].best_ns, gate.likely_ns(family) is not None)
            searches[name] = LateSearch(functools.partial(self._family_search, family, won, stages[name], mine))
            if mine:
                with contextlib.suppress(NoSearch):  # the first turn meets it again
                    _ = searches[name].made
        for name, failure in gate.failures.items():
            self.faults.add(Part.FAMILY, name, failure)
        budget, is_late = self._options.trials - self.reused, lambda: self._limit.is_late(POLISH_SHARE)
        return Competition(searches, self._seed, budget, is_late, self._known, prospects)

    @property
    def _seed(self) -> int:
        return self._options.seed if self._sharing is None else self._sharing.seed(self._options.seed)

    def _family_search(
        self, family: Family, won: list[Config], stages: KnownStages, stored: list[Trial]
    ) -> FamilySearch:
        """The search of one family. Raises NoSearch, and notes the fault, if it cannot be searched."""
        try:
            return self._new_family_search(family, won, stages, stored)
        except MissingExtra:  # a package that the user's options need is not installed, whatever the family
            raise
        except Exception as error:
            self.faults.add(Part.FAMILY, family.name, error)
            raise NoSearch(family.name) from error
        finally:
            if (failure := self._evaluator.gate.failures.get(family.name)) is not None:
                self.faults.add(Part.FAMILY, family.name, failure)

    def _new_family_search(
        self, family: Family, won: list[Config], stages: KnownStages, stored: list[Trial]
    ) -> FamilySearch:
        """The search of one family. Raises IllegalConfig if it has no legal config to try first."""
        subject, gate = (self._evaluator.problem.key(), self._evaluator.device.key()), self._evaluator.gate
        firsts = [*won, *stages.firsts, *gate.starts(family)]
        try:
            firsts.insert(0, gate.default(family))
        except IllegalConfig as error:
            self.faults.add(Part.FAMILY, family.name, error)
            firsts = [config for config in firsts if gate.why_not(family, config) is None]
            if not firsts:
                raise
        return FamilySearch(
            study_prefix(*subject) + family.name,
            guarded(gate.space(family), functools.partial(self.faults.add, Part.FAMILY, family.name)),
            firsts,
            self._seed,
            [(trial.config, trial.median_ns) for trial in stored],
            self._options.sampler,
            stages.expected,
        )

    @property
    def selection(self) -> Selection:
        """Kernels that are searched."""
        return self._options.selection

    @property
    def is_out_of_time(self) -> bool:
        return self._limit.ends is not None and time.monotonic() >= self._limit.ends

    def run(self) -> bool:
        """Searches until it is done; False if Ctrl-C ended it. All trials are stored in any case.

        Raises TuningFailed if no family can be searched.
        """
        gather_s = GATHER_S if self._sharing is None else SHARED_GATHER_S
        self._journal = Journal(self._store, self._evaluator.problem, self._evaluator.device, gather_s)
        try:
            with watching_for_interrupt() as interrupt:
                self._until_done(interrupt)
        except KeyboardInterrupt:
            return False
        except DeviceError as error:
            if self.best is None:
                raise
            self.faults.add(Part.WORKER, "of the search", error)  # the winner is still chosen from what was found
        finally:
            self._progress.stop()
            self._journal.close()
            self.ledger.add(CostStage.STORE, self._journal.seconds)
        return True

    def replace(self, trial: Trial) -> None:
        """Records a new outcome of a program: a finalist failed on fresh data, or an answer was not tried before."""
        self._note(trial)
        self.finished.append(Finished.now(trial))
        self._store.add_trials(self._evaluator.problem, self._evaluator.device, (trial,))

    def _until_done(self, interrupt: Interrupt) -> None:
        interrupt.check()
        total = self._options.trials - self.reused
        with Flow(self._evaluator, self, self.ledger, total, self._screen) as flow:
            while not self._is_done():
                for trial in flow.trials(self._deadline):
                    self._note(trial)
                    self.finished.append(Finished.now(trial))
                    self._journal.keep(trial)
                    self._proposals.tell(trial)
                    self._learn()
                    self._progress.update(self._snapshot())
                    interrupt.check()
                    if self._is_done():
                        return
                if not self._proposals.waits_for_others:
                    return
                time.sleep(POLL_S)
                interrupt.check()
                self._learn()
                self._proposals.offer_again()

    def next(self) -> Program | None:
        # Requests have no limit of their own: trials count once they are done, and what is in progress then is given
        # up. Known configs must not be given up, so until they have times no more are requested than the trials wanted.
        requested = len(self.trials) if self._known_have_times else self.search.tried
        program = self._proposals.next() if requested < self._options.trials else None
        if not self.search.families:
            reasons = "; ".join(each.message for each in self.faults.all)
            raise TuningFailed(f"no family of {self._evaluator.problem.key()} can be searched: {reasons}")
        return program

    def best_ns(self, candidate: Candidate) -> float | None:  # noqa: ARG002 - all compete
        return self.best.median_ns if self.best else None

    def starting(self, candidate: Candidate) -> None:
        program = candidate.program
        self._journal.started(Started(program.family, program.config, candidate.fingerprint))

    def opened(self, copy: Timing | Failure) -> None:
        self._limit.begin()
        copy_ns = None if isinstance(copy, Failure) else copy.median_ns
        title = f"{self._evaluator.problem.key()} on {self._evaluator.device.name}"
        self._progress.start(title, self._options.trials, self._evaluator.problem.bytes, copy_ns)

    def _is_done(self) -> bool:
        deadline = self._deadline()
        return len(self.trials) >= self._options.trials or (deadline is not None and time.monotonic() >= deadline)

    @property
    def _known_have_times(self) -> bool:
        """True if the search may end; see `have_times`."""
        tried = {key: self.trials[key] for key in self._known.made if key in self.trials}
        known = (key for key in self._known if key[0] in self.search.families)
        return have_times(known, {key: trial.median_ns is not None for key, trial in tried.items()})

    def _learn(self) -> None:
        """Takes in the trials of other tuners."""
        if self._helpers is not None:
            self._helpers.check(self.faults)
        for trial in self._sharing.news() if self._sharing is not None else ():
            is_known = (trial.family, trial.config) in self.trials or trial.family not in self.search.families
            if is_known or not self._answers(trial):
                continue
            # Generating a program takes a millisecond, so validity is checked only for the trials that matter most.
            leads = trial.median_ns is not None and (self.best is None or trial.median_ns <= (self.best.median_ns or 0))
            if not leads or self._evaluator.still_holds(trial):
                self.others += 1
                self._note(trial)
                self._proposals.learn(trial)

    def _answers(self, trial: Trial) -> bool:
        """True if another tuner's trial makes ours superfluous. While our own device is opening, its conditions are not
        checked.
        """
        return self._counts(trial) and (not self._evaluator.bench.is_open or self._evaluator.may_hold(trial))

    def _counts(self, trial: Trial) -> bool:
        """False outside the pinned part; for a dropped trial, if this run does not drop, or if the config is known."""
        if not self._evaluator.pins.allow(trial.config):
            return False
        return not was_dropped(trial) or (self._options.drops and (trial.family, trial.config) not in self._known)

    def _note(self, trial: Trial) -> None:
        self.trials[trial.family, trial.config] = trial
        if isinstance(trial.outcome, Failure):
            self.failures[trial.outcome.kind] += 1
        elif self.best is None or fastest_first((self.best, trial))[0] is trial:
            self.best = trial
            self._screen.expect(trial.outcome.timing.median_ns)
            self._evaluator.pool.expect(trial.compile_ms)

    def _deadline(self) -> float | None:
        """Value of time.monotonic() at which a time limit ends the search; None before it may end, or without a
        limit.
        """
        # Even with slow compilers there is an answer: the best known config, or the first that ends.
        return self._limit.ends if self.trials and self._known_have_times else None

    def _snapshot(self) -> Snapshot:
        elapsed = time.monotonic() - self._start
        done = len(self.trials)
        # Other tuners may bring in more trials than wanted.
        total = max(done, self.search.size_up_to(self._options.trials))
        return Snapshot(
            done=done,
            total=total,
            reused=self.reused,
            best_ns=self.best.median_ns if self.best else None,
            best=f"{self.best.family} {self.best.config}" if self.best else "",
            failures=dict(self.failures),
            elapsed_s=elapsed,
            time_left_s=estimate_time_left(
                done=done,
                reused=self.reused,
                total=total,
                elapsed_s=elapsed,
                limit_s=None if self._limit.ends is None else self._limit.ends - self._start,
            ),
        )
