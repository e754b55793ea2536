"""Repeated check of a stored winner, for example after a driver update: verified, timed as before, compared with its
time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import importlib.metadata
from collections.abc import Callable, Iterator

from warpsmith.devices.select import CompilerChoice, DeviceRef
from warpsmith.errors import OutOfMemory, WarpsmithError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.gate import IllegalConfig
from warpsmith.generator.program import Program
from warpsmith.generator.registry import simplest_family
from warpsmith.plans.lookup import program_of, regenerate
from warpsmith.store.conditions import THROTTLED
from warpsmith.store.record import COPY, Baseline, Checked, Failure, FailureKind, Provenance, Record, Timing, Verdict
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.evaluate.timing_policy import Launching, TimingPolicy
from warpsmith.tuner.finals.choose import SIMPLEST_KERNEL, tied
from warpsmith.tuner.workers.deadlines import Deadlines

APART = 0.005
"""Relative difference below which times of two runs are equal: on an H200 the medians of one kernel in seven processes
lay within 0.4%. `choose.TIE` is narrower, for times that are taken in turns.
"""
NOT_ITS_FAULT = frozenset({FailureKind.OUT_OF_MEMORY})
"""Failure kinds that other users of the device may have caused, rather than the program."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rechecked:
    """Result of checking a stored winner again."""

    record: Record
    """The record as it was stored."""
    checked: Checked
    timing: Timing | None
    """Timing taken now, under the conditions of the stored one; None if there is none."""
    reason: str | None = None
    """Reason why the program is wrong or unchecked; None if it was timed."""
    copies: tuple[float, float] | None = None
    """Nanoseconds of the device's own copy, then and now. If these moved alike, the machine has changed."""


def recheck(record: Record, device: DeviceRef, seed: int) -> Rechecked:
    """Verifies a stored winner on fresh data and times it under the conditions of its stored time.

    The winner counts as faster or slower if the two times differ by more than APART and by more than their spread
    explains.

    Args:
        record: the winner.
        device: device it was tuned on, or one with the same key.
        seed: seed of the data.

    Raises:
        CompileError: there is no compiler.
        DeviceError: the device failed.
    """
    program = regenerate(record)
    if program is None:
        return _without_time(record, Verdict.UNCHECKED, "this version generates another text; tune it again", {})
    then = record.timing
    try:
        with _reopened(record, device, seed) as evaluator:
            times = _times(evaluator, program)
            environment = evaluator.bench.opened.environment
    except OutOfMemory as error:  # of the buffers or the reference, before the program ran
        return _without_time(record, Verdict.UNCHECKED, f"{FailureKind.OUT_OF_MEMORY}: {error}", {})
    if isinstance(times, Failure):
        verdict = Verdict.UNCHECKED if times.kind in NOT_ITS_FAULT else Verdict.WRONG
        return _without_time(record, verdict, f"{times.kind}: {times.message}", environment)
    now = next((timing for timing in times.ours if _comparable(then, timing)), None)
    if now is None:
        reason = f"it was timed as {then.conditions!r}, which is {times.ours[0].conditions!r} now"
        return _without_time(record, Verdict.UNCHECKED, reason, environment)
    return Rechecked(record, _checked(_verdict(then, now), now, environment), now, None, _copies(record, times.copy))


class CannotMeasure(WarpsmithError):
    """No new record of the stored winner can be measured here."""


def must_be_measured(record: Record) -> bool:
    """True if a library was timed under other conditions than the winner and no note explains why."""
    return any(each.is_library and not each.is_fair and each.baseline.note is None for each in record.verdicts)


def measured_again(record: Record, device: DeviceRef, seed: int) -> Record:
    """Measures a stored winner as its finals would now: verified on fresh data and timed in turns with its baselines,
    under the conditions of its stored time.

    Args:
        record: the winner.
        device: device it was tuned on, or one with the same key.
        seed: seed of the data.

    Raises:
        CannotMeasure: this version generates another source, the program is not right, or it cannot be timed.
        CompileError: there is no compiler.
        DeviceError: the device failed.
    """
    with ready_again(record, device, seed) as measure:
        return measure()


