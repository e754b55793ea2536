"""Trials in the form that autotuners exchange."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from builders import NVRTC, measurement, record, timing, trial
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.store import t4
from warpsmith.store.record import Failure, FailureKind, Trial

PROBLEM = Filter2d(image=(64, 64), filter=(3, 3), weights=(0.1,) * 9)
AT = "2026-01-02T03:04:05.678+00:00"
TIMES = {"compilation", "benchmark", "framework", "search_algorithm", "validation", "runtimes"}
"""Times that Kernel Tuner writes of each trial, and readers demand."""

MEASURED = trial(
    outcome=measurement(
        timing(12_500.0, 12_000.0, 13_000.0, samples=30, policy="median, 5 runs a sample, eager, cold L2"),
        max_error=3e-8,
        registers=40,
        spill_bytes=0,
        clock_mhz=1980,
    ),
    family="filter2d_plain",
    config={"block_columns": 32, "path": "global"},
    fingerprint="0123456789abcdef",
    compiler=NVRTC,
    compile_ms=41.5,
)


def failed(kind: FailureKind) -> Trial:
    return dataclasses.replace(MEASURED, outcome=Failure(kind, "line 3: no µ"), compile_ms=None)


def schema(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((Path(__file__).parent / "t4" / f"{name}-schema.json").read_text())
    return read


def valid(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """The document as another program reads it, once it fits the schema."""
    read: dict[str, Any] = json.loads(json.dumps(document, allow_nan=False))
    jsonschema.validate(read, schema(name), cls=jsonschema.Draft202012Validator)
    return read


def test_the_schema_tells_what_is_wrong() -> None:
    document = t4.results([(AT, MEASURED)])
    document["results"][0]["invalidity"] = "wrong"
    with pytest.raises(jsonschema.ValidationError, match="'wrong' is not one of"):
        valid("results", document)


def test_a_measurement() -> None:
    document = valid("results", t4.results([(AT, MEASURED)]))
    assert document["schema_version"] == "1.0.0"
    assert document["metadata"] == {"timeunit": "milliseconds"}
    (result,) = document["results"]
    assert result["timestamp"] == AT
    assert result["configuration"] == {"family": "filter2d_plain", "block_columns": 32, "path": "global"}
    assert result["objectives"] == ["time"]
    assert (result["invalidity"], result["correctness"]) == ("correct", 1)
    assert result["times"].keys() >= TIMES
    assert result["times"]["runtimes"] == [0.0125]
    assert result["times"]["compilation"] == result["times"]["compilation_time"] == 41.5
    measured = {each["name"]: (each["value"], each["unit"]) for each in result["measurements"]}
    assert measured == {
        "time": (0.0125, "ms"),
        "time_p20": (0.012, "ms"),
        "time_p80": (0.013, "ms"),
        "samples": (30, ""),
        "policy": ("median, 5 runs a sample, eager, cold L2", ""),
        "max_error": (3e-8, ""),
        "registers": (40, ""),
        "spill": (0, "bytes"),
        "clock": (1980, "MHz"),
        "compiler": ("nvrtc 13.0", ""),
        "fingerprint": ("0123456789abcdef", ""),
    }


WORDS = {
    FailureKind.INVALID: ("constraints", "InvalidConfig"),
    FailureKind.DROPPED: ("constraints", "InvalidConfig"),
    FailureKind.COMPILE: ("compile", "CompilationFailedConfig"),
    FailureKind.LAUNCH: ("runtime", "RuntimeFailedConfig"),
    FailureKind.CRASH: ("runtime", "RuntimeFailedConfig"),
    FailureKind.OUT_OF_MEMORY: ("runtime", "RuntimeFailedConfig"),
    FailureKind.WRONG: ("correctness", "RuntimeFailedConfig"),
    FailureKind.OUT_OF_BOUNDS: ("correctness", "RuntimeFailedConfig"),
    FailureKind.UNDEFINED: ("correctness", "RuntimeFailedConfig"),
    FailureKind.TIMEOUT: ("timeout", "RuntimeFailedConfig"),
}


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_of_failure_has_a_word(kind: FailureKind) -> None:
    (result,) = valid("results", t4.results([(AT, failed(kind))]))["results"]
    word, error = WORDS[kind]
    assert (result["invalidity"], result["correctness"]) == (word, 0)
    assert result["times"].keys() >= TIMES
    assert result["times"]["runtimes"] == []
    measured = {each["name"]: each["value"] for each in result["measurements"]}
    assert measured["time"] == error
    assert measured["failure"] == f"{kind}: line 3: no µ"


def test_trials_stay_in_their_order() -> None:
    trials = [(AT, failed(FailureKind.WRONG)), (AT, MEASURED), (AT, failed(FailureKind.COMPILE))]
    words = [each["invalidity"] for each in valid("results", t4.results(trials))["results"]]
    assert words == ["correctness", "correct", "compile"]


class TestMetadata:
    def test_names_device_problem_and_software(self) -> None:
        facts = {"driver": "580.1", "system": "Linux-6.1"}
        stored = record(PROBLEM, MEASURED, environment=facts)
        document = valid("metadata", t4.metadata(PROBLEM, H200, stored))
        assert document["schema_version"] == "1.0.0"
        told = document["metadata"]
        assert told["hardware"]["operating_system"] == "Linux-6.1"
        assert told["hardware"]["hardware_description"] == [{"key": H200.key(), **H200.spec()}]
        assert told["environment"] == {"device_query": facts, "requirements": ["warpsmith==0.1.0"]}
        assert told["problem"]["key"] == PROBLEM.key()
        assert Filter2d.of({name: told["problem"][name] for name in PROBLEM.spec()}) == PROBLEM

    def test_without_a_winner(self) -> None:
        told = valid("metadata", t4.metadata(PROBLEM, H200, None))["metadata"]
        assert told["hardware"]["operating_system"] == "unknown"
        assert told["environment"] == {"device_query": {}, "requirements": []}
