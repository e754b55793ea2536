"""What came of a problem's candidates."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait

from conv2d_bench.candidates import Candidate
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.store.record import Failure, Measurement
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.run.screen import Screen

COMPILING_S = 6.0
"""How long a problem waits for compilers, which began while the ones before were measured; then it goes without, if
something is right. A compiler's own deadline ends the wait for the first."""
HOPELESS = 1.6
"""Times the best: a family's other configs are passed over where those that ran take so much longer."""
NEAR, MOST_CONTENDERS = 1.03, 3
"""Candidates within so much of the fastest, and so many at most, take turns with cuDNN."""


class Tried:
    """Evaluates candidates and remembers what came of them.

    Args:
        problem: what they compute.
        device: on what.
        families: that they may be of, by name.
        beside: names of families that are wanted whatever they take.
        bench: on which they are evaluated.
    """

    def __init__(
        self, problem: Conv2d, device: Device, families: Mapping[str, Family], beside: Sequence[str], bench: Bench
    ) -> None:
        self._beside, self._bench = beside, bench
        self._screen = Screen(problem, device, families, {}, drops=True)
        self.right: list[Contender] = []
        """Those that are right, in the order of their evaluation."""
        self.times: list[tuple[Candidate, float | None]] = []
        """In ns; None for what failed."""
        self.failures: dict[str, int] = {}
        """How many, by kind."""
        self.first_failure = ""
        self.best_ns = math.inf

    def evaluate_all(self, candidates: Sequence[Candidate]) -> None:
        """Each as soon as it is compiled, but for those of families that are far behind, and of slow compilers."""
        until = time.monotonic() + COMPILING_S
        left = {each.compiling for each in candidates}
        while left and (not self.right or time.monotonic() < until):
            patience = max(0.0, until - time.monotonic()) if self.right else None
            done, left = wait(left, patience, FIRST_COMPLETED)
            start = time.monotonic()
            for candidate in (each for each in candidates if each.compiling in done):
                self.evaluate(candidate)
            until += time.monotonic() - start
        for compiling in left:
            compiling.cancel()
        if left:
            self._fail("compilers too slow", len(left))

    def evaluate(self, candidate: Candidate) -> float | None:
        """The time in ns of one that is compiled; None where it is wrong, or cannot win and is passed over."""
        family = candidate.family.name
        if family not in self._beside and self._is_hopeless(candidate):
            self._fail("passed over")
            return None
        compiled = candidate.compiling.result()
        if isinstance(compiled, Failure):
            return self._failed(candidate, compiled)
        best_ns = None if self.best_ns == math.inf or family in self._beside else self.best_ns
        outcome = self._bench.evaluate(candidate.program, compiled, best_ns).outcome
        if not isinstance(outcome, Measurement):
            return self._failed(candidate, outcome)
        time_ns = outcome.timing.median_ns
        self.right.append(Contender(candidate.program, compiled.binaries, outcome))
        self.times.append((candidate, time_ns))
        self.best_ns = min(self.best_ns, time_ns)
        self._screen.expect(self.best_ns)
        return time_ns

    def by_family(self) -> dict[str, float]:
        """The shortest time of each, in ns, alone."""
        found: dict[str, float] = {}
        for each in sorted(self.right, key=_ns):
            found.setdefault(each.program.family, _ns(each))
        return found

    def chosen(self) -> list[Contender]:
        """The fastest, those near it, and the fastest of each family of `beside`; the fastest first."""
        ranked = sorted(self.right, key=_ns)
        found = [each for each in ranked[:MOST_CONTENDERS] if _ns(each) <= NEAR * self.best_ns]
        for name in self._beside:
            own = [each for each in ranked if each.program.family == name]
            found += [each for each in own[:1] if all(each is not other for other in found)]
        return found

    def _is_hopeless(self, candidate: Candidate) -> bool:
        if self._screen.of_program(candidate.program, "") is not None:
            return True
        known = [ns for each, ns in self.times if each.family.name == candidate.family.name and ns is not None]
        return bool(known) and min(known) > HOPELESS * self.best_ns

    def _failed(self, candidate: Candidate, failure: Failure) -> float | None:
        told = f"{candidate.family.name} {candidate.config.key()}: {failure.kind}: {failure.message}"
        self.first_failure = self.first_failure or told
        self.times.append((candidate, None))
        self._fail(str(failure.kind))
        return None

    def _fail(self, why: str, count: int = 1) -> None:
        self.failures[why] = self.failures.get(why, 0) + count


def _ns(contender: Contender) -> float:
    return contender.measurement.timing.median_ns
