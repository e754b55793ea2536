"""What is tried next: asked of the search, generated, and claimed where others tune beside this process."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

from warpsmith.generator.gate import IllegalConfig
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.store.record import Trial
from warpsmith.tuner.costs import Ledger, Stage
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.faults import Faults, Part
from warpsmith.tuner.run.sharing import Sharing
from warpsmith.tuner.search.competition import Competition

AT_ONCE = 16
"""Programs that are claimed together, where there are compilers for as many: a transaction costs 5 to 10 ms, where a
candidate takes 10. Where candidates take longer, what one tuner holds back the others could do."""


MOST_REFUSED = 8
"""Configs of a family without a time of which no program can be made, after which it leaves the search."""


class Proposals:
    """Programs to try, each of them once, whoever tries it.

    Args:
        search: says what is worth trying.
        evaluator: generates it.
        ledger: where costs are counted.
        sharing: whom this tuner shares its store with; None for nobody.
        holds: whether another's trial, stored already, makes a program's own superfluous.
        faults: takes families of which no program can be made.
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
        """Asked of the search, and claimed by others."""
        self._departed = 0

    def next(self) -> Program | None:
        """The next program to try; None where there is none now."""
        while not self._mine:
            if self._sharing is not None and self._sharing.departed > self._departed:
                self.offer_again()
            if not (programs := self._asked()):
                return None
            self._claim(programs)
        return self._mine.popleft()

    def tell(self, trial: Trial) -> None:
        """Takes in what came of a program."""
        with self._ledger.during(Stage.ASK):
            self._search.tell(trial.family, trial.config, trial.median_ns)

    def learn(self, trial: Trial) -> None:
        """Takes in what came of another tuner's program."""
        self._elsewhere.discard((trial.family, trial.config))
        self._search.learn(trial.family, trial.config, trial.median_ns)

    @property
    def waits_for_others(self) -> bool:
        """Whether others are trying what this tuner wanted, so that it may have to do that yet."""
        return bool(self._elsewhere)

    def offer_again(self) -> None:
        """What others claimed is asked for again, and tried if by now it is free."""
        if self._sharing is not None:
            self._departed = self._sharing.departed
        for family, config in self._elsewhere:
            self._search.offer(family, config)
        self._elsewhere.clear()

    def _asked(self) -> list[Program]:
        programs: list[Program] = []
        while len(programs) < self._at_once:
            with self._ledger.during(Stage.ASK):
                asked = self._search.ask()
            if asked is None:
                break
            try:
                with self._ledger.during(Stage.GENERATE):
                    programs.append(self._evaluator.program(*asked))
            except IllegalConfig as error:
                self._refuse(*asked, error)
        return programs

    def _refuse(self, family: str, config: Config, error: IllegalConfig) -> None:
        """Takes a config as one that failed; a family that mostly makes no programs leaves the search."""
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
        self._ledger.add(Stage.STORE, time.monotonic() - start)
        for program in programs:
            if program in granted:
                self._mine.append(program)
            else:
                self._search.forgo(program.family, program.config)
                self._elsewhere.add((program.family, program.config))
