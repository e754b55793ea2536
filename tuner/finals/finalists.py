"""Selection of the finalists: candidates that are verified on fresh data and then timed in turns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator

from warpsmith.generator.gate import IllegalConfig
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure, FailureKind, Timing, Trial
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import Contender

FINALISTS = 3
"""Number of fastest candidates that are verified and timed again, on fresh data and longer, before one is stored."""
NEAR = 1.03
"""Ratio to the fastest time up to which a candidate is a finalist: search times of one kernel differ by 2%."""
MOST_FINALISTS = 8
BESIDE = 10.0
"""Ratio to the fastest time up to which the best of another family is timed beside it. 120 samples in turns of a kernel
that takes 30 ms last 4 s, and a more precise time of it would change nothing.
"""
LONG_NS = 5e8
"""Nanoseconds above which a family's best is timed only if it may win: verifying and timing it again takes some ten
runs.
"""
SHORT_NS = 5e6
"""Nanoseconds up to which a family's best is timed whatever the fastest takes: its samples last 0.6 s."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finalist:
    """Candidate that is right on fresh data."""

    trial: Trial
    contender: Contender
    is_answer: bool
    """True if a look-up returns this program without the search."""
    is_rival: bool = False
    """True if its family takes no part in the search and it holds the place that the winner wants."""

    def timed(self, timing: Timing) -> Trial:
        """The trial with its time taken in turns."""
        measurement = dataclasses.replace(self.contender.measurement, timing=timing)
        return dataclasses.replace(self.trial, outcome=measurement)


def is_finalist(place: int, time_ns: float, fastest_ns: float) -> bool:
    """True if a candidate is timed again. `place` is the number of faster candidates; times are in ns."""
    return place < MOST_FINALISTS and (place < FINALISTS or time_ns <= NEAR * fastest_ns)


def finalists(
    evaluator: Evaluator,
    finals: Bench,
    ranked: list[Trial],
    keep: Callable[[Trial], None],
    answers: Collection[tuple[str, Config]],
    *,
    each_family: bool,
) -> Iterator[Finalist]:
    """Yields the candidates that may win, and the answers that were tried, if they are right on fresh data.

    Of several trials that share one outcome, only the first counts. With `each_family`, the fastest of every family
    takes part too. Only answers may take longer than both BESIDE times the fastest and SHORT_NS. Trials that fail on
    fresh data are removed from `ranked`.
    """
    passed: list[Trial] = []
    for trial in tuple(ranked):
        time_ns, fastest_ns = trial.median_ns or 0.0, (passed[0] if passed else trial).median_ns or 0.0
        is_answer = (trial.family, trial.config) in answers
        is_far = time_ns > max(BESIDE * fastest_ns, SHORT_NS)
        is_familys = each_family and time_ns <= LONG_NS and all(trial.family != it.family for it in passed)
        may_win = is_finalist(len(passed), time_ns, fastest_ns) or is_familys
        if not (is_answer or (may_win and not is_far)):
            continue
        # Equal outcomes mean equal machine code, which was run once. An answer stays under its own name.
        if any(trial.outcome == other.outcome for other in passed) and not is_answer:
            continue
        try:
            program = evaluator.program(trial.family, trial.config)
        except IllegalConfig as error:
            ranked.remove(trial)
            keep(dataclasses.replace(trial, outcome=Failure(FailureKind.INVALID, str(error))))
            continue
        if not program.has_fingerprint(trial.fingerprint):
            ranked.remove(trial)  # another version of this package tried a different source under this name
            continue
        contender = evaluator.verified(program, finals)
        if isinstance(contender, Failure):
            ranked.remove(trial)  # it must not become a baseline either
            keep(dataclasses.replace(trial, outcome=contender))
            continue
        passed.append(trial)
        yield Finalist(trial, contender, is_answer)


def untried_finalists(
    evaluator: Evaluator,
    finals: Bench,
    programs: Iterable[Program],
    keep: Callable[[Trial], None],
    *,
    are_rivals: bool = False,
) -> Iterator[Finalist]:
    """Yields the answers or rivals that the search did not try, if they are right. Each one becomes a trial."""
    for program in programs:
        contender = evaluator.verified(program, finals)
        outcome = contender if isinstance(contender, Failure) else contender.measurement
        trial = Trial(program.family, program.config, program.fingerprint, outcome, evaluator.identity_of(program))
        keep(trial)
        if not isinstance(contender, Failure):
            yield Finalist(trial, contender, is_answer=not are_rivals, is_rival=are_rivals)
