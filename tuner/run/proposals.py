"""What is tried next: asked of the search, generated, and claimed where others tune beside this process."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.store.record import Trial
from warpsmith.tuner.costs import Ledger, Stage
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.run.sharing import Sharing
from warpsmith.tuner.search.competition import Competition

AT_ONCE = 16
"""Programs that are claimed together, where there are compilers for as many: a transaction costs 5 to 10 ms, where a
candidate takes 10. Where candidates take longer, what one tuner holds back the others could do."""


class Proposals:
    """Programs to try, each of them once, whoever tries it.

    Args:
        search: says what is worth trying.
        evaluator: generates it.
        ledger: where costs are counted.
        sharing: whom this tuner shares its store with; None for nobody.
        holds: whether another's trial, stored already, makes a program's own superfluous.
    """

    def __init__(
        self,
        search: Competition,
        evaluator: Evaluator,
        ledger: Ledger,
        sharing: Sharing | None,
        holds: Callable[[Trial], bool],
    ) -> None:
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
            with self._ledger.during(Stage.GENERATE):
                programs.append(self._evaluator.program(*asked))
        return programs

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
