"""Types that a store holds: trials, winners, and measurements beside them. All are frozen, and times are in ns.

The result of timing a winner again is stored among the environment facts of its record. Every version of the schema and
of the interchange form has a place for such facts, so nothing is lost when a version does not know these.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Self

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store.conditions import UNKNOWN, Conditions, conditions_key, flushes_cache, is_throttled

COPY = "copy"
"""Name of the baseline that copies as many bytes on the device as the problem must move."""


class FailureKind(enum.StrEnum):
    """Reason why a candidate has no time."""

    INVALID = "invalid"
    """The config is not a point of its family's space."""
    COMPILE = "compile"
    """The compiler refused it or took too long."""
    LAUNCH = "launch"
    """The device refused to launch it."""
    WRONG = "wrong"
    """Its result differs from the float64 reference by more than the bound, or has elements that it never wrote."""
    OUT_OF_BOUNDS = "out-of-bounds"
    """It wrote outside its result, or a sanitizer caught it reading or writing outside a buffer."""
    UNDEFINED = "undefined-behaviour"
    """A sanitizer caught an operation that C++ leaves undefined, for example an index past a static array."""
    TIMEOUT = "timeout"
    """It did not end before its deadline."""
    CRASH = "crash"
    """Its worker process died, or the device faulted."""
    OUT_OF_MEMORY = "out-of-memory"
    """Its buffers did not fit, or its worker process took more memory than it may."""
    DROPPED = "dropped"
    """It was not run: its operations, its spills or its occupancy show that it cannot be the fastest."""


POISONOUS = frozenset({FailureKind.CRASH, FailureKind.TIMEOUT, FailureKind.OUT_OF_BOUNDS})
"""Failures of a program that ran and may do more harm than fail when it runs again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """Outcome of a candidate that has no time, with the reason."""

    kind: FailureKind
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Times of one launch sequence, in ns."""

    median_ns: float
    p20_ns: float
    p80_ns: float
    samples: int
    policy: str
    """Statistic and conditions, such as `median, 5 runs a sample, queued first, cold L2`."""

    @property
    def conditions(self) -> str:
        """Part of the policy that decides which times may be compared, such as `queued first, cold L2`."""
        return self.policy.split(", ", 2)[-1]


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """Outcome of a verified candidate, with its times."""

    timing: Timing
    max_error: float
    """Largest |result - float64 reference|, divided by the element's error unit (`Problem.error_unit`)."""
    registers: int | None
    spill_bytes: int | None
    shared_bytes: int | None
    clock_mhz: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """A candidate that was tried, and the outcome."""

    family: str
    config: Config
    fingerprint: str
    """`Program.fingerprint` of the source that ran."""
    outcome: Measurement | Failure
    compiler: str
    compile_ms: float | None = None
    gpu: str | None = None
    """GPU that it ran on, such as `cuda:0`, if there are several alike; None if it ran on no GPU, or that is
    unknown.
    """

    @property
    def median_ns(self) -> float | None:
        """Nanoseconds; None for a failure."""
        return self.outcome.timing.median_ns if isinstance(self.outcome, Measurement) else None

    @property
    def conditions(self) -> str | None:
        """`Timing.conditions`, or None for a failure."""
        return self.outcome.timing.conditions if isinstance(self.outcome, Measurement) else None

    def is_under(self, conditions: str) -> bool:
        """True if its time was taken under these conditions, one of `conditions.USUAL_FIRST`; a failure holds under
        any.
        """
        return isinstance(self.outcome, Failure) or conditions_key(self.outcome.timing.policy) == conditions


@dataclasses.dataclass(frozen=True, slots=True)
class Baseline:
    """Another implementation, measured beside the winner in the same run."""

    name: str
    """Library and version, such as `cudnn 9.19 (torch 2.11)`, or COPY, or a kernel family of this package."""
    timing: Timing
    note: str | None = None
    """Reason why it was not timed as the winner was, such as the error of its graph capture."""


@dataclasses.dataclass(frozen=True, slots=True)
class LeftOut:
    """A library that was not measured beside the winner."""

    name: str
    reason: str
    """Not installed, no support for this border or type, wrong results and by how much, or the first line of its
    error.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class BaselineVerdict:
    """Comparison of a baseline with the winner. It is fair only for times under equal conditions."""

    baseline: Baseline
    is_library: bool
    """True for another library: neither the device's copy nor a kernel of this package."""
    conditions: str
    """Conditions of the baseline's time, as text of `Conditions`, or UNKNOWN."""
    speed_up: float | None
    """The baseline's median over the winner's; None if the comparison is not fair."""
    why_not: str | None
    """Reason why the comparison is not fair; None if it is."""

    @property
    def is_fair(self) -> bool:
        """True if the comparison is fair."""
        return self.why_not is None

    def spec(self) -> dict[str, Any]:
        """JSON values, with times in ns."""
        return {
            "name": self.baseline.name,
            "time_ns": self.baseline.timing.median_ns,
            "library": self.is_library,
            "conditions": self.conditions,
            "fair": self.is_fair,
            "speed_up": self.speed_up,
            "why_not": self.why_not,
        }


