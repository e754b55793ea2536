"""Trials in the exchange format of autotuners: T4, results and metadata of the Open Autotuning Schemas, version 1.0.0.

The schemas are https://github.com/odgaard/TuningSchema, branch T4, as shipped with Kernel Tuner 1.5. Where they leave a
choice, the files follow Kernel Tuner. Times are in ms.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store.record import Failure, FailureKind, Measurement, Record, Trial

SCHEMA_VERSION = "1.0.0"

OBJECTIVE = "time"
"""Name of the measurement that the search minimises: the median time."""

CORRECT = "correct"

INVALIDITY = {
    FailureKind.INVALID: "constraints",
    FailureKind.DROPPED: "constraints",  # not run, excluded by this package's own bounds
    FailureKind.COMPILE: "compile",
    FailureKind.LAUNCH: "runtime",
    FailureKind.CRASH: "runtime",
    FailureKind.OUT_OF_MEMORY: "runtime",
    FailureKind.WRONG: "correctness",
    # It ran to its end, but its results or its memory accesses were wrong.
    FailureKind.OUT_OF_BOUNDS: "correctness",
    FailureKind.UNDEFINED: "correctness",
    FailureKind.TIMEOUT: "timeout",
}
"""T4's word for each kind of failure."""

ERRORS = {"constraints": "InvalidConfig", "compile": "CompilationFailedConfig"}
ERROR_AT_RUN_TIME = "RuntimeFailedConfig"
"""Value that stands for a missing time. Readers of Kernel Tuner's files know these three."""


def results(trials: Iterable[tuple[str, Trial]]) -> dict[str, Any]:
    """Trials of one problem and device as a results document, JSON values.

    A configuration has the family as an additional parameter.

    Args:
        trials: storage time in UTC, ISO 8601, and the trial.
    """
    return {
        "results": [_result(at, trial) for at, trial in trials],
        "schema_version": SCHEMA_VERSION,
        "metadata": {"timeunit": "milliseconds"},
    }


def _result(at: str, trial: Trial) -> dict[str, Any]:
    outcome = trial.outcome
    right = isinstance(outcome, Measurement)
    return {
        "timestamp": at,
        "configuration": {"family": trial.family, **trial.config.values()},
        "objectives": [OBJECTIVE],
        "times": _times(trial),
        "invalidity": INVALIDITY[outcome.kind] if isinstance(outcome, Failure) else CORRECT,
        "correctness": 1 if right else 0,
        "measurements": [
            {"name": name, "value": value, "unit": unit} for name, value, unit in _measured(trial) if value is not None
        ],
    }


def _times(trial: Trial) -> dict[str, Any]:
    """Costs of a trial, in ms. Readers require every key; stages whose time is unknown are 0."""
    compile_ms = trial.compile_ms or 0.0
    return {
        "compilation": compile_ms,  # Kernel Tuner's name
        "compilation_time": compile_ms,  # the schema's
        "benchmark": 0.0,
        "framework": 0.0,
        "search_algorithm": 0.0,
        "validation": 0.0,
        "runtimes": [] if trial.median_ns is None else [trial.median_ns / 1e6],
    }


def _measured(trial: Trial) -> list[tuple[str, float | str | None, str]]:
    """Name, value and unit of every fact of a trial."""
    ran = [("compiler", trial.compiler, ""), ("fingerprint", trial.fingerprint, "")]
    outcome = trial.outcome
    if isinstance(outcome, Failure):
        error = ERRORS.get(INVALIDITY[outcome.kind], ERROR_AT_RUN_TIME)
        return [(OBJECTIVE, error, "ms"), ("failure", f"{outcome.kind}: {outcome.message}", ""), *ran]
    timing = outcome.timing
    return [
        (OBJECTIVE, timing.median_ns / 1e6, "ms"),
        ("time_p20", timing.p20_ns / 1e6, "ms"),
        ("time_p80", timing.p80_ns / 1e6, "ms"),
        ("samples", timing.samples, ""),
        ("policy", timing.policy, ""),
        ("max_error", outcome.max_error, ""),
        ("registers", outcome.registers, ""),
        ("spill", outcome.spill_bytes, "bytes"),
        ("shared_memory", outcome.shared_bytes, "bytes"),
        ("clock", outcome.clock_mhz, "MHz"),
        *ran,
    ]


def metadata(problem: Problem, device: Device, record: Record | None) -> dict[str, Any]:
    """Metadata document of trials, JSON values.

    Args:
        problem: the problem that they compute.
        device: the device on which they ran, which need not be this machine.
        record: their winner, which knows the software; None if there is none.
    """
    environment = {} if record is None else record.provenance.environment
    return {
        "metadata": {
            "hardware": {
                "hardware_description": [{"key": device.key(), **device.spec()}],
                "operating_system": environment.get("system") or environment.get("os") or "unknown",
            },
            "environment": {
                "device_query": dict(environment),
                "requirements": [] if record is None else [f"warpsmith=={record.provenance.warpsmith}"],
            },
            "problem": {"key": problem.key(), "operation": problem.operation, **problem.spec()},
        },
        "schema_version": SCHEMA_VERSION,
    }