@contextlib.contextmanager
def ready_again(
    record: Record, device: DeviceRef, seed: int, *, renewed: bool = False
) -> Iterator[Callable[[], Record]]:
    """Splits `measured_again` into two steps, for several records at a time.

    Entering loads the program, lays out the data and verifies the program. The yielded function then measures, while
    the other records leave the device alone. Either step raises what `measured_again` raises.

    With `renewed` the program is generated from the record's config by this version, whatever its source was. If the
    config is no longer legal, CannotMeasure is raised.
    """
    program = program_of(record, record.problem, record.device) if renewed else regenerate(record)
    if program is None:
        reason = "its config is not legal in this version" if renewed else "this version generates another text"
        raise CannotMeasure(f"{reason}; tune it again")
    with _reopened(record, device, seed) as evaluator:
        winner = evaluator.verified(program, evaluator.bench)
        if isinstance(winner, Failure):
            raise CannotMeasure(f"{winner.kind}: {winner.message}")
        simplest = _simplest_beside(evaluator, program)
        evaluator.bench.prepare_peers()
        yield lambda: _measured(record, evaluator, winner, simplest)


def _measured(record: Record, evaluator: Evaluator, winner: Contender, simplest: dict[str, Contender]) -> Record:
    beside = evaluator.bench.side_by_side((winner, *simplest.values()))
    if isinstance(beside, Failure):
        raise CannotMeasure(f"{beside.kind}: {beside.message}")
    ours, *others = beside.ours
    trial = dataclasses.replace(record.trial, outcome=dataclasses.replace(winner.measurement, timing=ours))
    if not winner.program.has_fingerprint(trial.fingerprint):  # another source generated from the same config
        identity = evaluator.identity_of(winner.program)
        trial = dataclasses.replace(trial, fingerprint=winner.program.fingerprint, compiler=identity)
    return dataclasses.replace(
        record,
        trial=trial,
        baselines=(*beside.baselines, *map(Baseline, simplest, others)),
        provenance=Provenance(_now(), importlib.metadata.version("warpsmith"), evaluator.bench.opened.environment),
        left_out=beside.left_out,
    )


def _simplest_beside(evaluator: Evaluator, winner: Program) -> dict[str, Contender]:
    """The operation's simplest kernel under its label, if it is right and is not the winner itself."""
    family = simplest_family(evaluator.problem.operation)
    if family is None or family.name not in evaluator.families:
        return {}
    try:
        program = evaluator.program(family.name, evaluator.gate.default(family))
    except IllegalConfig:  # the family has no such kernel here
        return {}
    contender = None if program == winner else evaluator.verified(program, evaluator.bench)
    return {f"{family.name} ({SIMPLEST_KERNEL})": contender} if isinstance(contender, Contender) else {}


@dataclasses.dataclass(frozen=True, slots=True)
class _Times:
    ours: tuple[Timing, ...]
    """The program's timing in turns with the baselines, if that succeeded, and its timing alone."""
    copy: Timing | None


def _times(evaluator: Evaluator, program: Program) -> _Times | Failure:
    contender = evaluator.verified(program, evaluator.bench)
    if isinstance(contender, Failure):
        return contender
    alone = contender.measurement.timing
    beside = evaluator.bench.side_by_side((contender,))
    if isinstance(beside, Failure):  # right, but the timing in turns failed
        return _Times((alone,), None)
    return _Times((*beside.ours, alone), _copy(beside.baselines))


def _reopened(record: Record, device: DeviceRef, seed: int) -> contextlib.AbstractContextManager[Evaluator]:
    """Opens an evaluator with the data of the finals and the conditions of the record's stored time."""
    policy = _policy(device.kind, record.timing)
    return Evaluator.open(
        record.problem,
        device,
        None,
        CompilerChoice.AUTO,
        seed,
        Deadlines(),
        sanitize=False,
        policy=policy,
        finals=True,
    )


def _policy(kind: DeviceKind, then: Timing) -> TimingPolicy:
    """Timing policy that the stored time was taken under."""
    if kind is DeviceKind.HOST:
        return TimingPolicy.for_kind(kind)
    graph = then.conditions.startswith("CUDA graph")
    launching = Launching.GRAPH if graph else Launching.EAGER
    return TimingPolicy.for_kind(kind, cold="cold L2" in then.conditions, launching=launching)


def _comparable(then: Timing, now: Timing) -> bool:
    """True if both times have the same conditions; the stored time may carry the throttled mark."""
    return now.conditions == then.conditions.removesuffix(f", {THROTTLED}")


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
    return Checked(_now(), verdict, None if timing is None else timing.median_ns, environment.get("driver"))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _without_time(record: Record, verdict: Verdict, reason: str, environment: dict[str, str]) -> Rechecked:
    return Rechecked(record, _checked(verdict, None, environment), None, reason)
