"""From trials to a winner: the fastest few are verified and timed again on fresh data, then set beside the peers."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import importlib.metadata
import math
import warnings
from collections.abc import Callable, Iterable, Sequence

from warpsmith.errors import WarpsmithError
from warpsmith.generator.gate import IllegalConfig
from warpsmith.generator.program import Program
from warpsmith.generator.registry import simplest_family
from warpsmith.store.record import (
    Baseline,
    Failure,
    FailureKind,
    LeftOut,
    Measurement,
    Provenance,
    Record,
    Timing,
    Trial,
)
from warpsmith.tuner.evaluate.bench import Bench
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import InTurns
from warpsmith.tuner.faults import Faults, Part
from warpsmith.tuner.finals.finalists import Finalist, finalists, untried_finalists

SIMPLEST_KERNEL = "simplest kernel"
"""How the baseline is labelled that is the default config of `registry.SIMPLEST`."""
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
    """The winner of the families that were searched."""
    finalists: tuple[Trial, ...]
    """With the times that they had in turns with each other, the winner first, then the fastest first."""
    before: Trial | None = None
    """The fastest of the answers that a look-up gave before, with its time in those turns; None where none is right.
    The winner is never slower than it."""
    overall: Record | None = None
    """The rival of another family that the winner did not beat; None where it won."""
    runners_up: tuple[Record, ...] = ()
    """The fastest of each family but that of the overall winner: with its time in those turns where it was among the
    finalists, else with that of the search."""


class TuningFailed(WarpsmithError):
    """No candidate was both right and timed."""


def fastest_first(trials: Iterable[Trial]) -> list[Trial]:
    """The right ones of `trials`, fastest first; equal times in the order of their configs."""
    measured = [trial for trial in trials if isinstance(trial.outcome, Measurement)]
    return sorted(measured, key=lambda trial: (trial.median_ns or 0.0, trial.family, trial.config.key()))


def was_dropped(trial: Trial) -> bool:
    """Whether it was not run, since it could not have won the search."""
    return isinstance(trial.outcome, Failure) and trial.outcome.kind is FailureKind.DROPPED


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
    rivals: Sequence[Program] = (),
    *,
    each_family: bool = True,
    faults: Faults | None = None,
) -> Choice:
    """The winner of `trials`, with what was measured beside it.

    Those within NEAR of the fastest, and the first FINALISTS unless they are far behind it, are verified on the fresh
    data of `finals`, then timed in turns with each other and with the libraries installed there. What a look-up answers
    without this search is among them however fast it was, and stays where nothing is faster by KEPT. Of others that
    tie, the first in a fixed order wins, so that two runs name the same one. What spills registers wins by SPILLED
    only.

    Args:
        evaluator: compiles the finalists.
        finals: evaluates them, on data that the search has not seen.
        trials: what the search tried.
        keep: told of every finalist that fails there, and of what was not tried before, so that it is stored.
        answers: what a look-up gave before the search, and what it gives by now, where other tuners found more.
        rivals: of other families, what holds the place that the winner wants; they keep it as answers do.
        each_family: whether the fastest of every family is timed in the same turns.
        faults: takes the other libraries' failure.

    Raises TuningFailed where no trial is right, or none stays right on fresh data, with the reasons by family.
    """
    ranked = fastest_first(trials)
    own = _own_finalists(evaluator, finals, trials, ranked, keep, answers, each_family=each_family)
    met = [*own, *untried_finalists(evaluator, finals, dict.fromkeys(rivals), keep, are_rivals=True)]
    beside = _in_turns(finals, met, Faults() if faults is None else faults)
    ours = [each.timed(timing) for each, timing in zip(met, beside.ours, strict=True)]
    winner, overall = (_winner(evaluator, [*zip(those, ours, strict=False)]) for those in (own, met))
    result = _Result(evaluator, _provenance(finals), beside, ranked)
    answered = fastest_first(trial for each, trial in zip(met, ours, strict=True) if each.is_answer)
    return Choice(
        record=result.record(winner),
        finalists=(winner, *(each for each in fastest_first(ours) if each is not winner)),
        before=answered[0] if answered else None,
        overall=None if overall is winner else result.record(overall),
        runners_up=result.runners_up(winner, overall, ours),
    )


def _own_finalists(
    evaluator: Evaluator,
    finals: Bench,
    trials: list[Trial],
    ranked: list[Trial],
    keep: Callable[[Trial], None],
    answers: Sequence[Program],
    *,
    each_family: bool,
) -> list[Finalist]:
    """The finalists of the families that were searched. Raises TuningFailed where none is right."""
    failed: list[Trial] = []

    def keep_all(trial: Trial) -> None:
        failed.append(trial)
        keep(trial)

    known = {(each.family, each.config) for each in answers}
    own = [
        *finalists(evaluator, finals, ranked, keep_all, known, each_family=each_family),
        *untried_finalists(evaluator, finals, _untried(answers, trials), keep_all),
    ]
    if not own:
        raise TuningFailed(_why_none(evaluator, trials, failed))
    return own


def _untried(answers: Iterable[Program], trials: Iterable[Trial]) -> list[Program]:
    """Each once; what was dropped was not tried."""
    tried = {(trial.family, trial.config) for trial in trials if not was_dropped(trial)}
    return [each for each in dict.fromkeys(answers) if (each.family, each.config) not in tried]


@dataclasses.dataclass(frozen=True, slots=True)
class _Result:
    """What was measured, as records of one run."""

    evaluator: Evaluator
    provenance: Provenance
    beside: InTurns
    ranked: list[Trial]
    """What the search tried and found right, fastest first."""

    def record(self, trial: Trial) -> Record:
        """A winner with everything that was measured beside it."""
        baselines = (*self.beside.baselines, *_simplest(self.evaluator, self.ranked, trial))
        return self._record(trial, baselines, self.beside.left_out)

    def runners_up(self, winner: Trial, overall: Trial, in_turns: list[Trial]) -> tuple[Record, ...]:
        """The fastest of each family but that of `overall`, in the order of the families' names; `winner`, where it is
        not that, with what was measured beside it.
        """
        found: dict[str, Trial] = {overall.family: overall, winner.family: winner}
        for trial in (*sorted(in_turns, key=_counted_ns), *self.ranked):
            found.setdefault(trial.family, trial)
        return tuple(
            self.record(trial) if trial is winner else self._record(trial, (), ())
            for family, trial in sorted(found.items())
            if family != overall.family
        )

    def _record(self, trial: Trial, baselines: tuple[Baseline, ...], left_out: tuple[LeftOut, ...]) -> Record:
        evaluator = self.evaluator
        return Record(evaluator.problem, evaluator.device, trial, baselines, self.provenance, left_out)


def _provenance(finals: Bench) -> Provenance:
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Provenance(created, importlib.metadata.version("warpsmith"), finals.opened.environment)


def _in_turns(finals: Bench, met: Sequence[Finalist], faults: Faults) -> InTurns:
    """Their times and those of the other libraries, in turns. Where that fails, it is said, and they take turns alone;
    where that fails too, their own times.
    """
    contenders = tuple(finalist.contender for finalist in met)
    beside = finals.side_by_side(contenders)
    if isinstance(beside, Failure):
        warnings.warn(f"the other libraries could not be timed: {beside.message}", stacklevel=3)
        faults.add(Part.PEER, "libraries beside the winner", beside)
        beside = finals.side_by_side(contenders, peers=False)
    if isinstance(beside, Failure):
        return InTurns(tuple(each.measurement.timing for each in contenders), ())
    return beside


def _winner(evaluator: Evaluator, met: Sequence[tuple[Finalist, Trial]]) -> Trial:
    """Of those that tie with the fastest, an answer or a rival, else the first in the order of families and configs.

    Of answers and rivals only the fastest may win, of others those that are KEPT faster.
    """
    families = list(evaluator.families)
    is_known = [finalist.is_answer or finalist.is_rival for finalist, _ in met]
    known_ns = min(
        (trial.median_ns or 0.0 for (_, trial), its in zip(met, is_known, strict=True) if its), default=math.inf
    )
    able = [
        (trial, its)
        for (_, trial), its in zip(met, is_known, strict=True)
        if (trial.median_ns or 0.0) * (1 if its else 1 + KEPT) <= known_ns
    ]
    equal = [able[place] for place in tied([_counted(trial) for trial, _ in able], CLOSE, 1.0)]

    def order(each: tuple[Trial, bool]) -> tuple[bool, int, str]:
        trial, its = each
        place = families.index(trial.family) if trial.family in families else len(families)
        return not its, place, trial.config.key()

    return min(equal, key=order)[0]


def _counted(trial: Trial) -> Timing:
    """A time as it counts: of a kernel that spills registers, SPILLED times as long as it is."""
    assert isinstance(trial.outcome, Measurement)
    timing, factor = trial.outcome.timing, SPILLED if trial.outcome.spill_bytes else 1.0
    return dataclasses.replace(
        timing, median_ns=timing.median_ns * factor, p20_ns=timing.p20_ns * factor, p80_ns=timing.p80_ns * factor
    )


def _counted_ns(trial: Trial) -> float:
    return _counted(trial).median_ns


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


def _simplest(evaluator: Evaluator, ranked: list[Trial], winner: Trial) -> tuple[Baseline, ...]:
    """The trial of the operation's simplest kernel, where it is right and another one won."""
    family = simplest_family(evaluator.problem.operation)
    if family is None or family.name not in evaluator.families:
        return ()
    try:
        config = evaluator.gate.default(family)
    except IllegalConfig:  # it has no such kernel here; the search has said why
        return ()
    for trial in ranked:
        is_simplest = (trial.family, trial.config) == (family.name, config) != (winner.family, winner.config)
        if is_simplest and isinstance(trial.outcome, Measurement):
            return (Baseline(f"{family.name} ({SIMPLEST_KERNEL})", trial.outcome.timing),)
    return ()


def _why_none(evaluator: Evaluator, trials: list[Trial], failed: list[Trial]) -> str:
    """Why there is no winner, by family: what failed in the finals, or else in the search."""
    problem = evaluator.problem.key()
    if failed:
        return f"no candidate of {problem} passed the second verification, on fresh data: {_by_family(failed)}"
    failures = [trial for trial in trials if isinstance(trial.outcome, Failure)]
    if not failures:
        return f"no candidate of {problem} was tried; give it more trials or time"
    return f"none of {len(failures)} candidates of {problem} is correct: {_by_family(failures)}"


def _by_family(failed: list[Trial]) -> str:
    """`FAMILY: 2 wrong, 1 compile; the first: MESSAGE`, for each family."""
    by_family: dict[str, list[Failure]] = {}
    for trial in failed:
        if isinstance(trial.outcome, Failure):
            by_family.setdefault(trial.family, []).append(trial.outcome)
    told = []
    for family, failures in by_family.items():
        kinds = collections.Counter(str(each.kind) for each in failures)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        told.append(f"{family}: {counts}; the first: {failures[0].message}")
    return " | ".join(told)
