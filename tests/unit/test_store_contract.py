"""Behaviour of every store, whatever database keeps it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders import NVRTC, SMALL, failure, measurement, timing, trial
from builders import record as made_record
from warpsmith.errors import StoreError
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config
from warpsmith.store.contents import check_store, contents_of
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.merging import MergeReport, absorb, merge_stores
from warpsmith.store.record import (
    Baseline,
    Failure,
    FailureKind,
    Record,
    Trial,
)
from warpsmith.store.store import Store

LITERAL = Filter2d(image=(64, 48), filter=(1, 3), planes=2, border=Border.CONSTANT, cval=0.1, weights=(0.1, -2.0, 3e-8))


def measured(median_ns: float = 1234.5, *, block: int = 32) -> Trial:
    timed = timing(median_ns, median_ns * 0.9, median_ns * 1.25, samples=30, policy="median of 30, eager, cold L2")
    return trial(
        outcome=measurement(timed, max_error=3e-8, registers=40, spill_bytes=0, clock_mhz=1980),
        family="sliding",
        config={"block_x": block, "load": "vector"},
        fingerprint="0123456789abcdef",
        compiler=NVRTC,
        compile_ms=41.5,
    )


def failed(kind: FailureKind = FailureKind.COMPILE, *, block: int = 64) -> Trial:
    return trial(outcome=failure(kind, "line 3: no µ"), config={"block_x": block}, fingerprint="fedcba9876543210")


def record(problem: Problem = SMALL, median_ns: float = 1234.5) -> Record:
    copy = Baseline("copy", timing(1000.25, 999.0, 1001.0, samples=50, policy="median of 50"))
    return made_record(
        problem, measured(median_ns), baselines=[copy], environment={"driver": "580.1", "system": "Linux"}
    )


@pytest.fixture(params=["file", "memory", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An open store of each kind."""
    where = {"file": str(tmp_path / "a.db"), "memory": ":memory:"}.get(request.param)
    with Store.open(where or request.getfixturevalue("database"), write=True) as opened:
        yield opened


@pytest.fixture
def in_memory() -> Iterator[Store]:
    with Store.open(":memory:", write=True) as opened:
        yield opened


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "other.db"), write=True) as opened:
        yield opened


class TestTrials:
    def test_both_outcomes_come_back_as_they_were_in_order(self, store: Store) -> None:
        given = (measured(), failed(), failed(FailureKind.OUT_OF_BOUNDS, block=1), measured(0.5, block=2))
        for each in given:
            store.add_trials(SMALL, H200, [each])
        assert store.trials(SMALL, H200) == given

    def test_every_kind_of_failure_comes_back(self, store: Store) -> None:
        given = tuple(failed(kind, block=number) for number, kind in enumerate(FailureKind))
        for each in given:
            store.add_trials(SMALL, H200, [each])
        assert store.trials(SMALL, H200) == given

    def test_problems_and_devices_are_kept_apart(self, store: Store) -> None:
        store.add_trials(SMALL, H200, [measured()])
        store.add_trials(LITERAL, H200, [failed()])
        assert store.trials(LITERAL, H200) == (failed(),)
        assert store.trials(SMALL, HOST) == ()

    def test_the_same_program_again_replaces_the_outcome_and_keeps_its_place(self, store: Store) -> None:
        crashed = dataclasses.replace(measured(), outcome=Failure(FailureKind.CRASH, "signal 11"))
        for each in (crashed, failed(), measured(99.0)):
            store.add_trials(SMALL, H200, [each])
        assert store.trials(SMALL, H200) == (measured(99.0), failed())

    @pytest.mark.parametrize(
        "change",
        [
            {"family": "plain"},
            {"config": Config.of({"block_x": 33, "load": "vector"})},
            {"config": Config.of({"block_x": "32", "load": "vector"})},
            {"fingerprint": "another"},
            {"compiler": "nvrtc 13.1"},
        ],
    )
    def test_a_change_of_what_ran_is_another_trial(self, store: Store, change: dict[str, object]) -> None:
        changed = dataclasses.replace(measured(), **change)  # type: ignore[arg-type]
        store.add_trials(SMALL, H200, [measured()])
        store.add_trials(SMALL, H200, [changed])
        assert store.trials(SMALL, H200) == (measured(), changed)


