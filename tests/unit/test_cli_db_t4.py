"""`warpsmith db export --format t4`: one problem's trials for other autotuners, with their metadata beside."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from builders import LARGE, NVRTC, SMALL, failure, record, trial
from warpsmith.cli.app import run
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.store import location
from warpsmith.store.record import FailureKind, Measurement
from warpsmith.store.store import Store

SHIPPED = Filter2d(image=(9, 9), filter=(2, 2))
MEASURED = trial(1, 5e6, family="filter2d_plain", compiler=NVRTC)
FAILED = trial(2, failure(FailureKind.TIMEOUT, "10 s"), family="filter2d_plain", compiler=NVRTC)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, made_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `a.db`: trials of one problem on two devices, and of another; a winner without any."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    shutil.copy(made_file, "a.db")
    with Store.open("a.db", write=True) as store:
        store.add_trials(SMALL, H200, (FAILED, MEASURED))
        store.put_winner(record(SMALL, MEASURED, environment={"driver": "580.1"}))
        store.add_trials(SMALL, HOST, (FAILED,))
        store.add_trials(LARGE, H200, (MEASURED,))
        store.put_winner(record(SHIPPED, MEASURED, environment={"driver": "580.1"}))
    return tmp_path


def read(name: str, kind: str) -> Any:
    document = json.loads(Path(name).read_text())
    schema = json.loads((Path(__file__).parent / "t4" / f"{kind}-schema.json").read_text())
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    return document


def test_writes_results_and_metadata(document: Callable[..., Any]) -> None:
    command = ("db", "export", "--format", "t4", "--out", "x.json", "image=64x64", "--device-key", H200.key())
    told = document(*command, "--store", "a.db")
    assert told == {
        "file": "x.json",
        "metadata": "x-metadata.json",
        "trials": 2,
        "problem_key": SMALL.key(),
        "device_key": H200.key(),
    }
    results = read("x.json", "results")["results"]
    assert [each["configuration"]["n"] for each in results] == [2, 1]
    assert [each["invalidity"] for each in results] == ["timeout", "correct"]
    with Store.open("a.db", write=False) as store:
        assert [each["timestamp"] for each in results] == [at for at, _ in store.dated_trials(SMALL, H200)]
    metadata = read("x-metadata.json", "metadata")["metadata"]
    assert metadata["environment"]["device_query"] == {"driver": "580.1"}
    assert metadata["problem"]["key"] == SMALL.key()


def test_times_are_those_under_the_conditions_of_the_winner(document: Callable[..., Any]) -> None:
    assert isinstance(MEASURED.outcome, Measurement)
    timing = dataclasses.replace(MEASURED.outcome.timing, policy="median, 2 runs a sample, CUDA graph, cold L2")
    graph = dataclasses.replace(MEASURED, outcome=dataclasses.replace(MEASURED.outcome, timing=timing))
    with Store.open("a.db", write=True) as store:
        store.add_trials(SMALL, H200, [graph])
    command = ("db", "export", "--format", "t4", "--out", "x.json", "image=64x64", "--device-key", H200.key())
    told = document(*command, "--store", "a.db")
    assert told["trials"] == 2
    policies = [
        each["value"]
        for result in read("x.json", "results")["results"]
        for each in result["measurements"]
        if each["name"] == "policy"
    ]
    assert policies == ["median of 9"]


def test_a_whole_key_in_quotes_names_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "export", "--format", "t4", "--out", "out/x.json", LARGE.key(), "--store", "a.db"]) == 1
    assert "cannot write out/x.json" in capsys.readouterr().err
    assert run(["db", "export", "--format", "t4", "x.json", "--store", "a.db"]) == 2
    capsys.readouterr()
    assert run(["db", "export", "--format", "t4", "--out", "x.json", LARGE.key(), "--store", "a.db"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [f"written   x.json, 1 trials of {LARGE.key()}", "          x-metadata.json, their metadata"]
    assert read("x-metadata.json", "metadata")["metadata"]["environment"]["requirements"] == []


@pytest.mark.parametrize(
    ("code", "arguments", "why"),
    [
        (2, ("--out", "x.json"), "add words or --device-key to choose of "),
        (2, ("--out", "x.json", "image=64x64"), f"{SMALL.key()} on {H200.key()}"),
        (3, ("--out", "x.json", "image=65x64"), "db ls"),
        (3, ("--out", "x.json", "--device-key", "nobody"), "db ls"),
        (3, ("--out", "x.json", "image=9x9"), "none of its trials"),
        (2, ("--out", "a.db", "image=512x512"), "is the store itself"),
        (2, (), "--out FILE"),
        (1, ("--out", "/proc/none/x.json", "image=512x512"), "cannot write /proc/none/x.json"),
    ],
)
def test_refusals_write_nothing(
    capsys: pytest.CaptureFixture[str], folder: Path, code: int, arguments: tuple[str, ...], why: str
) -> None:
    before = Path("a.db").read_bytes()
    assert run(["db", "export", "--format", "t4", *arguments, "--store", "a.db"]) == code
    shown = capsys.readouterr()
    (line,) = shown.err.splitlines()
    assert why in line
    assert shown.out == ""
    assert [each.name for each in folder.iterdir()] == ["a.db"]
    assert Path("a.db").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("x.json", "--format", "t5"), "choose one of lines, t4"),
        (("x.json", "--device-key", H200.key()), "JSON lines carry the whole store"),
        (("image=64x64", "--out", "x.json"), "JSON lines carry the whole store"),
        (("x.json", "y.json"), "--out FILE"),
    ],
)
def test_json_lines_take_no_words(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[str, ...], why: str
) -> None:
    assert run(["db", "export", *arguments, "--store", "a.db"]) == 2
    assert why in capsys.readouterr().err
    assert [each.name for each in folder.iterdir()] == ["a.db"]


def test_json_lines_to_out_as_well(document: Callable[..., Any]) -> None:
    assert document("db", "export", "--out", "a.jsonl", "--store", "a.db") == {"file": "a.jsonl", "lines": 7}


def test_a_full_disk_keeps_the_earlier_files(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = ("x.json", "x-metadata.json")
    for name in earlier:
        Path(name).write_text("earlier")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    assert run(["db", "export", "--format", "t4", "--out", "x.json", "image=512x512", "--store", "a.db"]) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert [Path(name).read_text() for name in earlier] == ["earlier", "earlier"]
    assert {each.name for each in folder.iterdir()} == {*earlier, "a.db"}
