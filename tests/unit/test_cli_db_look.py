"""`warpsmith db ls` and `db show`: contents of stores, and everything known of one problem."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import LARGE, SMALL, failure, generated, timing, winner
from warpsmith.cli.app import run
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.space import Config
from warpsmith.store import location
from warpsmith.store.poison import Started
from warpsmith.store.record import Baseline, Checked, FailureKind, Timing, Trial, Verdict, marked
from warpsmith.store.rows import MAX_STARTS
from warpsmith.store.store import Store

UNDONE = Filter2d(image=(96, 96), filter=(3, 3))
RUN = {
    "seed": 7,
    "trials": 20,
    "elapsed_s": 65.0,
    "interrupted": True,
    "costs": {"seconds": {"verify": 1.25, "ask": 0.5, "compile": 30.0}, "processes": 2},
}


def timed(ns: float) -> Timing:
    return timing(ns, policy="median, 1 runs a sample, queued first, cold L2")


COMPARED = winner(SMALL, timed(5000.0), baselines=[Baseline("cudnn 9", timed(22_000.0))])


def failed(kind: FailureKind, number: int = 0) -> Trial:
    return dataclasses.replace(generated(SMALL, failure(kind, "why")), fingerprint=f"{kind} {number}")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, made_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `a.db`. No store is shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    shutil.copy(made_file, "a.db")
    with Store.open("a.db", write=True) as store:
        for record in (COMPARED, winner(LARGE, timed(50_000.0))):
            store.add_trials(record.problem, H200, [record.trial])
            store.put_winner(record)
        store.add_trials(SMALL, H200, (failed(FailureKind.WRONG), failed(FailureKind.COMPILE)))
        store.add_trials(SMALL, H200, [failed(FailureKind.CRASH, number) for number in range(12)])
        store.runs.add(SMALL, H200, RUN)
        store.add_trials(UNDONE, HOST, [failed(FailureKind.COMPILE)])
    return tmp_path


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Output of a command that succeeds, by lines."""

    def call(*arguments: str) -> list[str]:
        assert run([*arguments, "--store", "a.db"]) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        return shown.out.splitlines()

    return call


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line of a command that is refused."""

    def call(code: int, *arguments: str) -> str:
        assert run([*arguments, "--store", "a.db"]) == code
        shown = capsys.readouterr()
        assert shown.out == ""
        (line,) = shown.err.splitlines()
        return line.removeprefix("warpsmith: error: ")

    return call


class TestLs:
    def test_a_line_a_winner_below_its_store(self, lines: Callable[..., list[str]]) -> None:
        assert lines("db", "ls") == [
            "a.db: 2 winners, 17 trials (failed: 2 compile, 12 crash, 1 wrong), 12 poisoned programs, 1 runs",
            f"    50.0 us       -  2026-01-02  queued first, cold L2      {LARGE.key()}  {H200.key()}",
            f"    5.00 us   4.40x  2026-01-02  queued first, cold L2      {SMALL.key()}  {H200.key()}",
        ]

    def test_programs_that_run_now_are_not_poisoned(self, lines: Callable[..., list[str]]) -> None:
        """Programs that were started and are not known to do harm run again; after three deaths they do not."""
        with Store.open("a.db", write=True) as store:
            started = [Started("filter2d_plain", Config.of({"a": n}), f"runs {n}") for n in range(5)]
            store.poison.mark_started(H200, started)
            for _ in range(MAX_STARTS - 1):
                store.poison.mark_started(H200, started[:1])
            assert len(store.poisoned(H200)) == 13
        assert "13 poisoned programs" in lines("db", "ls")[0]
        assert "13 of 13 poisoned programs" in lines("db", "prune", "--poisoned")[0]

    def test_document(self, document: Callable[..., Any]) -> None:
        told = document("db", "ls", "--store", "a.db")
        assert [row["problem_key"] for row in told["winners"]] == [LARGE.key(), SMALL.key()]
        assert told["winners"][1] == {
            "store": "a.db",
            "problem_key": SMALL.key(),
            "device_key": H200.key(),
            "time_ns": 5000.0,
            "vendor": "cudnn 9",
            "vendor_ratio": 4.4,
            "conditions": "queued first, cold L2",
            "verdict": "4.40x faster than cudnn 9, the fastest library beside it",
            "created": "2026-01-02T03:04:05+00:00",
            "checked": None,
        }
        failures = {"compile": 2, "crash": 12, "wrong": 1}
        counts = {"winners": 2, "trials": 17, "failures": failures, "poisoned": 12, "runs": 1}
        assert told["stores"] == [{"store": "a.db", **counts}]

    def test_every_store_that_is_asked(self, document: Callable[..., Any], folder: Path) -> None:
        with Store.open(str(location.own_store()), write=True) as own:
            own.put_winner(winner(SMALL, timed(6.0)))
        rows = document("db", "ls", "--store", "a.db")["winners"]
        expected = [("a.db", LARGE), ("a.db", SMALL), (str(location.own_store()), SMALL)]
        assert [(row["store"], row["problem_key"]) for row in rows] == [(store, each.key()) for store, each in expected]
        assert set(folder.iterdir()) == {folder / "a.db"}

    def test_of_no_store_is_nothing(self, document: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
        assert document("db", "ls") == {"winners": [], "stores": []}
        assert run(["db", "ls"]) == 0
        assert capsys.readouterr().out == ""

    def test_of_a_device(self, lines: Callable[..., list[str]]) -> None:
        assert lines("db", "ls", "--device-key", HOST.key()) == [
            "a.db: 0 winners, 1 trials (failed: 1 compile), 0 poisoned programs, 0 runs"
        ]
        assert len(lines("db", "ls", "--device-key", H200.key(), "--operation", "filter2d")) == 3

    def test_of_a_device_that_is_not_there_names_those_that_are(self, refusal: Callable[..., str]) -> None:
        line = refusal(3, "db", "ls", "--device-key", "NVIDIA_H100")
        assert line.startswith("nothing is stored for the device NVIDIA_H100; ")
        assert H200.key() in line
        assert HOST.key() in line

    def test_of_an_operation_that_there_is_none_of(self, refusal: Callable[..., str]) -> None:
        assert "choose one of filter2d" in refusal(2, "db", "ls", "--operation", "filter2D")

    def test_a_winner_that_moved_says_so(self, lines: Callable[..., list[str]], document: Callable[..., Any]) -> None:
        checked = Checked("2026-03-04T05:06:07+00:00", Verdict.SLOWER, 5500.0, "590.1")
        with Store.open("a.db", write=True) as store:
            assert store.renew(marked(COMPARED, checked))
        assert lines("db", "ls")[2].endswith(f"{H200.key()}  (slower on 2026-03-04)")
        assert document("db", "ls", "--store", "a.db")["winners"][1]["checked"] == dataclasses.asdict(checked)
        told = lines("db", "show", "filter=3x3", "image=64x64")
        expected = "checked   last checked on 2026-03-04 (driver 590.1): 5.50 us, slower than stored; "
        assert any(line.startswith(expected) for line in told)


class TestShow:
    def test_chooses_by_words(self, document: Callable[..., Any], refusal: Callable[..., str]) -> None:
        def shown(*words: str) -> list[str]:
            return [each["problem_key"] for each in document("db", "show", *words, "--store", "a.db")["records"]]

        assert shown() == [LARGE.key(), SMALL.key(), UNDONE.key()]
        assert shown("filter=3x3", "filter2d") == [SMALL.key(), UNDONE.key()]
        assert shown("filter2d", "filter=5x5") == shown(LARGE.key()) == [LARGE.key()]
        assert shown("--device-key", HOST.key()) == [UNDONE.key()]
        assert "db ls" in refusal(3, "db", "show", "filter=3x3", "filter=5x5")
        assert "db ls" in refusal(3, "db", "show", "--device-key", "nobody")

    def test_chooses_by_shape(self, document: Callable[..., Any], refusal: Callable[..., str]) -> None:
        shape = ("db", "show", "filter2d", "--image", "64x64", "--filter", "3x3")
        (record,) = document(*shape, "--store", "a.db")["records"]
        assert record["problem_key"] == SMALL.key()
        assert "run `warpsmith tune filter2d`" in refusal(3, *shape, "--border", "wrap")
        assert HOST.key() in refusal(3, *shape, "--device-key", HOST.key())
        assert "ROWSxCOLUMNS" in refusal(2, "db", "show", "filter2d", "--image", "64", "--filter=3x3")
        assert "--filter" in refusal(2, "db", "show", "filter2d", "--image", "64x64")

    def test_tells_all_that_is_known(self, document: Callable[..., Any]) -> None:
        (record,) = document("db", "show", "image=64x64", "--store", "a.db")["records"]
        assert record.items() >= COMPARED.spec().items()
        assert record["store"] == "a.db"
        assert record["trials"] == {"total": 15, "failures": {"compile": 1, "crash": 12, "wrong": 1}}
        (told,) = record["runs"]
        assert told.pop("created_at") > "2026"
        assert told == RUN
        assert record["poisoned"]["crash 3"] == {"kind": "crash", "message": "why"}
        assert len(record["poisoned"]) == 12

    def test_lines(self, lines: Callable[..., list[str]]) -> None:
        told = lines("db", "show", "image=64x64")
        assert told[0] == f"problem   {SMALL.key()}"
        assert "trials    15 stored; failed: 1 compile, 12 crash, 1 wrong" in told
        (run_line,) = [line for line in told if line.startswith("run ")]
        assert run_line.endswith("; 20 trials in 1:05; ask 0.5 s, compile 30.0 s, verify 1.2 s; interrupted")
        start = told.index("poisoned  12 programs that are not run again on this device")
        assert told[start + 1] == "          crash 0  crash: why"
        assert len(told) == start + 1 + 10 + 1  # the longest list that is printed, and an empty line

    def test_trials_without_a_winner(self, document: Callable[..., Any], lines: Callable[..., list[str]]) -> None:
        (record,) = document("db", "show", "image=96x96", "--store", "a.db")["records"]
        assert (record["trial"], record["problem"], record["runs"]) == (None, UNDONE.spec(), [])
        told = lines("db", "show", "image=96x96")
        assert "winner    none yet" in told
        assert "trials    1 stored; failed: 1 compile" in told

    def test_runs_of_other_versions(self, lines: Callable[..., list[str]]) -> None:
        with Store.open("a.db", write=True) as store:
            for spec in ({"trials": "many", "costs": 5, "elapsed_s": None}, {"costs": {"seconds": {"ask": "long"}}}):
                store.runs.add(UNDONE, HOST, spec)
            store.runs.add(UNDONE, HOST, {})
        assert len([line for line in lines("db", "show", "image=96x96") if line.startswith("run ")]) == 3

    def test_only_the_newest_runs_are_printed(self, lines: Callable[..., list[str]]) -> None:
        with Store.open("a.db", write=True) as store:
            for number in range(13):
                store.runs.add(UNDONE, HOST, {"trials": number})
        told = lines("db", "show", "image=96x96")
        assert [line.split("; ")[1] for line in told if line.startswith("run ")] == [
            f"{n} trials" for n in range(3, 13)
        ]
        assert "          and 3 older runs" in told

    def test_help_names_words_and_operations(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["db", "show", "--help"]) == 0
        told = capsys.readouterr().out
        assert "WORDS" in told
        assert "filter2d" in told
        assert run(["db", "show", "filter2d", "--help"]) == 0
        assert "--image" in capsys.readouterr().out


def test_a_store_of_the_first_schema_is_looked_into_as_it_is(
    lines: Callable[..., list[str]], execute: Callable[..., None]
) -> None:
    execute(
        Path("a.db"),
        *(f"DROP TABLE warpsmith_{table}" for table in ("poisoned", "runs", "claims", "tuners")),
        "UPDATE warpsmith_version SET version_num = '0001'",
        "PRAGMA user_version = 1",
    )
    before = Path("a.db").read_bytes()
    assert lines("db", "ls")[0].endswith("0 poisoned programs, 0 runs")
    assert "trials    15 stored; failed: 1 compile, 12 crash, 1 wrong" in lines("db", "show", "image=64x64")
    assert lines("db", "prune", "--keep-trials", "0")[0].startswith("to remove 14 of 17 trials")
    assert lines("db", "prune", "--device-key", HOST.key())[0].startswith("to remove 1 of 17 trials")
    assert Path("a.db").read_bytes() == before