class TestWinners:
    @pytest.mark.parametrize("problem", [SMALL, LITERAL])
    def test_every_field_comes_back(self, store: Store, problem: Problem) -> None:
        store.put_winner(record(problem))
        assert store.winner(problem.key(), H200.key()) == record(problem)

    def test_none_where_nothing_is_stored(self, store: Store) -> None:
        store.put_winner(record())
        assert store.winner(LITERAL.key(), H200.key()) is None
        assert store.winner(SMALL.key(), HOST.key()) is None

    def test_the_newer_replaces_the_older_even_where_it_is_slower(self, store: Store) -> None:
        store.put_winner(record(median_ns=5.0))
        store.put_winner(record(median_ns=6.0))
        assert store.records() == (record(median_ns=6.0),)

    def test_records_are_ordered_and_chosen_by_operation(self, store: Store) -> None:
        for problem in (SMALL, LITERAL):
            store.put_winner(record(problem))
        expected = tuple(sorted((record(SMALL), record(LITERAL)), key=lambda each: each.problem.key()))
        assert store.records() == expected
        assert store.records("filter2d") == expected
        assert store.records("fft") == ()

    def test_a_problem_s_winners_are_those_of_one_device_or_of_all(self, store: Store) -> None:
        found = [dataclasses.replace(record(), device=HOST), record()]
        for each in (*found, record(LITERAL)):
            store.put_winner(each)
        assert store.winners(SMALL.key(), H200.key()) == (found[1],)
        assert store.winners(SMALL.key()) == tuple(sorted(found, key=lambda each: each.device.key()))

    def test_a_failure_cannot_win(self, store: Store) -> None:
        with pytest.raises(ValueError, match="needs a measurement"):
            store.put_winner(dataclasses.replace(record(), trial=failed()))
        assert store.records() == ()


class TestMerge:
    def test_new_rows_are_added_and_the_faster_winner_stays(self, store: Store, other: Store) -> None:
        third = Filter2d(image=(9, 9), filter=(2, 2))
        fourth = Filter2d(image=(10, 9), filter=(2, 2))
        store.add_trials(SMALL, H200, [measured(7.0)])
        for problem, own_ns, their_ns in ((SMALL, 10.0, 9.0), (LITERAL, 10.0, 11.0), (third, 10.0, 10.0)):
            store.put_winner(record(problem, own_ns))
            other.put_winner(record(problem, their_ns))
        other.put_winner(record(fourth, 3.0))
        for each in (measured(8.0), failed(), failed(block=3)):
            other.add_trials(SMALL, H200, [each])

        assert merge_stores(store, other) == MergeReport(
            trials_added=2, winners_added=1, winners_replaced=1, winners_kept=2
        )
        times = {each.problem: each.trial.median_ns for each in store.records()}
        assert times == {SMALL: 9.0, LITERAL: 10.0, third: 10.0, fourth: 3.0}
        # The trial that both hold keeps this store's outcome.
        assert store.trials(SMALL, H200) == (measured(7.0), failed(), failed(block=3))

    def test_again_changes_nothing(self, store: Store, other: Store) -> None:
        other.add_trials(SMALL, H200, [failed()])
        other.put_winner(record())
        merge_stores(store, other)
        assert merge_stores(store, other) == MergeReport(0, 0, 0, winners_kept=1)

    def test_with_itself_changes_nothing(self, store: Store) -> None:
        store.add_trials(SMALL, H200, [failed()])
        assert merge_stores(store, store) == MergeReport(0, 0, 0, 0)

    def test_is_undone_where_a_late_row_fails(self, store: Store, other: Store) -> None:
        other.add_trials(SMALL, H200, [failed()])
        other.put_winner(record())
        contents = contents_of(other)
        broken = dataclasses.replace(contents, winners=({**contents.winners[0], "device_key": "nobody"},))
        with pytest.raises(StoreError):
            absorb(store, broken)  # no such device: the foreign key refuses it
        assert store.trials(SMALL, H200) == ()
        assert contents_of(store).problems == ()


