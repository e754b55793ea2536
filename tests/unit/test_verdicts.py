"""Comparability of times: which may be compared, and what is said of each pair."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import SMALL, trial
from builders import record as made_record
from builders import timing as made_timing
from warpsmith.cli.verdicts import peer_cell, short, speed_up_words, summary
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.store.conditions import UNKNOWN, USUAL_FIRST, Cached, Conditions, Launched, conditions_key
from warpsmith.store.location import shipped_store
from warpsmith.store.record import COPY, Baseline, LeftOut, Record, Timing
from warpsmith.store.store import Store

LARGE = Filter2d((9216, 9216), (3, 3))
"""Problem whose buffer set is larger than twice the L2 cache."""
QUEUED, GRAPH = "queued first, cold L2", "CUDA graph, cold L2"


def timing(ns: float, conditions: str) -> Timing:
    return made_timing(ns, policy=f"median, 2 runs a sample, {conditions}")


def record(conditions: str, *baselines: Baseline, problem: Filter2d | Fft = SMALL) -> Record:
    won = trial(outcome=timing(1000.0, conditions), family="filter2d_plain", config={"columns": 1})
    return made_record(problem, won, baselines=baselines)


def baseline(name: str, ns: float, conditions: str, note: str | None = None) -> Baseline:
    return Baseline(name, timing(ns, conditions), note)


class TestConditions:
    @pytest.mark.parametrize("launched", Launched)
    @pytest.mark.parametrize("cached", Cached)
    @pytest.mark.parametrize("between", ["", "in turns, "])
    @pytest.mark.parametrize("behind", ["", ", throttled"])
    def test_turns_and_clocks_are_no_part_of_them(
        self, launched: Launched, cached: Cached, between: str, behind: str
    ) -> None:
        policy = f"median, 7 runs a sample, {launched}, {between}{cached}{behind}"
        assert Conditions.of(policy) == Conditions(launched, cached)
        assert conditions_key(policy) == f"{launched}, {cached}"

    @pytest.mark.parametrize("policy", ["", "median of 9", "median, 3 runs a sample, eager", "cold L2"])
    def test_what_is_not_told_is_unknown(self, policy: str) -> None:
        assert Conditions.of(policy) is None
        assert conditions_key(policy) == UNKNOWN

    def test_one_set_of_buffers_is_cold_where_it_flushes_the_cache(self) -> None:
        policy = "median, 2 runs a sample, queued first, in turns, same buffers"
        assert Conditions.of(policy) == Conditions(Launched.QUEUED, Cached.WARM)
        assert Conditions.of(policy, flushes=True) == Conditions(Launched.QUEUED, Cached.COLD)

    def test_those_of_a_plain_search_come_first_and_unknown_ones_last(self) -> None:
        assert USUAL_FIRST[0] == QUEUED
        assert USUAL_FIRST.index("queued first, warm caches") < USUAL_FIRST.index(GRAPH)
        assert USUAL_FIRST[-1] == UNKNOWN
        assert len(set(USUAL_FIRST)) == len(Launched) * len(Cached) + 1


class TestVerdict:
    def test_is_the_ratio_of_medians_under_equal_conditions(self) -> None:
        won = record(f"in turns, {QUEUED}", baseline("npp 13.1", 3060.0, QUEUED), baseline("cupy 14", 4000.0, QUEUED))
        assert [each.speed_up for each in won.verdicts] == [3.06, 4.0]
        assert won.vendor is won.baselines[0]
        assert summary(won.verdicts) == "3.06x faster than npp 13.1, the fastest library beside it"
        assert short(won.verdicts) == "3.06x"

    def test_says_who_is_slower(self) -> None:
        won = record(QUEUED, baseline("npp 13.1", 500.0, QUEUED))
        assert summary(won.verdicts) == "2.00x slower than npp 13.1, the fastest library beside it: use that"
        assert speed_up_words(1.0, "it") == "1.00x faster than it"

    @pytest.mark.parametrize(
        ("ours", "its"),
        [(GRAPH, QUEUED), (QUEUED, "queued first, warm caches"), (QUEUED, "eager, cold L2"), (QUEUED, GRAPH)],
    )
    def test_there_is_none_under_other_conditions(self, ours: str, its: str) -> None:
        won = record(ours, baseline("cufft 12", 1730.0, its))
        (verdict,) = won.verdicts
        assert (verdict.is_fair, verdict.speed_up) == (False, None)
        assert verdict.why_not == f"timed under other conditions ({its}; ours {ours})"
        assert won.vendor is None
        assert summary(won.verdicts) == f"no verdict against cufft 12: {verdict.why_not}"
        assert peer_cell(won.verdicts) == f"cufft 12: 1.73 us, no verdict: {verdict.why_not}"
        assert short(won.verdicts) == "unfair"

    def test_names_why_the_conditions_differ(self) -> None:
        won = record(GRAPH, baseline("cupy 14", 1730.0, QUEUED, "it could not be captured: no memory"))
        assert (won.verdicts[0].why_not or "").endswith(": it could not be captured: no memory")

    def test_there_is_none_where_the_clocks_were_held_down_for_one(self) -> None:
        won = record(f"{QUEUED}, throttled", baseline("npp 13.1", 3060.0, QUEUED))
        assert won.verdicts[0].why_not == "the clocks were held down for one of the two only"
        both = record(f"{QUEUED}, throttled", baseline("npp 13.1", 3060.0, f"{QUEUED}, throttled"))
        assert both.verdicts[0].is_fair

    def test_there_is_none_where_conditions_are_not_told(self) -> None:
        assert not record("median", baseline("npp 13.1", 3060.0, "median")).verdicts[0].is_fair

    def test_the_fastest_fair_library_counts_though_another_is_faster(self) -> None:
        won = record(
            GRAPH, baseline("npp 13.1", 1500.0, QUEUED), baseline("cupy 14", 2000.0, GRAPH), baseline(COPY, 9.0, GRAPH)
        )
        assert won.vendor is won.baselines[1]
        assert summary(won.verdicts) == "2.00x faster than cupy 14, the fastest library beside it"

    @pytest.mark.parametrize(("problem", "is_fair"), [(SMALL, False), (LARGE, True)])
    def test_buffers_of_its_own_are_as_cold_as_ours_where_they_are_large(
        self, problem: Filter2d, is_fair: bool
    ) -> None:
        won = record(QUEUED, baseline("npp 13.1", 3060.0, "queued first, in turns, same buffers"), problem=problem)
        assert won.verdicts[0].is_fair is is_fair

    def test_the_copy_and_kernels_of_ours_are_no_libraries(self) -> None:
        won = record(QUEUED, baseline(COPY, 900.0, QUEUED), baseline("filter2d_plain", 2000.0, QUEUED))
        assert [each.is_library for each in won.verdicts] == [False, False]
        assert won.vendor is None
        assert summary(won.verdicts) == "no other library was there to be measured beside it"
        assert short(won.verdicts) == peer_cell(won.verdicts) == "-"

    def test_survives_the_interchange_form(self) -> None:
        won = dataclasses.replace(
            record(GRAPH, baseline("cupy 14", 1730.0, QUEUED, "not captured")), left_out=(LeftOut("npp", "no border"),)
        )
        assert Record.from_spec(json.loads(json.dumps(won.spec()))) == won

    def test_a_record_of_the_first_version_has_no_notes(self) -> None:
        won = record(GRAPH, baseline("cupy 14", 1730.0, QUEUED))
        spec = won.spec()
        del spec["left_out"], spec["baselines"][0]["note"]
        assert Record.from_spec(spec) == won


class TestShown:
    @pytest.fixture
    def stored(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr("warpsmith.store.location.shipped_store", lambda: Path("/none/cache.db"))
        where = str(tmp_path / "one.db")
        with Store.open(where, write=True) as store:
            store.put_winner(record(GRAPH, baseline("cufft 12", 1730.0, QUEUED), baseline(COPY, 1200.0, QUEUED)))
        return where

    def test_without_a_verdict(self, stored: str, printed: Callable[..., str], document: Callable[..., object]) -> None:
        why = f"timed under other conditions ({QUEUED}; ours {GRAPH})"
        shown = printed("db", "show", "filter=3x3", "--store", stored)
        assert f"timed     {GRAPH}\n" in shown
        assert f"beside    cufft 12: 1.73 us (1.73 us to 1.73 us, n=9); no verdict: {why}\n" in shown
        assert f"verdict   no verdict against cufft 12: {why}\n" in shown
        assert "of copy speed" not in shown
        assert f"unfair  2026-01-02  {GRAPH}" in printed("db", "ls", "--store", stored)
        *_, row = printed("report", "--store", stored).splitlines()
        assert f"| 1.00 us | {GRAPH} | - | cufft 12: 1.73 us, no verdict: {why} | - |" in row
        (listed,) = document("db", "ls", "--store", stored)["winners"]  # type: ignore[index]
        assert (listed["conditions"], listed["vendor"], listed["vendor_ratio"]) == (GRAPH, None, None)
        assert listed["verdict"] == f"no verdict against cufft 12: {why}"
        (seen,) = document("db", "show", "filter=3x3", "--store", stored)["records"]  # type: ignore[index]
        assert [each["fair"] for each in seen["verdicts"]] == [False, False]
        assert seen["verdicts"][0]["why_not"] == why

    def test_winners_under_other_conditions_too(
        self, stored: str, printed: Callable[..., str], document: Callable[..., object]
    ) -> None:
        with Store.open(stored, write=True) as store:
            store.put_winner(record(QUEUED))
        shown = printed("db", "show", "filter=3x3", "--store", stored)
        assert f"timed     {QUEUED}\n" in shown
        assert f"also      {GRAPH}: 1.00 us (1.00 us to 1.00 us, n=9) by filter2d_plain columns=1\n" in shown
        (seen,) = document("db", "show", "filter=3x3", "--store", stored)["records"]  # type: ignore[index]
        assert seen["conditions"] == QUEUED
        assert [each["conditions"] for each in seen["other_winners"]] == [GRAPH]


def test_shipped_transforms_in_graphs_were_set_beside_cufft_without_one() -> None:
    with Store.open(str(shipped_store()), write=False) as store:
        records = store.records()
    for each in records:
        libraries = [verdict for verdict in each.verdicts if verdict.is_library]
        if each.conditions.startswith(Launched.GRAPH) and each.provenance.warpsmith == "0.1.0" and not each.left_out:
            launched = [verdict.conditions.startswith(Launched.GRAPH) for verdict in libraries]
            assert all(verdict.is_fair is graph for verdict, graph in zip(libraries, launched, strict=True))
        else:
            assert all(verdict.is_fair for verdict in libraries), each.problem.key()
