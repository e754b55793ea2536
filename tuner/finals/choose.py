"""From trials to a winner: the fastest few are verified and timed again on fresh data, then set beside the peers."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import importlib.metadata
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from warpsmith.errors import WarpsmithError
from warpsmith.generator.program import Program
from warpsmith.generator.registry import simplest_family
from warpsmith.generator.space import Config
from warpsmith.store.record import (
    Baseline,
    Failure,
    FailureKind,
    Measurement,
    Provenance,
    Record,
    Timing,
    Trial,
)
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import Contender, InTurns

SIMPLEST_KERNEL = "simplest kernel"
"""How the baseline is labelled that is the default config of `registry.SIMPLEST`."""
FINALISTS = 3
"""Candidates that are verified and timed again, on fresh data and longer, before one of them is stored."""
NEAR = 1.03
"""Slower than the fastest by so much, a candidate is a finalist still: search times of one kernel differ by 2%."""
MOST_FINALISTS = 8
KEPT = 0.005
"""By how much of its time a candidate must be faster than what a look-up answers already, to take its place: 5x5 on
9216x9216 bytes was 0.4% faster in the finals of its search and 0.6% slower in the next process (H200)."""
SPILLED = 1.15
"""What the time of a kernel that spills registers counts as, at the choice: 15x15 on 2000x3000 by one such took 53.5 us
in the finals of its search and 59.8 us in the next process (H200), where that memory lay elsewhere."""
TIE = 0.003
"""Times closer than this are one to whoever asks whether two runs agree. On an H200 medians of one kernel in seven
processes lay within 0.4%, and those of two kernels keep their distance better than that, since what moves one moves
both."""
CLOSE = 0.001
"""Times closer than this are one to the run that chooses. Were it TIE, a run that errs by a little would now and
then take one for equal that others find slower: with TIE three of ten runs named a config 0.56% slower."""


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """What came of the finals."""

    record: Record
    finalists: tuple[Trial, ...]
    """With the times that they had in turns with each other, the winner first, then the fastest first."""
    before: Trial | None = None
    """The fastest of the answers that a look-up gave before, with its time in those turns; None where none is right.
    The winner is never slower than it."""


class TuningFailed(WarpsmithError):
    """No candidate was both right and timed."""


def fastest_first(trials: Iterable[Trial]) -> list[Trial]:
    """The right ones of `trials`, fastest first; equal times in the order of their configs."""
    measured = [trial for trial in trials if isinstance(trial.outcome, Measurement)]
    return sorted(measured, key=lambda trial: (trial.median_ns or 0.0, trial.family, trial.config.key()))


def failures_by_kind(trials: Iterable[Trial]) -> dict[FailureKind, int]:
    """How many of `trials` have no time, by kind."""
    outcomes = (trial.outcome for trial in trials)
    return dict(collections.Counter(outcome.kind for outcome in outcomes if isinstance(outcome, Failure)))


def choose(
    evaluator: Evaluator,
    finals: Bench,
    trials: list[Trial],
    keep: Callable[[Trial], None],
    answers: Sequence[Program] = (),
) -> Choice:
    """The winner of `trials`, with what was measured beside it.

    Those within NEAR of the fastest, and FINALISTS at the least, are verified on the fresh data of `finals`, then
    timed in turns with each other and with the libraries installed there. What a look-up answers without this search
    is among them however fast it was, and stays where nothing is faster by KEPT. Of others that tie, the first in a
    fixed order wins, so that two runs name the same one. What spills registers wins by SPILLED only.

    Args:
        evaluator: compiles the finalists.
        finals: evaluates them, on data that the search has not seen.
        trials: what the search tried.
        keep: told of every finalist that fails there, and of every answer that was not tried, so that it is stored.
        answers: what a look-up gave before the search, and what it gives by now, where other tuners found more.

    Raises TuningFailed where no trial is right, or none stays right on fresh data.
    """
    ranked, tried = fastest_first(trials), {(trial.family, trial.config) for trial in trials}
    untried = [each for each in dict.fromkeys(answers) if (each.family, each.config) not in tried]
    if not ranked and not untried:
        raise TuningFailed(_why_none(evaluator, trials))
    finalists = [
        *_finalists(evaluator, finals, ranked, keep, {(each.family, each.config) for each in answers}),
        *_untried_finalists(evaluator, finals, untried, keep),
    ]
    if not finalists:
        raise TuningFailed(f"no candidate of {evaluator.problem.key()} passed the second verification, on fresh data")
    beside = _in_turns(finals, finalists)
    order = [(list(evaluator.families).index(each.trial.family), each.trial.config.key()) for each in finalists]
    answered = [place for place, each in enumerate(finalists) if each.is_answer]
    spilling = [place for place, each in enumerate(finalists) if each.contender.measurement.spill_bytes]
    winner = _winner(beside.ours, spilling, answered, order)
    ours = [_timed(each, timing) for each, timing in zip(finalists, beside.ours, strict=True)]
    trial = ours[winner]
    baselines = (*beside.baselines, *_simplest(evaluator, ranked, trial))
    record = Record(evaluator.problem, evaluator.device, trial, baselines, _provenance(finals), beside.left_out)
    others = [each for each in fastest_first(ours) if each is not trial]
    before = fastest_first(ours[place] for place in answered)
    return Choice(record, (trial, *others), before[0] if before else None)


def _provenance(finals: Bench) -> Provenance:
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Provenance(created, importlib.metadata.version("warpsmith"), finals.opened.environment)


def _in_turns(finals: Bench, finalists: Sequence[_Finalist]) -> InTurns:
    """Their times and those of the other libraries, in turns; where that fails, their own ones, and it is said."""
    beside = finals.side_by_side(tuple(finalist.contender for finalist in finalists))
    if not isinstance(beside, Failure):
        return beside
    warnings.warn(f"the other libraries could not be timed: {beside.message}", stacklevel=3)
    return InTurns(tuple(finalist.contender.measurement.timing for finalist in finalists), ())


def _winner(
    timings: Sequence[Timing], spilling: Collection[int], answered: Sequence[int], order: Sequence[tuple[int, str]]
) -> int:
    """The place of the winner: of those that tie with the fastest, an answer, else the first in `order`.

    Of answers only the fastest may win, of others those that are KEPT faster. Those `spilling` registers count as
    slower than they are.
    """
    known_ns = min((timings[place].median_ns for place in answered), default=math.inf)
    able = [
        place
        for place, timing in enumerate(timings)
        if timing.median_ns * (1 if place in answered else 1 + KEPT) <= known_ns
    ]
    counted = [_times(timings[place], SPILLED) if place in spilling else timings[place] for place in able]
    equal = [able[place] for place in tied(counted, CLOSE, 1.0)]
    return min(equal, key=lambda place: (place not in answered, order[place]))


def _times(timing: Timing, factor: float) -> Timing:
    return dataclasses.replace(
        timing, median_ns=timing.median_ns * factor, p20_ns=timing.p20_ns * factor, p80_ns=timing.p80_ns * factor
    )


def _timed(finalist: _Finalist, timing: Timing) -> Trial:
    measurement = dataclasses.replace(finalist.contender.measurement, timing=timing)
    return dataclasses.replace(finalist.trial, outcome=measurement)


def tied(timings: Sequence[Timing], band: float = TIE, errors: float = 2.0) -> list[int]:
    """Which of several timings, taken in turns, cannot be told from the shortest: those within a share `band` of it, or
    within so many standard `errors` of the difference.
    """
    fastest = min(timings, key=lambda timing: timing.median_ns)

    def band_ns(timing: Timing) -> float:
        unknown_ns = errors * math.hypot(_standard_error_ns(timing), _standard_error_ns(fastest))
        return max(band * fastest.median_ns, unknown_ns)

    return [i for i, timing in enumerate(timings) if timing.median_ns <= fastest.median_ns + band_ns(timing)]


def _standard_error_ns(timing: Timing) -> float:
    """Of the median of normal deviates that spread as the samples do: 1.253 sigma over the root of their number."""
    sigma_ns = (timing.p80_ns - timing.p20_ns) / 1.683
    return 1.253 * sigma_ns / math.sqrt(timing.samples)


def is_finalist(place: int, time_ns: float, fastest_ns: float) -> bool:
    """Whether a candidate with `place` faster ones before it is timed again; its time and the fastest one's in ns."""
    return place < MOST_FINALISTS and (place < FINALISTS or time_ns <= NEAR * fastest_ns)