def verdict_of(ours: Timing, baseline: Baseline, problem: Problem, device: Device) -> BaselineVerdict:
    """Compares `baseline` with a kernel of this package. Both were timed side by side on one device."""
    flushes = flushes_cache(problem.bytes, device.l2_bytes)
    mine, its = (Conditions.of(each.policy, flushes=flushes) for each in (ours, baseline.timing))
    why_not = None
    if mine is None or its is None:
        why_not = "the conditions of its time, or of ours, are not known"
    elif mine != its:
        why_not = f"timed under other conditions ({its}; ours {mine})"
        if baseline.note is not None:
            why_not += f": {baseline.note}"
    elif is_throttled(ours.policy) != is_throttled(baseline.timing.policy):
        why_not = "the clocks were held down for one of the two only"
    return BaselineVerdict(
        baseline=baseline,
        is_library=is_of_library(baseline, problem),
        conditions=str(its or UNKNOWN),
        speed_up=baseline.timing.median_ns / ours.median_ns if why_not is None else None,
        why_not=why_not,
    )


def is_of_library(baseline: Baseline, problem: Problem) -> bool:
    """Whether a baseline is another library, not the device's copy or a kernel of this package."""
    return baseline.name != COPY and not baseline.name.startswith(f"{problem.operation}_")


