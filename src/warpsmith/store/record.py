"""What a store keeps: trials, winners, and what was measured beside them. All frozen, times in ns."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config

COPY = "copy"
"""The baseline that is the device's own copy of as many bytes as the problem must move."""


class FailureKind(enum.StrEnum):
    """Why a candidate has no time."""

    INVALID = "invalid"
    """The config is not a point of its family's space."""
    COMPILE = "compile"
    """The compiler refused it or took too long."""
    LAUNCH = "launch"
    """The device refused to launch it."""
    WRONG = "wrong"
    """Its result differs from the float64 reference by more than the bound, or has elements never written."""
    OUT_OF_BOUNDS = "out-of-bounds"
    """It wrote outside its result, or a sanitizer caught it reading or writing outside a buffer."""
    UNDEFINED = "undefined-behaviour"
    """A sanitizer caught an operation that C++ leaves undefined, an index past a static array among them."""
    TIMEOUT = "timeout"
    """It did not end before its deadline."""
    CRASH = "crash"
    """Its worker process died, or the device faulted."""
    OUT_OF_MEMORY = "out-of-memory"
    """Its buffers did not fit, or its worker process took more memory than it may."""
    DROPPED = "dropped"
    """It was not run: by its operations, its spills or the threads that fit it cannot be the fastest."""


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A candidate that has no time, and why."""

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
    """The statistic and the conditions, such as `median, 5 runs a sample, queued first, cold L2`."""

    @property
    def conditions(self) -> str:
        """What of the policy decides which times may be compared, such as `queued first, cold L2`."""
        return self.policy.split(", ", 2)[-1]


@dataclasses.dataclass(frozen=True, slots=True)
class Measurement:
    """A verified candidate and its times."""

    timing: Timing
    max_error: float
    """Largest |result - float64 reference|, over what its element's errors are told in (`Problem.error_unit`)."""
    registers: int | None
    spill_bytes: int | None
    shared_bytes: int | None
    clock_mhz: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Trial:
    """One candidate tried: what it was and what came of it."""

    family: str
    config: Config
    fingerprint: str
    """`Program.fingerprint` of the source that ran."""
    outcome: Measurement | Failure
    compiler: str
    compile_ms: float | None = None
    gpu: str | None = None
    """Which of several alike it ran on, such as `cuda:0`; None where it ran on none, or nobody asked."""

    @property
    def median_ns(self) -> float | None:
        """The time, or None for a failure."""
        return self.outcome.timing.median_ns if isinstance(self.outcome, Measurement) else None

    @property
    def conditions(self) -> str | None:
        """`Timing.conditions`, or None for a failure."""
        return self.outcome.timing.conditions if isinstance(self.outcome, Measurement) else None


@dataclasses.dataclass(frozen=True, slots=True)
class Baseline:
    """A peer measured beside the winner in the same run."""

    name: str
    """The library and its version, such as `cudnn 9.19 (torch 2.11)`, or COPY."""
    timing: Timing


@dataclasses.dataclass(frozen=True, slots=True)
class Provenance:
    """Where a record comes from: soft facts that may change without making it wrong."""

    created: str
    """UTC, ISO 8601."""
    warpsmith: str
    environment: dict[str, str]
    """Driver, toolkit, operating system."""


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A stored winner: the problem, the device, the trial that won, and what was timed in the same run."""

    problem: Problem
    device: Device
    trial: Trial
    """Its outcome is a Measurement, taken again on fresh data after the search."""
    baselines: tuple[Baseline, ...]
    provenance: Provenance

    @property
    def vendor(self) -> Baseline | None:
        """The fastest of the other libraries measured beside the winner; None where there was none."""
        own = f"{self.problem.operation}_"  # as every family is named
        others = [each for each in self.baselines if each.name != COPY and not each.name.startswith(own)]
        return min(others, key=lambda each: each.timing.median_ns, default=None)

    def spec(self) -> dict[str, Any]:
        """The record as JSON values, in the interchange form of `db export`; `from_spec` reads it back."""
        return {
            "operation": self.problem.operation,
            "problem": self.problem.spec(),
            "problem_key": self.problem.key(),
            "device": self.device.spec(),
            "device_key": self.device.key(),
            "trial": trial_spec(self.trial),
            "baselines": [dataclasses.asdict(baseline) for baseline in self.baselines],
            "provenance": dataclasses.asdict(self.provenance),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> Record:
        return cls(
            problem=Problem.from_spec(spec["operation"], spec["problem"]),
            device=Device.from_spec(spec["device"]),
            trial=trial_from_spec(spec["trial"]),
            baselines=tuple(Baseline(each["name"], Timing(**each["timing"])) for each in spec["baselines"]),
            provenance=Provenance(**spec["provenance"]),
        )


def trial_spec(trial: Trial) -> dict[str, Any]:
    """A trial as JSON values."""
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
    """The trial that `trial_spec` wrote."""
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