@dataclasses.dataclass(frozen=True, slots=True)
class _Finalist:
    trial: Trial
    contender: Contender
    """On fresh data."""
    is_answer: bool
    """Whether a look-up gives it without this search."""


def _finalists(
    evaluator: Evaluator,
    finals: Bench,
    ranked: list[Trial],
    keep: Callable[[Trial], None],
    answers: Collection[tuple[str, Config]],
) -> Iterator[_Finalist]:
    """Those that may win and the answers that were tried, where they are right on fresh data; of several with the same
    time of one run, the first.

    What fails there is taken out of `ranked`.
    """
    passed: list[Trial] = []
    for trial in tuple(ranked):
        fastest = passed[0] if passed else trial
        is_answer = (trial.family, trial.config) in answers
        may_win = is_finalist(len(passed), trial.median_ns or 0.0, fastest.median_ns or 0.0)
        if not (may_win or is_answer):
            continue
        # The same outcome is that of the same machine code, which was not run again; an answer goes by its own name.
        if any(trial.outcome == other.outcome for other in passed) and not is_answer:
            continue
        program = evaluator.program(trial.family, trial.config)
        if program.fingerprint != trial.fingerprint:
            ranked.remove(trial)  # another version of this package tried something else by this name
            continue
        contender = evaluator.verified(program, finals)
        if isinstance(contender, Failure):
            ranked.remove(trial)  # it is no baseline either
            keep(dataclasses.replace(trial, outcome=contender))
            continue
        passed.append(trial)
        yield _Finalist(trial, contender, is_answer)


