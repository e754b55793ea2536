"""A stored winner once more, as after an update of the driver: verified, timed as it was, and set beside its time."""

from __future__ import annotations

import dataclasses
import datetime

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.program import Program
from warpsmith.generator.registry import FAMILIES
from warpsmith.plans.lookup import regenerate
from warpsmith.store.checked import Checked, Verdict
from warpsmith.store.record import COPY, Baseline, Failure, FailureKind, Measurement, Record, Timing
from warpsmith.tuner.choose import tied
from warpsmith.tuner.deadlines import Deadlines
from warpsmith.tuner.timing_policy import Launching, TimingPolicy
from warpsmith.tuner.workshop import Workshop

APART = 0.005
"""Times of two runs closer than this are one: on an H200 medians of one kernel in seven processes lay within 0.4%.
`choose.TIE` is narrower, for times that are taken in turns.
"""
THROTTLED = ", throttled"
"""How the conditions of a time end that was taken while power or temperature held the clocks down."""

NOT_ITS_FAULT = frozenset({FailureKind.OUT_OF_MEMORY})
"""Failures that say more of who else uses the device than of the program."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rechecked:
    """What came of a second look at a winner."""

    record: Record
    """As it was stored."""
    checked: Checked
    timing: Timing | None
    """Now, under the conditions of the stored one; None where there is none."""
    reason: str | None = None
    """Why it is wrong or unchecked; None where it was timed."""
    copies: tuple[float, float] | None = None
    """How long the device's own copy took then and now, in ns: where it moved alike, the machine has changed."""


def recheck(record: Record, device: DeviceRef, seed: int) -> Rechecked:
    """Verifies a stored winner on fresh data and times it under the conditions of its stored time.

    It has moved where the two times lie further apart than APART, and than their spread leaves unknown.

    Args:
        record: the winner.
        device: where it was tuned, or one of the same key.
        seed: of the data.

    Raises:
        CompileError, DeviceError: as their names say.
    """
    program = regenerate(record)
    if program is None:
        return _without_time(record, Verdict.UNCHECKED, "this version generates another text; tune it again", {})
    then = _timing(record)
    with Workshop.open(
        record.problem,
        device,
        FAMILIES,
        CompilerChoice.AUTO,
        seed,
        Deadlines(),
        sanitize=False,
        policy=_policy(device.kind, then),
        finals=True,
    ) as workshop:
        times = _times(workshop, program)
        environment = workshop.bench.opened.environment
    if isinstance(times, Failure):
        verdict = Verdict.UNCHECKED if times.kind in NOT_ITS_FAULT else Verdict.WRONG
        return _without_time(record, verdict, f"{times.kind}: {times.message}", environment)
    now = next((timing for timing in times.ours if _comparable(then, timing)), None)
    if now is None:
        told = f"it was timed as {then.conditions!r}, which is {times.ours[0].conditions!r} now"
        return _without_time(record, Verdict.UNCHECKED, told, environment)
    return Rechecked(record, _checked(_verdict(then, now), now, environment), now, None, _copies(record, times.copy))


@dataclasses.dataclass(frozen=True, slots=True)
class _Times:
    ours: tuple[Timing, ...]
    """In turns with the baselines, and alone."""
    copy: Timing | None


def _times(workshop: Workshop, program: Program) -> _Times | Failure:
    contender = workshop.verified(program, workshop.bench)
    if isinstance(contender, Failure):
        return contender
    alone = contender.measurement.timing
    beside = workshop.bench.side_by_side((contender,))
    if isinstance(beside, Failure):  # right, but nothing can be set beside it
        return _Times((alone,), None)
    return _Times((*beside.ours, alone), _copy(beside.baselines))


def _timing(record: Record) -> Timing:
    if not isinstance(record.trial.outcome, Measurement):
        raise TypeError("a winner has a measurement")
    return record.trial.outcome.timing


def _policy(kind: DeviceKind, then: Timing) -> TimingPolicy:
    """The policy that the stored time was taken under."""
    if kind is DeviceKind.HOST:
        return TimingPolicy.for_kind(kind)
    graph = then.conditions.startswith("CUDA graph")
    launching = Launching.GRAPH if graph else Launching.EAGER
    return TimingPolicy.for_kind(kind, cold="cold L2" in then.conditions, launching=launching)


def _comparable(then: Timing, now: Timing) -> bool:
    """Whether both were taken under one set of conditions; a time that throttling makes long says nothing."""
    return now.conditions == then.conditions.removesuffix(THROTTLED)


def _verdict(then: Timing, now: Timing) -> Verdict:
    near = abs(now.median_ns - then.median_ns) <= APART * min(now.median_ns, then.median_ns)
    if near or len(tied((then, now))) == 2:
        return Verdict.SAME
    return Verdict.FASTER if now.median_ns < then.median_ns else Verdict.SLOWER


def _copy(baselines: tuple[Baseline, ...]) -> Timing | None:
    return next((baseline.timing for baseline in baselines if baseline.name == COPY), None)


def _copies(record: Record, now: Timing | None) -> tuple[float, float] | None:
    then = _copy(record.baselines)
    return None if then is None or now is None else (then.median_ns, now.median_ns)


def _checked(verdict: Verdict, timing: Timing | None, environment: dict[str, str]) -> Checked:
    at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Checked(at, verdict, None if timing is None else timing.median_ns, environment.get("driver"))


def _without_time(record: Record, verdict: Verdict, reason: str, environment: dict[str, str]) -> Rechecked:
    return Rechecked(record, _checked(verdict, None, environment), None, reason)
