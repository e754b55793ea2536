"""Choice of the winner: the fastest trials are verified and timed again on fresh data, beside the other libraries."""

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
from warpsmith.generator.registry import may_win, simplest_family
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
"""Label of the baseline that runs the default config of `registry.SIMPLEST`."""
KEPT = 0.005
"""Relative margin by which a candidate must beat the program that a look-up already returns. A 5x5 filter on 9216x9216
bytes was 0.4% faster in the finals of its search and 0.6% slower in the next process (H200).
"""
SPILLED = 1.15
"""Factor on the time of a kernel that spills registers, when the winner is chosen. Such a 15x15 filter on 2000x3000
took 53.5 us in the finals of its search and 59.8 us in the next process (H200), where its local memory lay elsewhere.
"""
TIE = 0.003
"""Relative difference below which two runs are said to agree. On an H200 the medians of one kernel in seven processes
lay within 0.4%. Two kernels keep their ratio better than that, since what slows one slows both.
"""
CLOSE = 0.001
"""Relative difference below which the run that chooses treats two times as equal. With TIE instead, a small error of
one run would now and then count a slower config as equal: three of ten runs then named a config 0.56% slower.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class WinnerChoice:
    """Result of the finals."""

    record: Record
    """Winner among the families that were searched."""
    finalists: tuple[Trial, ...]
    """Trials with their times taken in turns: the winner first, then the others, fastest first."""
    before: Trial | None = None
    """Fastest program that a look-up returned before, with its time taken in turns; None if none is right. The winner
    is never slower.
    """
    overall: Record | None = None
    """Rival of another family that the winner did not beat; None if the winner won."""
    runners_up: tuple[Record, ...] = ()
    """Fastest trial of each family except the overall winner's. A finalist has its time taken in turns, others their
    search time.
    """


class TuningFailed(WarpsmithError):
    """No candidate was both right and timed."""


def fastest_first(trials: Iterable[Trial]) -> list[Trial]:
    """The trials that have a time, fastest first; equal times are ordered by family and config."""
    measured = [trial for trial in trials if isinstance(trial.outcome, Measurement)]
    return sorted(measured, key=lambda trial: (trial.median_ns or 0.0, trial.family, trial.config.key()))


def was_dropped(trial: Trial) -> bool:
    """True if the search skipped this trial because it could not have won."""
    return isinstance(trial.outcome, Failure) and trial.outcome.kind is FailureKind.DROPPED


def failures_by_kind(trials: Iterable[Trial]) -> dict[FailureKind, int]:
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
) -> WinnerChoice:
    """Chooses the winner of `trials` and returns it with everything that was measured beside it.

    Candidates within NEAR of the fastest, and the first FINALISTS unless they are far slower, are verified on the fresh
    data of `finals`. They are then timed in turns with each other and with the installed libraries. A program that a
    look-up already returns always takes part, and it stays unless another one is faster by KEPT. Among the others, ties
    are broken by a fixed order, so that two runs name the same winner. A kernel that spills registers must win by
    SPILLED.

    Args:
        evaluator: compiles the finalists.
        finals: evaluates them, on data that the search has not seen.
        trials: the trials of the search.
        keep: called with every finalist that fails and every program not tried before, so that it is stored.
        answers: programs that a look-up returned before the search, and those it returns by now, after other tuners'
            work.
        rivals: programs of other families that hold the place that the winner wants; they keep it as answers do.
        each_family: time the fastest trial of every family in the same turns.
        faults: collects the failure of the other libraries.

    Raises:
        TuningFailed: no trial is right, or none stays right on fresh data; the message has the reasons by family.
    """
    ranked = fastest_first(trials)
    own = _own_finalists(evaluator, finals, trials, ranked, keep, answers, each_family=each_family)
    met = [*own, *untried_finalists(evaluator, finals, dict.fromkeys(rivals), keep, are_rivals=True)]
    beside = _in_turns(finals, met, Faults() if faults is None else faults)
    ours = [each.timed(timing) for each, timing in zip(met, beside.ours, strict=True)]
    winner, overall = (_winner(evaluator, [*zip(those, ours, strict=False)]) for those in (own, met))
    result = _Result(evaluator, _provenance(finals), beside, ranked)
    answered = fastest_first(trial for each, trial in zip(met, ours, strict=True) if each.is_answer)
    return WinnerChoice(
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
    """Finalists of the families that were searched. Raises TuningFailed if none is right."""
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
    """The answers that were not tried, each once. A dropped trial counts as not tried."""
    tried = {(trial.family, trial.config) for trial in trials if not was_dropped(trial)}
    return [each for each in dict.fromkeys(answers) if (each.family, each.config) not in tried]


@dataclasses.dataclass(frozen=True, slots=True)
class _Result:
    """Builds the records of one run from its measurements."""

    evaluator: Evaluator
    provenance: Provenance
    beside: InTurns
    ranked: list[Trial]
    """Trials of the search that are right, fastest first."""

    def record(self, trial: Trial) -> Record:
        """Record of a winner, with everything that was measured beside it."""
        baselines = (*self.beside.baselines, *_simplest(self.evaluator, self.ranked, trial))
        return self._record(trial, baselines, self.beside.left_out)

    def runners_up(self, winner: Trial, overall: Trial, in_turns: list[Trial]) -> tuple[Record, ...]:
        """Record of the fastest trial of each family except that of `overall`, ordered by family name. If `winner` is
        not the overall winner, its record carries the baselines.
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
        device = dataclasses.replace(evaluator.device, ceilings=None)  # as a store gives the record back
        return Record(evaluator.problem, device, trial, baselines, self.provenance, left_out)


