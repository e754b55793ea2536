"""`warpsmith db check --times`: winners that are measured again, the output, and what is recorded."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import timing, winner
from warpsmith.cli import db_check
from warpsmith.cli.app import run
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import StoreError
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.store import location
from warpsmith.store.record import Baseline, Checked, Record, Timing, Verdict, checked_of, marked
from warpsmith.store.store import Store
from warpsmith.tuner.finals.recheck import Rechecked

HOST = DeviceRef(DeviceKind.HOST)
PROBLEMS = [Filter2d(image=(16 * number, 64), filter=(3, 3)) for number in range(1, 5)]
CHECK = ("db", "check", "--times", "--device", "host", "--store", "a.db")
SHIPPED = location.shipped_store()
AT = "2026-03-04T05:06:07+00:00"


def timed(ns: float) -> Timing:
    return timing(ns, samples=15, policy="median, 1 runs a sample, eager, in turns, warm caches")


def stored(problem: Filter2d, ns: float = 5000.0) -> Record:
    return winner(problem, timed(ns), HOST.device(), environment={"os": "Linux"})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, made_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with `a.db`: winners of this machine, and one of a GPU. No store is shipped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(location, "shipped_store", lambda: Path("/none/cache.db"))
    shutil.copy(made_file, "a.db")
    with Store.open("a.db", write=True) as store:
        for problem in PROBLEMS:
            store.put_winner(stored(problem))
        store.put_winner(dataclasses.replace(stored(PROBLEMS[0]), device=H200))
    return tmp_path


class Rechecks:
    """Stand-in for the check: gives a result for each problem, and notes the problems."""

    def __init__(self) -> None:
        self.verdicts: dict[Filter2d, Verdict] = {}
        self.seen: list[Any] = []
        self.at = AT

    def __call__(self, record: Record, device: DeviceRef, seed: int) -> Rechecked:
        assert device == HOST
        assert seed == 1
        self.seen.append(record.problem)
        assert isinstance(record.problem, Filter2d)
        verdict = self.verdicts.get(record.problem, Verdict.SAME)
        ns = {Verdict.SAME: 5010.0, Verdict.SLOWER: 6000.0, Verdict.FASTER: 4000.0}.get(verdict)
        if ns is None:
            return Rechecked(record, Checked(self.at, verdict, None, "590.1"), None, f"it is {verdict}, since")
        return Rechecked(record, Checked(self.at, verdict, ns, "590.1"), timed(ns), None, (100.0, 110.0))


@pytest.fixture
def rechecks(monkeypatch: pytest.MonkeyPatch) -> Rechecks:
    fake = Rechecks()
    monkeypatch.setattr(db_check, "recheck", fake)
    return fake


def noted(problem: Filter2d) -> Checked | None:
    with Store.open("a.db", write=False) as store:
        record = store.winner(problem.key(), HOST.device().key())
    assert record is not None
    return checked_of(record)


class TestTimes:
    def test_all_good(self, document: Callable[..., Any], rechecks: Rechecks) -> None:
        told = document(*CHECK)
        assert told["stores"] == {"a.db": []}
        assert told["times"]["device_key"] == HOST.device().key()
        assert told["times"]["winners"] == 4
        assert sorted(each["problem_key"] for each in told["times"]["looked_at"]) == [each.key() for each in PROBLEMS]
        assert told["times"]["looked_at"][0] == {
            "store": "a.db",
            "problem_key": rechecks.seen[0].key(),
            "verdict": "same",
            "time_ns": 5010.0,
            "was_ns": 5000.0,
            "copy_ns": 110.0,
            "copy_was_ns": 100.0,
            "reason": None,
            "noted": True,
        }
        assert [noted(problem) for problem in PROBLEMS] == [Checked(AT, Verdict.SAME, 5010.0, "590.1")] * 4

    @pytest.mark.parametrize("verdict", [Verdict.SLOWER, Verdict.FASTER, Verdict.WRONG])
    def test_what_moved_or_is_wrong_fails_in_one_line(
        self, capsys: pytest.CaptureFixture[str], rechecks: Rechecks, verdict: Verdict
    ) -> None:
        rechecks.verdicts[PROBLEMS[2]] = verdict
        assert run(list(CHECK)) == 1
        shown = capsys.readouterr()
        expected = "warpsmith: error: 1 of 4 winners have another time or a wrong result; tune them again\n"
        assert shown.err == expected
        (line,) = [line for line in shown.out.splitlines() if line.startswith(verdict)]
        assert PROBLEMS[2].key() in line
        told = {
            Verdict.SLOWER: "6.00 us (6.00 us to 6.00 us, n=15), was 5.00 us (+20.0%); a plain copy 0.110 us, "
            "was 0.100 us (+10.0%)",
            Verdict.FASTER: "was 5.00 us (-20.0%)",
            Verdict.WRONG: "it is wrong, since",
        }
        assert told[verdict] in line
        assert shown.out.splitlines()[-1].endswith(f": 3 same, 1 {verdict}")
        note = noted(PROBLEMS[2])
        assert note is not None
        assert note.verdict is verdict
        assert run([*CHECK, "--json"]) == 1
        shown = capsys.readouterr()
        assert json.loads(shown.out)["times"]["winners"] == 4
        assert shown.err == expected

    def test_what_could_not_be_checked_is_told_and_not_noted(
        self, capsys: pytest.CaptureFixture[str], rechecks: Rechecks
    ) -> None:
        rechecks.verdicts[PROBLEMS[0]] = Verdict.UNCHECKED
        assert run(list(CHECK)) == 0
        shown = capsys.readouterr()
        assert f"unchecked {PROBLEMS[0].key()}: it is unchecked, since" in shown.out.splitlines()
        assert shown.err == ""
        assert noted(PROBLEMS[0]) is None

    def test_a_sample_takes_turns(self, document: Callable[..., Any], rechecks: Rechecks) -> None:
        document(*CHECK, "--sample", "3")
        first = list(rechecks.seen)
        assert len(set(first)) == 3
        rechecks.at = "2026-03-05T05:06:07+00:00"
        document(*CHECK, "--sample", "2")
        (missing,) = set(PROBLEMS) - set(first)
        assert rechecks.seen[3] == missing
        assert rechecks.seen[4] in first
        document(*CHECK, "--sample", "99")
        assert len(rechecks.seen) == 3 + 2 + 4

    def test_damage_is_told_beside(
        self, capsys: pytest.CaptureFixture[str], rechecks: Rechecks, execute: Callable[..., None]
    ) -> None:
        rechecks.verdicts[PROBLEMS[1]] = Verdict.WRONG
        execute(Path("a.db"), f"UPDATE warpsmith_winners SET spec = '[' WHERE problem_key = '{PROBLEMS[0].key()}'")
        assert run(list(CHECK)) == 1
        shown = capsys.readouterr()
        assert len(shown.err.splitlines()) == 2
        assert "a.db: damaged" in shown.err
        assert "1 of 3 winners" in shown.err
        assert shown.out.startswith("damaged   a.db")

    def test_only_the_first_of_several_stores_is_asked_for_a_problem(
        self, document: Callable[..., Any], rechecks: Rechecks
    ) -> None:
        with Store.open(str(location.own_store()), write=True) as own:
            own.put_winner(stored(PROBLEMS[0], 1.0))
            own.put_winner(stored(Filter2d(image=(9, 9), filter=(2, 2))))
        looked = document(*CHECK)["times"]["looked_at"]
        assert len(rechecks.seen) == len(looked) == 5
        stores = {each["problem_key"]: (each["store"], each["noted"]) for each in looked}
        assert stores[PROBLEMS[0].key()] == ("a.db", True)
        # Only in the store that `tune` would write to is it noted.
        assert stores[Filter2d(image=(9, 9), filter=(2, 2)).key()] == (str(location.own_store()), False)

    def test_the_users_own_store_is_noted_in(self, document: Callable[..., Any], rechecks: Rechecks) -> None:
        with Store.open(str(location.own_store()), write=True) as own:
            own.put_winner(stored(PROBLEMS[0]))
        (looked,) = document("db", "check", "--times", "--device", "host")["times"]["looked_at"]
        assert (looked["store"], looked["noted"]) == (str(location.own_store()), True)
        assert rechecks.seen == [PROBLEMS[0]]

    def test_no_store_is_made_for_a_note_of_a_shipped_winner(
        self, document: Callable[..., Any], rechecks: Rechecks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(location, "shipped_store", lambda: Path("a.db").absolute())
        looked = document("db", "check", "--times", "--device", "host")["times"]["looked_at"]
        assert len(rechecks.seen) == 4
        assert not any(each["noted"] for each in looked)
        assert not location.own_store().exists()

    def test_a_winner_that_changed_meanwhile_is_not_noted(
        self, document: Callable[..., Any], rechecks: Rechecks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def look(record: Record, device: DeviceRef, seed: int) -> Rechecked:
            with Store.open("a.db", write=True) as store:
                store.put_winner(stored(PROBLEMS[0], 17.0))
            return rechecks(record, device, seed)

        monkeypatch.setattr(db_check, "recheck", look)
        looked = document(*CHECK)["times"]["looked_at"]
        assert {each["problem_key"]: each["noted"] for each in looked} == {
            problem.key(): problem != PROBLEMS[0] for problem in PROBLEMS
        }
        assert noted(PROBLEMS[0]) is None

    def test_a_store_that_may_only_be_read_is_looked_at_all_the_same(
        self, document: Callable[..., Any], rechecks: Rechecks, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = Store.open

        def open_only_to_read(place: str, *, write: bool, immutable: bool = False) -> Store:
            if write:
                raise StoreError(f"{place} is read-only")
            return opened(place, write=False, immutable=immutable)

        monkeypatch.setattr(Store, "open", open_only_to_read)
        looked = document(*CHECK)["times"]["looked_at"]
        assert len(rechecks.seen) == 4
        assert not any(each["noted"] for each in looked)


class TestRefusals:
    @pytest.mark.parametrize(
        ("code", "arguments", "why"),
        [
            (2, ("--sample", "3"), "add --times"),
            (2, ("--device", "host"), "add --times"),
            (2, ("--times", "--device", "gpu"), "choose auto, host"),
            (2, ("--times", "--device", "host", "--sample", "0"), "greater than or equal to 1"),
        ],
    )
    def test_bad_arguments_are_one_line(
        self, capsys: pytest.CaptureFixture[str], code: int, arguments: tuple[str, ...], why: str
    ) -> None:
        assert run(["db", "check", *arguments, "--store", "a.db"]) == code
        shown = capsys.readouterr()
        (line,) = shown.err.splitlines()
        assert why in line

    def test_nothing_for_this_device(self, capsys: pytest.CaptureFixture[str], rechecks: Rechecks) -> None:
        with Store.open("b.db", write=True) as store:
            store.put_winner(dataclasses.replace(stored(PROBLEMS[0]), device=H200))
        assert run(["db", "check", "--times", "--device", "host", "--store", "b.db"]) == 3
        assert HOST.device().key() in capsys.readouterr().err
        assert rechecks.seen == []


class TestNote:
    @pytest.mark.parametrize(
        "checked", [Checked(AT, Verdict.SLOWER, 0.1 + 0.2, "590.1"), Checked(AT, Verdict.WRONG, None, None)]
    )
    def test_comes_back(self, checked: Checked) -> None:
        once = marked(stored(PROBLEMS[0]), Checked("2026-01-01", Verdict.SAME, 1.0, "580"))
        noted = marked(once, checked)
        assert checked_of(noted) == checked
        assert noted.provenance.environment["os"] == "Linux"
        assert Record.from_spec(noted.spec()) == noted
        assert dataclasses.replace(noted, provenance=stored(PROBLEMS[0]).provenance) == stored(PROBLEMS[0])

    @pytest.mark.parametrize(
        "facts", [{}, {"checked": AT}, {"checked": AT, "checked verdict": "odd"}, {"checked": AT, "checked ns": "x"}]
    )
    def test_that_cannot_be_read_is_none(self, facts: dict[str, str]) -> None:
        record = stored(PROBLEMS[0])
        provenance = dataclasses.replace(record.provenance, environment=facts)
        assert checked_of(dataclasses.replace(record, provenance=provenance)) is None


class TestVerdicts:
    def test_lists_what_must_be_measured_again(
        self, capsys: pytest.CaptureFixture[str], document: Callable[..., Any]
    ) -> None:
        assert document("db", "check", "--store", "a.db", "--verdicts")["unfair"] == []
        with Store.open("a.db", write=True) as store:
            record = store.winner(PROBLEMS[1].key(), HOST.device().key())
            assert record is not None
            cold = dataclasses.replace(record.timing, policy="median, 1 runs a sample, queued first, cold L2")
            store.put_winner(dataclasses.replace(record, baselines=(Baseline("scipy 1.0", cold),)))
        assert run(["db", "check", "--store", "a.db", "--verdicts"]) == 1
        shown = capsys.readouterr()
        why = "timed under other conditions (queued first, cold L2; ours eager, warm caches)"
        assert f"unfair    {PROBLEMS[1].key()}: no verdict against scipy 1.0: {why}\n" in shown.out
        assert shown.err.startswith("warpsmith: error: 1 winners were compared with a library under other conditions")
        assert len(shown.err.splitlines()) == 1
        assert run(["db", "check", "--store", "a.db", "--verdicts", "--json"]) == 1
        (listed,) = json.loads(capsys.readouterr().out)["unfair"]
        assert listed["problem_key"] == PROBLEMS[1].key()
        assert listed["conditions"] == "eager, warm caches"
        assert run(["db", "check", "--store", "a.db"]) == 0

    def test_of_the_shipped_store_are_those_of_graphs(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(location, "shipped_store", lambda: SHIPPED)
        status = run(["db", "check", "--verdicts", "--json"])
        unfair = json.loads(capsys.readouterr().out)["unfair"]
        assert status == (1 if unfair else 0)
        assert {each["conditions"].split(", ")[0] for each in unfair} <= {"CUDA graph"}
        assert {each["problem_key"].split()[0] for each in unfair} <= {"fft"}
