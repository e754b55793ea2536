"""Who meets in the finals: candidates that are verified on fresh data, and then timed in turns."""

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
"""Candidates that are verified and timed again, on fresh data and longer, before one of them is stored."""
NEAR = 1.03
"""Slower than the fastest by so much, a candidate is a finalist still: search times of one kernel differ by 2%."""
MOST_FINALISTS = 8
BESIDE = 10.0
"""Times of the fastest up to which the best of another family is timed beside it: 120 samples in turns of one that
takes 30 ms last 4 s, and to know its time better would change nothing."""
LONG_NS = 5e8
"""What takes longer is timed beside the fastest only where it may win: to verify it and to time it again takes some ten
runs."""
SHORT_NS = 5e6
"""What takes no longer is timed beside it whatever the fastest takes: the samples last 0.6 s."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finalist:
    """A candidate that is right on fresh data."""

    trial: Trial
    contender: Contender
    """On fresh data."""
    is_answer: bool
    """Whether a look-up gives it without this search."""
    is_rival: bool = False
    """Whether it is of a family that takes no part in the search, and holds the place that its winner wants."""

    def timed(self, timing: Timing) -> Trial:
        """As a trial with its time in turns."""
        measurement = dataclasses.replace(self.contender.measurement, timing=timing)
        return dataclasses.replace(self.trial, outcome=measurement)


def is_finalist(place: int, time_ns: float, fastest_ns: float) -> bool:
    """Whether a candidate with `place` faster ones before it is timed again; its time and the fastest one's in ns."""
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
    """Those that may win and the answers that were tried, where they are right on fresh data; of several with the same
    time of one run, the first. With `each_family` the fastest of every family too. Only answers may take longer than
    BESIDE times of the fastest and SHORT_NS.

    What fails there is taken out of `ranked`.
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
        # The same outcome is that of the same machine code, which was not run again; an answer goes by its own name.
        if any(trial.outcome == other.outcome for other in passed) and not is_answer:
            continue
        try:
            program = evaluator.program(trial.family, trial.config)
        except IllegalConfig as error:
            ranked.remove(trial)
            keep(dataclasses.replace(trial, outcome=Failure(FailureKind.INVALID, str(error))))
            continue
        if not program.has_fingerprint(trial.fingerprint):
            ranked.remove(trial)  # another version of this package tried something else by this name
            continue
        contender = evaluator.verified(program, finals)
        if isinstance(contender, Failure):
            ranked.remove(trial)  # it is no baseline either
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
    """Answers, or rivals, that the search did not come to, where they are right; each is a trial from here on."""
    for program in programs:
        contender = evaluator.verified(program, finals)
        outcome = contender if isinstance(contender, Failure) else contender.measurement
        trial = Trial(program.family, program.config, program.fingerprint, outcome, evaluator.identity_of(program))
        keep(trial)
        if not isinstance(contender, Failure):
            yield Finalist(trial, contender, is_answer=not are_rivals, is_rival=are_rivals)
