"""Output of query, explain, verify, bench, report and doctor, also if nothing is stored."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders import SMALL, timing, trial, winner
from warpsmith.cli.app import run
from warpsmith.cli.tune import _overall
from warpsmith.devices import library_versions
from warpsmith.devices.cuda.available import cuda_device_count
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border
from warpsmith.generator.gate import Gate
from warpsmith.generator.presets import H200
from warpsmith.generator.program import Program
from warpsmith.generator.registry import FAMILIES
from warpsmith.generator.space import Config
from warpsmith.store import location
from warpsmith.store.record import (
    COPY,
    Baseline,
    Failure,
    FailureKind,
    LeftOut,
    Measurement,
)
from warpsmith.store.store import Store
from warpsmith.tuner.evaluate.outcomes import Evaluated

without_gpu = pytest.mark.skipif(cuda_device_count() > 0, reason="a GPU is here")
ON_HOST = ("--image", "64x64", "--filter", "3x3", "--device", "host")
FAMILY = {family.name: family for family in FAMILIES}
HOST = DeviceRef.parse("host").device()
TIMED = timing(2000.0, 1900.0, 2500.0, samples=30, policy="median, 1 runs a sample, eager, warm caches")
WON = winner(
    SMALL,
    TIMED,
    HOST,
    baselines=(
        Baseline("scipy ndimage.correlate", dataclasses.replace(TIMED, median_ns=4000.0)),
        Baseline(COPY, dataclasses.replace(TIMED, median_ns=1000.0)),
    ),
    left_out=(LeftOut("another", "it is not installed"),),
)
"""A record of the plainest family: twice as long as a copy and half as long as SciPy."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, made_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `one.db`, a store of one winner and a failure. No store is shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    shutil.copy(made_file, "one.db")
    with Store.open("one.db", write=True) as store:
        store.put_winner(WON)
        store.add_trials(SMALL, HOST, [WON.trial])
        wrong = Failure(FailureKind.WRONG, "7 of 3844 differ")
        store.add_trials(SMALL, HOST, [dataclasses.replace(WON.trial, fingerprint="another", outcome=wrong)])
    return tmp_path


