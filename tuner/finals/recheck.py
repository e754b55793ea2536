"""A stored winner once more, as after an update of the driver: verified, timed as it was, and set beside its time."""

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
from warpsmith.store.checked import Checked, Verdict
from warpsmith.store.conditions import THROTTLED
from warpsmith.store.record import COPY, Baseline, Failure, FailureKind, Provenance, Record, Timing
from warpsmith.tuner.evaluate.evaluator import Evaluator
from warpsmith.tuner.evaluate.outcomes import Contender
from warpsmith.tuner.evaluate.timing_policy import Launching, TimingPolicy
from warpsmith.tuner.finals.choose import SIMPLEST_KERNEL, tied
from warpsmith.tuner.workers.deadlines import Deadlines

APART = 0.005
"""Times of two runs closer than this are one: on an H200 medians of one kernel in seven processes lay within 0.4%.
`choose.TIE` is narrower, for times that are taken in turns.
"""
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
    then = record.timing
    try:
        with _reopened(record, device, seed) as evaluator:
            times = _times(evaluator, program)
            environment = evaluator.bench.opened.environment
    except OutOfMemory as error:  # of the buffers or the reference, before anything ran
        return _without_time(record, Verdict.UNCHECKED, f"{FailureKind.OUT_OF_MEMORY}: {error}", {})
    if isinstance(times, Failure):
        verdict = Verdict.UNCHECKED if times.kind in NOT_ITS_FAULT else Verdict.WRONG
        return _without_time(record, verdict, f"{times.kind}: {times.message}", environment)
    now = next((timing for timing in times.ours if _comparable(then, timing)), None)
    if now is None:
        told = f"it was timed as {then.conditions!r}, which is {times.ours[0].conditions!r} now"
        return _without_time(record, Verdict.UNCHECKED, told, environment)
    return Rechecked(record, _checked(_verdict(then, now), now, environment), now, None, _copies(record, times.copy))


class CannotMeasure(WarpsmithError):
    """A stored winner of which no new record can be made here."""


def must_be_measured(record: Record) -> bool:
    """Whether another library was timed under other conditions than the winner, and nobody has seen that it must be."""
    return any(each.is_library and not each.is_fair and each.baseline.note is None for each in record.verdicts)


def measured_again(record: Record, device: DeviceRef, seed: int) -> Record:
    """A stored winner as its finals would store it now: verified on fresh data, timed in turns with all that stands
    beside it, under the conditions of its stored time.

    Args:
        record: the winner.
        device: where it was tuned, or one of the same key.
        seed: of the data.

    Raises:
        CannotMeasure: this version generates another text, it is not right, or nothing can be timed beside it.
        CompileError, DeviceError: as their names say.
    """
    with ready_again(record, device, seed) as measure:
        return measure()


@contextlib.contextmanager
def ready_again(
    record: Record, device: DeviceRef, seed: int, *, renewed: bool = False
) -> Iterator[Callable[[], Record]]:
    """The same in two steps, for several records at a time: all is loaded, laid out and verified, and what it gives
    then measures, while the others leave the device alone. Either step raises what `measured_again` does.

    With `renewed` the program is that of the record's config in this version, whatever its text was; where the config
    is no longer legal, CannotMeasure is raised.
    """
    program = program_of(record, record.problem, record.device) if renewed else regenerate(record)
    if program is None:
        told = "its config is not legal in this version" if renewed else "this version generates another text"
        raise CannotMeasure(f"{told}; tune it again")
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
    if not winner.program.has_fingerprint(trial.fingerprint):  # another text of the same config
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
    """The operation's simplest kernel under its label, where it is right and another one than the winner."""
    family = simplest_family(evaluator.problem.operation)
    if family is None or family.name not in evaluator.families:
        return {}
    try:
        program = evaluator.program(family.name, evaluator.gate.default(family))
    except IllegalConfig:  # it has no such kernel here
        return {}
    contender = None if program == winner else evaluator.verified(program, evaluator.bench)
    return {f"{family.name} ({SIMPLEST_KERNEL})": contender} if isinstance(contender, Contender) else {}


@dataclasses.dataclass(frozen=True, slots=True)
class _Times:
    ours: tuple[Timing, ...]
    """In turns with the baselines, and alone."""
    copy: Timing | None


def _times(evaluator: Evaluator, program: Program) -> _Times | Failure:
    contender = evaluator.verified(program, evaluator.bench)
    if isinstance(contender, Failure):
        return contender
    alone = contender.measurement.timing
    beside = evaluator.bench.side_by_side((contender,))
    if isinstance(beside, Failure):  # right, but nothing can be set beside it
        return _Times((alone,), None)
    return _Times((*beside.ours, alone), _copy(beside.baselines))


def _reopened(record: Record, device: DeviceRef, seed: int) -> contextlib.AbstractContextManager[Evaluator]:
    """What a record is looked at with again: data of the finals, timed under the conditions of its stored time."""
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
    """The policy that the stored time was taken under."""
    if kind is DeviceKind.HOST:
        return TimingPolicy.for_kind(kind)
    graph = then.conditions.startswith("CUDA graph")
    launching = Launching.GRAPH if graph else Launching.EAGER
    return TimingPolicy.for_kind(kind, cold="cold L2" in then.conditions, launching=launching)


def _comparable(then: Timing, now: Timing) -> bool:
    """Whether both were taken under one set of conditions; a time that throttling makes long says nothing."""
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