def _untried_finalists(
    evaluator: Evaluator, finals: Bench, answers: Iterable[Program], keep: Callable[[Trial], None]
) -> Iterator[_Finalist]:
    """Answers that the search did not come to, where they are right; each is a trial from here on."""
    for program in answers:
        contender = evaluator.verified(program, finals)
        outcome = contender if isinstance(contender, Failure) else contender.measurement
        trial = Trial(program.family, program.config, program.fingerprint, outcome, evaluator.identity_of(program))
        keep(trial)
        if not isinstance(contender, Failure):
            yield _Finalist(trial, contender, is_answer=True)


def _simplest(evaluator: Evaluator, ranked: list[Trial], winner: Trial) -> tuple[Baseline, ...]:
    """The trial of the operation's simplest kernel, where it is right and another one won."""
    family = simplest_family(evaluator.problem.operation)
    if family is None or family.name not in evaluator.families:
        return ()
    config = family.default(evaluator.problem, evaluator.device)
    for trial in ranked:
        is_simplest = (trial.family, trial.config) == (family.name, config) != (winner.family, winner.config)
        if is_simplest and isinstance(trial.outcome, Measurement):
            return (Baseline(f"{family.name} ({SIMPLEST_KERNEL})", trial.outcome.timing),)
    return ()


def _why_none(evaluator: Evaluator, trials: list[Trial]) -> str:
    failures = [trial.outcome for trial in trials if isinstance(trial.outcome, Failure)]
    if not failures:
        return f"no candidate of {evaluator.problem.key()} was tried; give it more trials or time"
    counts = collections.Counter(str(failure.kind) for failure in failures)
    told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"none of {len(failures)} candidates is correct: {told}; the first: {failures[0].message}"
