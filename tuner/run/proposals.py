"""Programs to try next: requested from the search, generated, and claimed if other tuners take part."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

from warpsmith.generator.gate import IllegalConfig
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.store.record import Trial
from warpsmith.tuner.costs import CostStage, Ledger
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.faults import Faults, Part
from warpsmith.tuner.run.sharing import Sharing
from warpsmith.tuner.search.competition import Competition

AT_ONCE = 16
"""Number of programs that are claimed together, if there are as many compilers: a transaction costs 5 to 10 ms, and a
candidate takes 10. If candidates take longer, programs that one tuner holds back keep the others idle.
"""


MOST_REFUSED = 8
"""Number of configs for which a family without a time generates no program, after which it leaves the search."""


class Proposals:
    """Programs to try, each of them once, by whichever tuner.

    Args:
        search: proposes the configs.
        evaluator: generates the programs.
        ledger: counts the costs.
        sharing: this tuner's connection to others on the same store; None if there are none.
        holds: true if another tuner's stored trial makes this tuner's own superfluous.
        faults: collects families that generate no programs.
    """

    def __init__(
        self,
        search: Competition,
        evaluator: Evaluator,
        ledger: Ledger,
        sharing: Sharing | None,
        holds: Callable[[Trial], bool],
        faults: Faults | None = None,
    ) -> None:
        self._faults = Faults() if faults is None else faults
        self._refused: collections.Counter[str] = collections.Counter()
        self._search, self._evaluator, self._ledger, self._sharing, self._holds = (
            search,
            evaluator,
            ledger,
            sharing,
            holds,
        )
        self._at_once = 1 if sharing is None else min(AT_ONCE, evaluator.pool.processes)
        self._mine: collections.deque[Program] = collections.deque()
        self._elsewhere: set[tuple[str, Config]] = set()
        """Configs that this tuner's search proposed and other tuners claimed."""
        self._departed = 0

    def next(self) -> Program | None:
        """The next program to try; None if there is none now."""
        while not self._mine:
            if self._sharing is not None and self._sharing.departed > self._departed:
                self.offer_again()
            if not (programs := self._next_programs()):
                return None
            self._claim(programs)
        return self._mine.popleft()

    def tell(self, trial: Trial) -> None:
        """Reports the outcome of a program to the search."""
        with self._ledger.during(CostStage.ASK):
            self._search.tell(trial.family, trial.config, trial.median_ns)

    def learn(self, trial: Trial) -> None:
        """Takes in the outcome of another tuner's program."""
        self._elsewhere.discard((trial.family, trial.config))
        self._search.learn(trial.family, trial.config, trial.median_ns)

    @property
    def waits_for_others(self) -> bool:
        """True if other tuners are trying programs that this tuner wanted; it may still have to try them itself."""
        return bool(self._elsewhere)

    def offer_again(self) -> None:
        """Requests programs that others claimed again, to try those that are free by now."""
        if self._sharing is not None:
            self._departed = self._sharing.departed
        for family, config in self._elsewhere:
            self._search.offer(family, config)
        self._elsewhere.clear()

    def _next_programs(self) -> list[Program]:
        programs: list[Program] = []
        while len(programs) < self._at_once:
            with self._ledger.during(CostStage.ASK):
                candidate = self._search.ask()
            if candidate is None:
                break
            try:
                with self._ledger.during(CostStage.GENERATE):
                    programs.append(self._evaluator.program(*candidate))
            except IllegalConfig as error:
                self._refuse(*candidate, error)
        return programs

    def _refuse(self, family: str, config: Config, error: IllegalConfig) -> None:
        """Reports a config as failed. A family that generates no programs for many configs, and has no time, leaves the
        search.
        """
        self._search.tell(family, config, None)
        self._refused[family] += 1
        self._faults.add(Part.FAMILY, family, error)
        if self._refused[family] >= MOST_REFUSED and self._search.families[family].best_ns is None:
            self._search.abandon(family, f"it makes no programs: {error}")

    def _claim(self, programs: list[Program]) -> None:
        if self._sharing is None:
            self._mine.extend(programs)
            return
        start = time.monotonic()
        granted = self._sharing.claim(programs, self._evaluator.identity_of, self._holds)
        self._ledger.add(CostStage.STORE, time.monotonic() - start)
        for program in programs:
            if program in granted:
                self._mine.append(program)
            else:
                self._search.forgo(program.family, program.config)
                self._elsewhere.add((program.family, program.config))