class TestJsonLines:
    @pytest.fixture
    def lines(self, other: Store) -> list[str]:
        for each in (measured(), failed()):
            other.add_trials(LITERAL, HOST, [each])
        other.put_winner(record())
        return list(export_lines(other))

    def test_carry_a_whole_store(self, store: Store, lines: list[str]) -> None:
        assert json.loads(lines[0]) == {"format": "warpsmith-store", "version": 1, "trials": 2, "winners": 1}
        assert import_lines(store, lines) == MergeReport(2, 1, 0, 0)
        assert store.trials(LITERAL, HOST) == (measured(), failed())
        assert store.records() == (record(),)
        assert list(export_lines(store)) == lines
        assert check_store(store) == ()

    def test_empty_lines_are_skipped(self, store: Store, lines: list[str]) -> None:
        assert import_lines(store, [f"{line}\n\n" for line in lines for line in line.splitlines()]).trials_added == 2

    @pytest.mark.parametrize(
        ("number", "old", "new", "why"),
        [
            (1, "warpsmith-store", "kernel-tuner", "the first line must say format 'warpsmith-store'"),
            (1, '"version": 1', '"version": 5', "upgrade warpsmith"),
            (1, '"trials"', '"tests"', "must count trials and winners"),
            (2, "}", "", "JSON is damaged"),
            (2, '"kind": "trial"', '"kind": "study"', "neither 'trial' nor 'winner'"),
            (3, '"operation": "filter2d"', '"operation": "dct"', "unknown operation 'dct'; this version knows"),
            (3, '"created_at"', '"made_at"', "'created_at' is missing"),
            (3, '"kind": "compile"', '"kind": "boredom"', "is not a trial"),
            (3, '"image": [64', '"image": [65', "own key is 'filter2d image=65x48"),
            (4, '"multiprocessors": 132', '"multiprocessors": 131', "own key is 'NVIDIA_H200/sm_90/131mp"),
            (4, '"median_ns": 1234.5', '"median_ns": "fast"', "must be finite and above 0"),
            (4, '"median_ns": 1234.5', '"median_ns": NaN', "must be finite and above 0"),
            (4, '"measurement"', '"failure"', "is not a winner"),
            (4, '"fingerprint": "0123456789abcdef"', '"fingerprint": 7', "must be text"),
        ],
    )
    def test_a_bad_line_is_named_and_nothing_is_imported(
        self, in_memory: Store, lines: list[str], number: int, old: str, new: str, why: str
    ) -> None:
        """Lines are read before any kind of store is asked; `test_cli_db_merge.py` has bad lines for each kind."""
        assert old in lines[number - 1]
        lines[number - 1] = lines[number - 1].replace(old, new)
        with pytest.raises(StoreError) as caught:
            import_lines(in_memory, lines, source="b.jsonl")
        message = str(caught.value)
        assert message.startswith(f"b.jsonl, line {number}: ")
        assert why in message
        assert message.endswith("; nothing was imported")
        assert "\n" not in message
        assert contents_of(in_memory).problems == ()

    @pytest.mark.parametrize(
        ("kept", "why"), [(2, "holds 1 of the 2 trials"), (3, "holds 0 of the 1 winners"), (0, "empty")]
    )
    def test_missing_lines_are_noticed(self, in_memory: Store, lines: list[str], kept: int, why: str) -> None:
        with pytest.raises(StoreError, match=why):
            import_lines(in_memory, lines[:kept])
        assert contents_of(in_memory).problems == ()

    def test_a_picture_is_refused(self, store: Store, tmp_path: Path) -> None:
        picture = tmp_path / "a.png"
        picture.write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
        with picture.open(encoding="utf-8") as lines, pytest.raises(StoreError, match=r"a\.png is not text in UTF-8"):
            import_lines(store, lines, source=str(picture))


def test_store_without_findings_checks_clean(store: Store) -> None:
    store.add_trials(SMALL, H200, [measured()])
    store.add_trials(LITERAL, HOST, [failed()])
    store.put_winner(record(LITERAL))
    assert check_store(store) == ()