def fastest_library(verdicts: Iterable[BaselineVerdict]) -> BaselineVerdict | None:
    """The fastest of the other libraries that were timed fairly; None if there is none."""
    fair = [each for each in verdicts if each.is_library and each.is_fair]
    return min(fair, key=lambda each: each.baseline.timing.median_ns, default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of a record: facts that may change without making it wrong."""

    created: str
    """UTC, ISO 8601."""
    warpsmith: str
    environment: dict[str, str]
    """Driver, toolkit, operating system."""


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A stored winner: problem, device, winning trial, and what was timed in the same run."""

    problem: Problem
    device: Device
    trial: Trial
    """The winning trial. Its outcome is a Measurement, taken again on fresh data after the search."""
    baselines: tuple[Baseline, ...]
    provenance: Provenance
    left_out: tuple[LeftOut, ...] = ()
    """Libraries that were not measured beside it. Records of warpsmith 0.1.0 do not have this field."""

    @property
    def timing(self) -> Timing:
        """The winner's times. Raises TypeError if its trial failed."""
        if not isinstance(self.trial.outcome, Measurement):
            raise TypeError("a winner has a measurement")
        return self.trial.outcome.timing

    @property
    def conditions(self) -> str:
        """Conditions of the time: one of `conditions.USUAL_FIRST`. Each has its own winner for one problem and
        device.
        """
        return conditions_key(self.timing.policy)

    @property
    def verdicts(self) -> tuple[BaselineVerdict, ...]:
        """Comparison of each baseline with the winner, in the order of `baselines`."""
        return tuple(verdict_of(self.timing, each, self.problem, self.device) for each in self.baselines)

    @property
    def verdict(self) -> BaselineVerdict | None:
        """Comparison of `vendor` with the winner."""
        return fastest_library(self.verdicts)

    @property
    def vendor(self) -> Baseline | None:
        """The fastest of the other libraries timed as the winner was; None if there is none."""
        return None if self.verdict is None else self.verdict.baseline

    def spec(self) -> dict[str, Any]:
        """JSON values, in the interchange form of `db export`; `from_spec` reads them back."""
        return {
            "operation": self.problem.operation,
            "problem": self.problem.spec(),
            "problem_key": self.problem.key(),
            "device": self.device.spec(),
            "device_key": self.device.key(),
            "trial": trial_spec(self.trial),
            "baselines": [dataclasses.asdict(baseline) for baseline in self.baselines],
            "provenance": dataclasses.asdict(self.provenance),
            "left_out": [dataclasses.asdict(each) for each in self.left_out],
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> Record:
        return cls(
            problem=Problem.from_spec(spec["operation"], spec["problem"]),
            device=Device.from_spec(spec["device"]),
            trial=trial_from_spec(spec["trial"]),
            baselines=tuple(
                Baseline(each["name"], Timing(**each["timing"]), each.get("note")) for each in spec["baselines"]
            ),
            provenance=Provenance(**spec["provenance"]),
            left_out=tuple(LeftOut(**each) for each in spec.get("left_out", ())),  # records of 0.1.0 lack it
        )


def trial_spec(trial: Trial) -> dict[str, Any]:
    """JSON values of a trial."""
    kind = "measurement" if isinstance(trial.outcome, Measurement) else "failure"
    return {
        "family": trial.family,
        "config": trial.config.values(),
        "fingerprint": trial.fingerprint,
        "compiler": trial.compiler,
        "compile_ms": trial.compile_ms,
        "gpu": trial.gpu,
        kind: dataclasses.asdict(trial.outcome),
    }


def trial_from_spec(spec: dict[str, Any]) -> Trial:
    """Reads the JSON values that `trial_spec` made."""
    outcome: Measurement | Failure
    if "measurement" in spec:
        outcome = Measurement(**{**spec["measurement"], "timing": Timing(**spec["measurement"]["timing"])})
    else:
        outcome = Failure(FailureKind(spec["failure"]["kind"]), spec["failure"]["message"])
    return Trial(
        family=spec["family"],
        config=Config.of(spec["config"]),
        fingerprint=spec["fingerprint"],
        outcome=outcome,
        compiler=spec["compiler"],
        compile_ms=spec["compile_ms"],
        gpu=spec.get("gpu"),  # trials of warpsmith 0.1.0 lack it
    )


class Verdict(enum.StrEnum):
    """Result of checking a winner again."""

    SAME = "same"
    """Correct, and the time lies in the tie band of the stored one."""
    FASTER = "faster"
    SLOWER = "slower"
    WRONG = "wrong"
    """Not correct today, or it does not run."""
    UNCHECKED = "unchecked"
    """Nothing is known: its source is of another version, or its time was taken under other conditions."""

    @property
    def is_good(self) -> bool:
        """True if the winner needs no action."""
        return self in (Verdict.SAME, Verdict.UNCHECKED)


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    """Time and result of a winner's latest check."""

    at: str
    """Time in UTC, ISO 8601."""
    verdict: Verdict
    median_ns: float | None
    """None if the winner is not correct."""
    driver: str | None
    """None on a host device."""


_AT, _VERDICT, _TIME, _DRIVER = "checked", "checked verdict", "checked ns", "checked driver"


def marked(record: Record, checked: Checked) -> Record:
    """The record with this check; it replaces an earlier one."""
    earlier = record.provenance.environment
    kept = {name: fact for name, fact in earlier.items() if name not in (_AT, _VERDICT, _TIME, _DRIVER)}
    note = {_AT: checked.at, _VERDICT: str(checked.verdict)}
    if checked.median_ns is not None:
        note[_TIME] = repr(checked.median_ns)
    if checked.driver is not None:
        note[_DRIVER] = checked.driver
    return dataclasses.replace(record, provenance=dataclasses.replace(record.provenance, environment={**kept, **note}))


def checked_of(record: Record) -> Checked | None:
    """The latest check of a record; None if it has none, or one that this version cannot read."""
    facts = record.provenance.environment
    try:
        median_ns = float(facts[_TIME]) if _TIME in facts else None
        return Checked(facts[_AT], Verdict(facts[_VERDICT]), median_ns, facts.get(_DRIVER))
    except (KeyError, ValueError):
        return None


def was_wrong(record: Record) -> bool:
    """True if the latest check found the winner's results wrong."""
    checked = checked_of(record)
    return checked is not None and checked.verdict is Verdict.WRONG


class FamilyTime(NamedTuple):
    """Time of a family's fastest candidate."""

    problem_key: str
    """`Problem.key()`."""
    device_key: str
    """`Device.key()`."""
    conditions: str
    """One of `conditions.USUAL_FIRST`."""
    family: str
    median_ns: float

    @classmethod
    def of(cls, record: Record) -> Self:
        """Makes the time of a record."""
        trial = record.trial
        return cls(record.problem.key(), record.device.key(), record.conditions, trial.family, record.timing.median_ns)

    @classmethod
    def readable(cls, found: Iterable[Iterable[Any]]) -> tuple[Self, ...]:
        """Makes times from rows of a table. Rows of a damaged file without a valid time are left out."""
        made = map(cls._make, found)
        return tuple(each for each in made if isinstance(each.median_ns, float) and 0 < each.median_ns < math.inf)