class TestQuery:
    def test_exact(self, document: Callable[..., Any], printed: Callable[..., str]) -> None:
        answer = document("query", "filter2d", *ON_HOST, "--store", "one.db")
        assert answer == {
            "problem": SMALL.spec(),
            "problem_key": SMALL.key(),
            "match": "exact",
            "reasons": [],
            "family": WON.trial.family,
            "config": WON.trial.config.values(),
            "fingerprint": WON.trial.fingerprint,
            "time_ns": WON.trial.median_ns,
            "vendor": "scipy ndimage.correlate",
            "beats_vendor": True,
            "conditions": "eager, warm caches",
            "verdict": "2.00x faster than scipy ndimage.correlate, the fastest library beside it",
            "verdicts": [each.spec() for each in WON.verdicts],
            "left_out": [{"name": "another", "reason": "it is not installed"}],
            "baselines_ns": {baseline.name: baseline.timing.median_ns for baseline in WON.baselines},
            "record": WON.spec(),
            "families": [
                {
                    "family": WON.trial.family,
                    "time_ns": WON.trial.median_ns,
                    "ratio": 1.0,
                    "config": WON.trial.config.values(),
                    "fingerprint": WON.trial.fingerprint,
                    "max_error": 0.0,
                    "conditions": "eager, warm caches",
                    "timed": "the winner",
                }
            ],
        }
        text = printed("query", "filter2d", *ON_HOST, "--store", "one.db")
        assert text.startswith(f"match     exact\nproblem   {SMALL.key()}\n")
        assert "2.00 us (1.90 us to 2.50 us, n=30)  (a CPU's time: it says nothing of a GPU)" in text
        assert "50.0% of copy speed" in text
        assert "timed     eager, warm caches\n" in text
        assert "scipy ndimage.correlate: 4.00 us (1.90 us to 2.50 us, n=30); ours is 2.00x faster\n" in text
        assert "left out  another: it is not installed\n" in text
        assert "verdict   2.00x faster than scipy ndimage.correlate, the fastest library beside it\n" in text

    def test_families_side_by_side(self, document: Callable[..., Any], printed: Callable[..., str]) -> None:
        """The winner comes first, then the others by time, each with its timing conditions."""
        window, plain = FAMILY["filter2d_window"], WON.trial.family
        policy = "median, 1 runs a sample, eager, in turns, warm caches"
        won = winner(SMALL, dataclasses.replace(TIMED, policy=policy, median_ns=1000.0), HOST, family=window)
        beaten = winner(SMALL, dataclasses.replace(TIMED, policy=policy), HOST)
        earlier = dataclasses.replace(WON.provenance, created="2025-01-01T00:00:00+00:00")
        with Store.open("one.db", write=True) as store:
            store.put_winner(won)
            asked = ("query", "filter2d", *ON_HOST, "--store", "one.db")
            first, second = document(*asked)["families"]
            assert (first["family"], first["ratio"], first["timed"]) == ("filter2d_window", 1.0, "the winner")
            assert (second["family"], second["ratio"], second["timed"]) == (plain, 2.0, "alone, in a search")
            assert second["config"] == WON.trial.config.values()
            store.put_runners_up((beaten,))
            assert document(*asked)["families"][1]["timed"] == "in turns with the winner"
            store.put_runners_up((dataclasses.replace(beaten, provenance=earlier),))
            assert document(*asked)["families"][1]["timed"] == "in turns, in another run"
        lines = printed(*asked).splitlines()
        assert lines[-4] == "| family | time | of the winner's | config | timed |"
        assert lines[-2].startswith("| filter2d_window | 1.00 us | 1.00 | ")
        assert lines[-1].startswith(f"| {plain} | 2.00 us | 2.00 | ")

    def test_a_winner_of_an_earlier_text_beside_others(self, document: Callable[..., Any]) -> None:
        """A query checks the text of the winner alone."""
        window, plain = FAMILY["filter2d_window"], WON.trial.family
        won = winner(SMALL, dataclasses.replace(TIMED, median_ns=1000.0), HOST, family=window)
        stale = dataclasses.replace(won, trial=dataclasses.replace(won.trial, fingerprint="older"))
        with Store.open("one.db", write=True) as store:
            store.put_winner(stale)
        asked = ("query", "filter2d", *ON_HOST, "--store", "one.db", "--method", plain)
        first, second = document(*asked)["families"]
        assert (first["family"], first["timed"]) == (window.name, "the winner; of an earlier kernel text")
        assert (second["family"], second["timed"]) == (plain, "alone, in a search")

    def test_generates_the_answer_s_text_alone(
        self, document: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        window, made = FAMILY["filter2d_window"], list[str]()
        with Store.open("one.db", write=True) as store:
            store.put_winner(winner(SMALL, dataclasses.replace(TIMED, median_ns=1000.0), HOST, family=window))
        generate = Gate.program

        def program(gate: Gate, family: Family, config: Config) -> Program:
            made.append(family.name)
            return generate(gate, family, config)

        monkeypatch.setattr(Gate, "program", program)
        assert len(document("query", "filter2d", *ON_HOST, "--store", "one.db")["families"]) == 2
        assert made == [window.name]

    def test_by_method(self, document: Callable[..., Any], refusal: Callable[..., str]) -> None:
        window = FAMILY["filter2d_window"]
        with Store.open("one.db", write=True) as store:
            store.put_winner(winner(SMALL, dataclasses.replace(TIMED, median_ns=1000.0), HOST, family=window))
        asked = ("query", "filter2d", *ON_HOST, "--store", "one.db", "--method")
        of_auto, of_plain = (document(*asked, method) for method in ("auto", WON.trial.family))
        assert (of_auto["family"], of_plain["family"]) == ("filter2d_window", WON.trial.family)
        assert (of_plain["match"], of_plain["time_ns"]) == ("exact", WON.trial.median_ns)
        assert of_auto["families"] == of_plain["families"]
        assert refusal(2, *asked, "fast").startswith("unknown method 'fast'; filter2d image=64x64 filter=3x3")
        assert refusal(2, *asked, "filter2d_matrix").endswith("float32 pixels do not fit a half")

    def test_near(self, document: Callable[..., Any], printed: Callable[..., str]) -> None:
        asked = ("query", "filter2d", "--image", "80x64", "--filter", "3x3", "--device", "host", "--store", "one.db")
        answer = document(*asked)
        assert answer["match"] == "near"
        assert answer["problem"]["image"] == [80, 64]
        assert answer["record"] == WON.spec()
        assert answer["fingerprint"] != WON.trial.fingerprint
        (reason,) = answer["reasons"]
        assert reason.startswith("exact: filter2d image=80x64 filter=3x3")
        assert printed(*asked).splitlines()[:3] == ["match     near", f"          {reason}", f"problem   {SMALL.key()}"]

    def test_other_device(self, document: Callable[..., Any]) -> None:
        other = dataclasses.replace(HOST, name="Another CPU")
        with Store.open("other.db", write=True) as store:
            store.put_winner(dataclasses.replace(WON, device=other))
        answer = document("query", "filter2d", *ON_HOST, "--store", "other.db")
        assert answer["match"] == "device"
        assert [reason.partition(":")[0] for reason in answer["reasons"]] == ["exact", "near"]

    def test_older_text_of_the_kernel_is_no_exact_match(self, document: Callable[..., Any]) -> None:
        old = WON
        with Store.open("old.db", write=True) as store:
            store.put_winner(dataclasses.replace(old, trial=dataclasses.replace(old.trial, fingerprint="older")))
        answer = document("query", "filter2d", *ON_HOST, "--store", "old.db")
        assert answer["match"] == "near"
        assert answer["reasons"] == [
            "exact: the stored time is of an older text of this kernel; tune again to renew it"
        ]

    @pytest.mark.parametrize("asked", [("--border", "wrap"), ("--planes", "2", "--border", "mirror")])
    def test_nothing_stored(self, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...]) -> None:
        assert run(["query", "filter2d", *ON_HOST, *asked, "--store", "one.db", "--json"]) == 3
        shown = capsys.readouterr()
        error = json.loads(shown.out)
        assert error["exit_code"] == 3
        assert error["error"].endswith("; run `warpsmith tune filter2d` first")
        assert shown.err == f"warpsmith: error: {error['error']}\n"

    def test_makes_no_store(self) -> None:
        assert run(["query", "filter2d", *ON_HOST]) == 3
        assert not location.own_store().parent.exists()

    def test_asks_the_store_of_the_environment(
        self, document: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, "one.db")
        assert document("query", "filter2d", *ON_HOST)["match"] == "exact"

    def test_asks_the_named_store_before_that_of_the_environment(
        self, document: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, "typo.db")
        assert document("query", "filter2d", *ON_HOST, "--store", "one.db")["match"] == "exact"

    def test_takes_weights_for_another_problem(self, document: Callable[..., Any]) -> None:
        np.save("w.npy", np.arange(9.0).reshape(3, 3))
        known = dataclasses.replace(SMALL, weights=tuple(map(float, range(9))))
        with Store.open("one.db", write=True) as store:
            store.put_winner(winner(known, TIMED, HOST))
        answer = document("query", "filter2d", *ON_HOST, "--weights", "w.npy", "--store", "one.db")
        assert answer["problem"]["weights"] == list(range(9))
        assert answer["match"] == "exact"

    def test_ctrl_c_is_told(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("warpsmith.cli.query.find", interrupt)
        assert run(["query", "filter2d", *ON_HOST, "--json"]) == 1
        shown = capsys.readouterr()
        assert shown.err == "warpsmith: error: interrupted\n"
        assert json.loads(shown.out) == {"error": "interrupted", "exit_code": 1}


def test_tune_tells_which_winner_a_search_of_one_family_did_not_beat() -> None:
    best, overall = trial(1, 3000.0, family="plain"), trial(2, 2000.0, family="window")
    assert _overall(best, overall) == "window n=2 stays the winner: 2.00 us, 1.50x faster"


class TestExplain:
    def test_shows_families_and_trials(self, document: Callable[..., Any], printed: Callable[..., str]) -> None:
        asked = ("explain", "filter2d", *ON_HOST, "--store", "one.db")
        text = printed(*asked)
        assert "trials    2 stored" in text
        assert "failed    wrong: 7 of 3844 differ" in text
        answer = document(*asked)
        assert answer["device_key"] == HOST.key()
        assert len(answer["trials"]) == 2
        assert answer["families"] == {
            "filter2d_window": None,
            "filter2d_matrix": "float32 pixels do not fit a half",
            "filter2d_warpgroup": "a warp computes 128 elements of a row; the image is too small",
            "filter2d_fft": "has errors relative to its whole tile: accuracy imagewise",
            "filter2d_overlap_save": "has errors relative to its whole tile: accuracy imagewise",
            "filter2d_plain": None,
        }
        assert printed(*asked, "--source") == answer["source"]
        assert printed(*asked, "--source").count("__global__") == 1
        assert "2.00 us  filter2d_plain" not in printed(*asked, "--top", "0")

    def test_says_under_which_conditions_trials_were_timed_where_these_differ(
        self, printed: Callable[..., str]
    ) -> None:
        asked = ("explain", "filter2d", *ON_HOST, "--store", "one.db")
        assert "(eager, warm caches)" not in printed(*asked)
        trial = WON.trial
        assert isinstance(trial.outcome, Measurement)
        timed = timing(1000.0, policy="median, 1 runs a sample, eager, cold L2")
        cold = dataclasses.replace(trial, outcome=dataclasses.replace(trial.outcome, timing=timed))
        with Store.open("one.db", write=True) as store:
            store.add_trials(SMALL, HOST, [cold])
        assert re.search(r"1\.00 us .*\(eager, cold L2\)\n.*2\.00 us .*\(eager, warm caches\)", printed(*asked))

    def test_of_a_default_needs_no_store(self, document: Callable[..., Any]) -> None:
        answer = document("explain", "filter2d", *ON_HOST)
        assert answer["match"] == "default"
        assert answer["record"] is None
        assert [reason.partition(":")[0] for reason in answer["reasons"]] == ["exact", "near", "device"]


class TestVerify:
    def test_right(self, document: Callable[..., Any], printed: Callable[..., str]) -> None:
        answer = document("verify", "filter2d", *ON_HOST, "--store", "one.db")
        assert answer["right"] is True
        assert answer["match"] == "exact"
        assert 0 <= answer["max_error"] <= answer["bound"] == 1e-6
        assert re.search(r"^correct   largest error \S+ of the sum", printed("verify", "filter2d", *ON_HOST), re.M)

    def test_wrong_is_a_failure(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        wrong = Evaluated(Failure(FailureKind.WRONG, "7 of 3844 differ"), 0.0, 0.0, 0.0)
        monkeypatch.setattr("warpsmith.tuner.evaluate.bench.Bench.evaluate", lambda *_: wrong)
        assert run(["verify", "filter2d", *ON_HOST, "--store", "one.db", "--json"]) == 1
        shown = capsys.readouterr()
        assert shown.err.startswith("warpsmith: error: wrong: 7 of 3844 differ (filter2d_plain ")
        assert json.loads(shown.out)["exit_code"] == 1


def test_bench_times_the_stored_answer_beside_others(document: Callable[..., Any], printed: Callable[..., str]) -> None:
    asked = ("bench", "filter2d", *ON_HOST, "--store", "one.db")
    answer = document(*asked)
    assert answer["device"] == HOST.spec()
    (row,) = answer["rows"]
    assert row["problem"] == SMALL.spec()
    assert row["match"] == "exact"
    assert row["ours"]["median_ns"] > 0
    assert COPY in [baseline["name"] for baseline in row["baselines"]]
    text = printed(*asked, "--save", "bench.json")
    assert text.startswith(HOST.name)
    header, rule, line = text.splitlines()[-3:]
    assert header.count("|") == rule.count("|") == line.count("|")
    assert json.loads(Path("bench.json").read_text()).keys() == answer.keys()


@pytest.mark.parametrize("name", [".", "none/bench.json", "one.db/bench.json"])
def test_bench_measures_nothing_where_it_cannot_save(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("warpsmith.cli.benching.compare", lambda *_: pytest.fail("it measured"))
    assert run(["bench", "filter2d", *ON_HOST, "--save", name]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"warpsmith: error: cannot write {name}: ")


class TestReport:
    def test_lists_every_winner(self, document: Callable[..., Any], printed: Callable[..., str]) -> None:
        (listed,) = document("report", "--store", "one.db")["records"]
        assert WON.spec().items() <= listed.items()
        assert listed["conditions"] == "eager, warm caches"
        assert listed["verdict"] == "2.00x faster than scipy ndimage.correlate, the fastest library beside it"
        *_, row = printed("report", "--store", "one.db").splitlines()
        assert row == (
            f"| {SMALL.key()} | {HOST.name} | filter2d_plain | 2.00 us | eager, warm caches | 50.0% "
            "| 2.00x faster than scipy ndimage.correlate | another: it is not installed |"
        )

    def test_of_a_winner_without_baselines(self, printed: Callable[..., str]) -> None:
        with Store.open("bare.db", write=True) as store:
            store.put_winner(dataclasses.replace(WON, device=H200, baselines=()))
        *_, row = printed("report", "--store", "bare.db").splitlines()
        assert row.endswith("| 2.00 us | eager, warm caches | - | - | another: it is not installed |")

    def test_of_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["report"]) == 3
        assert capsys.readouterr() == ("", "warpsmith: error: nothing is stored yet; run `warpsmith tune` first\n")


@pytest.mark.usefixtures("compile_unoptimised")
class TestDoctor:
    def test_is_content_with_a_host(self, document: Callable[..., Any], printed: Callable[..., str]) -> None:
        answer = document("doctor", "--store", "one.db")
        findings = {finding["name"]: finding for finding in answer["findings"]}
        assert answer["usable"] is True
        assert findings["stores"]["told"] == "one.db (1 winners)"
        assert findings["writes to"]["told"] == "one.db"
        assert findings["host"]["told"] == HOST.name
        assert {"cufft", "cublas"} <= findings.keys()
        assert [line[:2] for line in printed("doctor").splitlines()].count("ok") >= 5

    @without_gpu
    def test_names_what_to_install(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", "/none")
        assert run(["doctor"]) == 1
        shown = capsys.readouterr()
        assert re.search(r"^-- host compiler .*apt-get install g\+\+", shown.out, re.M)
        assert re.search(r"^-- gpu .*, or use the device host$", shown.out, re.M)
        assert shown.err.startswith("warpsmith: error: no device can be used here")
        assert len(shown.err.splitlines()) == 1

    def test_names_the_libraries_that_are_missing(
        self, printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(library_versions, "library_version", lambda _, library: f"{library} missing")
        lines = printed("doctor").splitlines()
        for name, package in (("cufft", "nvidia-cufft"), ("cublas", "nvidia-cublas")):
            (line,) = (line for line in lines if line.split()[1] == name)
            assert line.startswith("-- ")
            assert f"pip install {package}, or install the CUDA 13 toolkit" in line


@pytest.mark.usefixtures("compile_unoptimised")
def test_tune_then_ask_in_every_way(document: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    shape = ("filter2d", "--image", "40x48", "--filter", "2x3", "--border", Border.WRAP.value)
    problem = (*shape, "--device", "host")
    store = ("--store", "new/tuned.db")
    assert run(["tune", *problem, *store, "--trials", "3", "--seed", str(2**32 - 1), "--json"]) == 0
    shown = capsys.readouterr()
    tuned = json.loads(shown.out)
    assert "[3/3]" in shown.err
    assert (tuned["trials"], tuned["reused"], tuned["interrupted"]) == (3, 0, False)
    assert tuned["store"] == "new/tuned.db"
    asked = document("query", *problem, *store)
    assert asked["match"] == "exact"
    assert asked["record"] == tuned["record"]
    assert document("verify", *problem, *store)["right"] is True
    assert document("export", *shape, *store, "--out", "bundle")["kernels"] == 1
    assert len(document("explain", *problem, *store)["trials"]) == 3
    assert run(["tune", *problem, *store, "--trials", "3"]) == 0
    assert "0 now, 3 of earlier runs" in capsys.readouterr().out
