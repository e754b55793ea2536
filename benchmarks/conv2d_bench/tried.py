"""Evaluates a problem's candidates and collects the results."""

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
"""Seconds that a problem waits for its compilers, which began while earlier problems were measured. It then continues
without the rest if a candidate is correct. Before the first correct one, only the compiler's own deadline ends the
wait.
"""
HOPELESS = 1.6
"""Factor over the best time: a family's other configs are skipped if its measured ones are slower than this."""
NEAR, MOST_CONTENDERS = 1.03, 3
"""Factor over the fastest time, and number, of the candidates that take turns with cuDNN."""


class Tried:
    """Evaluates candidates and collects the results.

    Args:
        problem: the problem.
        device: the device.
        families: families of the candidates, by name.
        beside: names of families that are tried however slow they are.
        bench: evaluates a candidate.
    """

    def __init__(
        self, problem: Conv2d, device: Device, families: Mapping[str, Family], beside: Sequence[str], bench: Bench
    ) -> None:
        self._beside, self._bench = beside, bench
        self._screen = Screen(problem, device, families, {}, drops=True)
        self.right: list[Contender] = []
        """Correct candidates, in the order of their evaluation."""
        self.times: list[tuple[Candidate, float | None]] = []
        """Nanoseconds of each candidate; None for a failure."""
        self.failures: dict[str, int] = {}
        """Number of failures, by kind."""
        self.first_failure = ""
        self.best_ns = math.inf

    def evaluate_all(self, candidates: Sequence[Candidate]) -> None:
        """Evaluates each candidate as soon as it is compiled. It skips families that are far behind, and slow
        compilations.
        """
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
        """Nanoseconds of a compiled candidate; None if it is wrong, or cannot win and is skipped."""
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
        """Shortest time of each family alone, in ns."""
        found: dict[str, float] = {}
        for each in sorted(self.right, key=_ns):
            found.setdefault(each.program.family, _ns(each))
        return found

    def right_of(self, candidate: Candidate) -> Contender | None:
        """A candidate with its measurement; None if it is wrong or was not tried."""
        return next((each for each in self.right if each.program is candidate.program), None)

    def chosen(self, *required: Contender) -> list[Contender]:
        """The fastest candidate, those near it, the fastest of each family of `beside`, and the `required` ones; the
        fastest first.
        """
        ranked = sorted(self.right, key=_ns)
        found = [each for each in ranked[:MOST_CONTENDERS] if _ns(each) <= NEAR * self.best_ns]
        for name in self._beside:
            own = [each for each in ranked if each.program.family == name]
            found += [each for each in own[:1] if all(each is not other for other in found)]
        return found + [each for each in required if all(each is not other for other in found)]

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