def _provenance(finals: Bench) -> Provenance:
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Provenance(created, importlib.metadata.version("warpsmith"), finals.opened.environment)


def _in_turns(finals: Bench, met: Sequence[Finalist], faults: Faults) -> InTurns:
    """Times the finalists in turns with the other libraries.

    If that fails, it warns and times the finalists in turns alone. If that fails too, it returns their times from
    verification.
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
    """Chooses among the trials that tie with the fastest: an answer or a rival first, else by order of family and
    config.

    Among answers and rivals only the fastest may win; others must be faster than it by KEPT. A family that may not win
    is chosen only if there is no other.
    """
    met = [each for each in met if may_win(each[1].family)] or met
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
    """The trial's timing, multiplied by SPILLED if the kernel spills registers."""
    assert isinstance(trial.outcome, Measurement)
    timing, factor = trial.outcome.timing, SPILLED if trial.outcome.spill_bytes else 1.0
    return dataclasses.replace(
        timing, median_ns=timing.median_ns * factor, p20_ns=timing.p20_ns * factor, p80_ns=timing.p80_ns * factor
    )


def _counted_ns(trial: Trial) -> float:
    return _counted(trial).median_ns


def tied(timings: Sequence[Timing], band: float = TIE, errors: float = 2.0) -> list[int]:
    """Indices of the timings, taken in turns, that cannot be distinguished from the shortest one.

    A timing ties if it lies within the relative `band` of the shortest, or within `errors` standard errors of their
    difference.
    """
    fastest = min(timings, key=lambda timing: timing.median_ns)

    def band_ns(timing: Timing) -> float:
        unknown_ns = errors * math.hypot(_standard_error_ns(timing), _standard_error_ns(fastest))
        return max(band * fastest.median_ns, unknown_ns)

    return [i for i, timing in enumerate(timings) if timing.median_ns <= fastest.median_ns + band_ns(timing)]


def _standard_error_ns(timing: Timing) -> float:
    """Nanoseconds of standard error of the median, for normal samples: 1.253 sigma / sqrt(samples)."""
    sigma_ns = (timing.p80_ns - timing.p20_ns) / 1.683
    return 1.253 * sigma_ns / math.sqrt(timing.samples)


def _simplest(evaluator: Evaluator, ranked: list[Trial], winner: Trial) -> tuple[Baseline, ...]:
    """Baseline of the operation's simplest kernel, if its trial is right and it is not the winner."""
    family = simplest_family(evaluator.problem.operation)
    if family is None or family.name not in evaluator.families:
        return ()
    try:
        config = evaluator.gate.default(family)
    except IllegalConfig:  # the family has no such kernel here; the search has reported why
        return ()
    for trial in ranked:
        is_simplest = (trial.family, trial.config) == (family.name, config) != (winner.family, winner.config)
        if is_simplest and isinstance(trial.outcome, Measurement):
            return (Baseline(f"{family.name} ({SIMPLEST_KERNEL})", trial.outcome.timing),)
    return ()


def _why_none(evaluator: Evaluator, trials: list[Trial], failed: list[Trial]) -> str:
    """Reasons why there is no winner, by family: failures in the finals, or else those in the search."""
    problem = evaluator.problem.key()
    if failed:
        return f"no candidate of {problem} passed the second verification, on fresh data: {_by_family(failed)}"
    failures = [trial for trial in trials if isinstance(trial.outcome, Failure)]
    if not failures:
        return f"no candidate of {problem} was tried; give it more trials or time"
    return f"none of {len(failures)} candidates of {problem} is correct: {_by_family(failures)}"


def _by_family(failed: list[Trial]) -> str:
    """Text `FAMILY: 2 wrong, 1 compile; the first: MESSAGE` for each family."""
    by_family: dict[str, list[Failure]] = {}
    for trial in failed:
        if isinstance(trial.outcome, Failure):
            by_family.setdefault(trial.family, []).append(trial.outcome)
    lines = []
    for family, failures in by_family.items():
        kinds = collections.Counter(str(each.kind) for each in failures)
        counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        lines.append(f"{family}: {counts}; the first: {failures[0].message}")
    return " | ".join(lines)
