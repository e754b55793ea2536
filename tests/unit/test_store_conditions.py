"""Winners and trials under other conditions: kept and merged apart; the usual winners answer."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from builders import SMALL as PROBLEM
from builders import failure, timing
from builders import winner as stored_winner
from warpsmith.generator.device import Device
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.generator.registry import families_for
from warpsmith.plans.lookup import find
from warpsmith.store.contents import check_store, count_rows
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.merging import MergeReport, merge_stores
from warpsmith.store.prune import Unwanted, programs_of, prune_store
from warpsmith.store.record import (
    FailureKind,
    Measurement,
    Provenance,
    Record,
    Trial,
    trial_spec,
)
from warpsmith.store.rows import Unreadable, checked_trial
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain
from warpsmith.store.tuners import Claim

KEYS = (PROBLEM.key(), H200.key())
USUAL, WARM, GRAPH = "queued first, cold L2", "queued first, warm caches", "CUDA graph, cold L2"


def winner(conditions: str, median_ns: float = 5.0, problem: Filter2d = PROBLEM, device: Device = H200) -> Record:
    family = families_for(problem, device)[0]
    timed = timing(median_ns, policy=f"median, 2 runs a sample, {conditions}")
    return stored_winner(problem, timed, device, family=family)


class TestStore:
    def test_one_never_takes_the_place_of_another(self, store: Store) -> None:
        kept = [winner(conditions) for conditions in (GRAPH, USUAL, WARM)]
        for each in kept:
            store.put_winner(each)
        assert store.winners(*KEYS) == store.records() == (kept[1], kept[2], kept[0])
        assert count_rows(store).winners == 3
        assert check_store(store) == ()

    def test_the_same_conditions_are_the_same_winner_however_they_are_told(self, store: Store) -> None:
        store.put_winner(winner(USUAL))
        again = winner(f"queued first, in turns, {USUAL.split(', ')[1]}, throttled", 6.0)
        store.put_winner(again)
        assert store.winners(*KEYS) == (again,)

    def test_the_usual_one_answers_where_there_is_one(self, store: Store) -> None:
        store.put_winner(winner(GRAPH, 1.0))
        assert store.winner(*KEYS) == winner(GRAPH, 1.0)
        store.put_winner(winner(WARM, 2.0))
        assert store.winner(*KEYS) == winner(WARM, 2.0)
        store.put_winner(winner(USUAL, 3.0))
        assert store.winner(*KEYS) == winner(USUAL, 3.0)
        assert store.winner(*KEYS, GRAPH) == winner(GRAPH, 1.0)
        assert store.winner(*KEYS, "eager, cold L2") is None

    def test_only_its_own_soft_facts_are_renewed(self, store: Store) -> None:
        store.put_winner(winner(USUAL))
        store.put_winner(winner(GRAPH))
        noted = dataclasses.replace(
            winner(GRAPH), provenance=Provenance("2026-01-02T03:04:05+00:00", "0.2.0", {"a": "b"})
        )
        assert store.renew(noted)
        assert store.winners(*KEYS) == (winner(USUAL), noted)
        assert not store.renew(winner(WARM))

    def test_merging_compares_equal_conditions_only(self, store: Store) -> None:
        store.put_winner(winner(USUAL, 5.0))
        store.put_winner(winner(WARM, 5.0))
        with Store.open(":memory:", write=True) as other:
            for conditions, ns in ((GRAPH, 1.0), (USUAL, 4.0), (WARM, 6.0)):
                other.put_winner(winner(conditions, ns))
            assert merge_stores(store, other) == MergeReport(0, winners_added=1, winners_replaced=1, winners_kept=1)
            assert merge_stores(store, other) == MergeReport(0, winners_added=0, winners_replaced=0, winners_kept=3)
        assert store.winners(*KEYS) == (winner(USUAL, 4.0), winner(WARM, 5.0), winner(GRAPH, 1.0))

    def test_all_of_them_travel_as_lines(self, store: Store) -> None:
        for conditions in (USUAL, GRAPH):
            store.put_winner(winner(conditions))
        with Store.open(":memory:", write=True) as other:
            import_lines(other, export_lines(store))
            assert other.records() == store.records()

    def test_pruning_keeps_the_trials_of_each_and_removes_all_or_the_stale(self, store: Store) -> None:
        families = families_for(PROBLEM, H200)
        graph = winner(GRAPH)
        other = dataclasses.replace(graph.trial, family=families[-1].name, fingerprint="another")
        store.put_winner(winner(USUAL))
        store.put_winner(dataclasses.replace(graph, trial=other))
        slow = dataclasses.replace(graph.trial, fingerprint="slow")
        store.add_trials(PROBLEM, H200, (graph.trial, other, slow))
        prune_store(store, Unwanted(keep_trials=0))
        assert store.trials(PROBLEM, H200) == (graph.trial, other)
        programs = {
            tuple(row[name] for name in ("problem_key", "device_key", "family", "config", "fingerprint"))
            for row in programs_of(store)
        }
        stale = next(each for each in programs if each[-1] == "another")
        prune_store(store, Unwanted(stale=frozenset({stale})))
        assert store.winners(*KEYS) == (winner(USUAL),)
        store.put_winner(graph)
        assert len(prune_store(store, Unwanted(everything=True)).winners) == 2
        assert store.records() == ()


def trial(conditions: str | None, median_ns: float = 5.0, kind: FailureKind = FailureKind.WRONG) -> Trial:
    """Trial of a single program: its time under `conditions`, or a failure if there are none."""
    timed = winner(conditions or USUAL, median_ns).trial
    return timed if conditions is not None else dataclasses.replace(timed, outcome=failure(kind, "why"))


class TestTrials:
    def after(self, store: Store, *added: Trial) -> tuple[Trial, ...]:
        """Trials that a store keeps after these were added one by one, the same as in one batch."""
        for each in added:
            store.add_trials(PROBLEM, H200, [each])
        one_by_one = store.trials(PROBLEM, H200)
        with Store.open(":memory:", write=True) as other:
            other.add_trials(PROBLEM, H200, added)
            assert set(other.trials(PROBLEM, H200)) == set(one_by_one)
        assert check_store(store) == ()
        return one_by_one

    def test_under_other_conditions_are_others(self, store: Store) -> None:
        added = [trial(conditions) for conditions in (USUAL, GRAPH, WARM)]
        assert self.after(store, *added) == tuple(added)

    def test_under_the_same_conditions_are_one(self, store: Store) -> None:
        again = trial(f"queued first, in turns, {USUAL.split(', ')[1]}, throttled", 6.0)
        assert self.after(store, trial(USUAL), trial(GRAPH), again) == (again, trial(GRAPH))

    def test_of_a_program_that_fails_none_stays(self, store: Store) -> None:
        assert self.after(store, trial(USUAL), trial(GRAPH), trial(None)) == (trial(None),)
        assert store.trials_since(PROBLEM, H200, 0)[0] == 1  # in the place of the oldest

    def test_of_a_program_that_failed_are_new(self, store: Store) -> None:
        assert self.after(store, trial(None), trial(GRAPH), trial(USUAL)) == (trial(GRAPH), trial(USUAL))
        assert store.trials_since(PROBLEM, H200, 1)[1] == (trial(USUAL),)

    def test_a_program_that_was_not_run_keeps_its_times(self, store: Store) -> None:
        dropped = trial(None, kind=FailureKind.DROPPED)
        assert self.after(store, dropped) == (dropped,)
        assert self.after(store, trial(USUAL), dropped) == (trial(USUAL),)

    def test_claims_are_of_programs_and_end_with_any_trial(self, store: Store) -> None:
        wanted = trial(USUAL)
        claim = Claim(wanted.family, wanted.config, wanted.fingerprint, wanted.compiler)
        first, second = store.tuners.register("first"), store.tuners.register("second")
        assert store.tuners.claim(PROBLEM, H200, first, [claim]).mine == {claim}
        assert not store.tuners.claim(PROBLEM, H200, second, [claim]).mine
        store.add_trials(PROBLEM, H200, (trial(GRAPH), trial(WARM)))
        answered = store.tuners.claim(PROBLEM, H200, second, [claim], lambda each: each == trial(WARM))
        assert (answered.mine, answered.stored) == (frozenset(), (trial(WARM),))
        assert store.tuners.claim(PROBLEM, H200, second, [claim], lambda each: each == wanted).mine == {claim}

    @pytest.mark.parametrize(
        ("mine", "theirs", "kept"),
        [
            ((USUAL,), (USUAL, GRAPH), (USUAL, GRAPH)),
            ((USUAL,), (None,), (USUAL,)),
            ((None,), (USUAL, GRAPH), (None,)),
            ((), (USUAL, GRAPH), (USUAL, GRAPH)),
            ((), (None,), (None,)),
        ],
    )
    def test_merging_adds_what_does_not_contradict(
        self, store: Store, mine: tuple[str | None, ...], theirs: tuple[str | None, ...], kept: tuple[str | None, ...]
    ) -> None:
        store.add_trials(PROBLEM, H200, map(trial, mine))
        with Store.open(":memory:", write=True) as other:
            other.add_trials(PROBLEM, H200, (trial(each, 7.0) for each in theirs))
            assert merge_stores(store, other).trials_added == len(kept) - len(mine)
            assert merge_stores(store, other).trials_added == 0
        expected = {trial(each, 5.0 if each in mine else 7.0) for each in kept}
        assert set(store.trials(PROBLEM, H200)) == expected
        with Store.open(":memory:", write=True) as copy:
            import_lines(copy, export_lines(store))
            assert copy.trials(PROBLEM, H200) == store.trials(PROBLEM, H200)

    def test_the_fastest_are_kept_of_each_conditions(self, store: Store) -> None:
        store.put_winner(dataclasses.replace(winner(USUAL), trial=dataclasses.replace(trial(USUAL), fingerprint="w")))
        for conditions, ns in ((USUAL, 9.0), (USUAL, 8.0), (GRAPH, 1.0), (GRAPH, 2.0)):
            store.add_trials(PROBLEM, H200, [dataclasses.replace(trial(conditions, ns), fingerprint=f"{ns}")])
        prune_store(store, Unwanted(keep_trials=1))
        assert [each.median_ns for each in store.trials(PROBLEM, H200)] == [8.0, 1.0]

    def test_a_policy_that_is_no_text_is_damage(self) -> None:
        broken = winner(USUAL).trial
        timing = dataclasses.replace(winner(USUAL).timing, policy=5)  # type: ignore[arg-type]
        assert isinstance(broken.outcome, Measurement)
        spec = trial_spec(dataclasses.replace(broken, outcome=dataclasses.replace(broken.outcome, timing=timing)))
        with pytest.raises(Unreadable, match="policy"):
            checked_trial(spec)


class TestChain:
    @pytest.fixture
    def chain(self, tmp_path: Path) -> StoreChain:
        """The first store has a winner in graphs alone, the second one both."""
        first = Store.open(str(tmp_path / "first.db"), write=True)
        first.put_winner(winner(GRAPH, 1.0))
        second = Store.open(str(tmp_path / "second.db"), write=True)
        second.put_winner(winner(GRAPH, 2.0))
        second.put_winner(winner(USUAL, 3.0))
        return StoreChain((first, second))

    def test_the_first_store_answers_first_and_nothing_is_hidden(self, chain: StoreChain) -> None:
        with chain:
            assert [each.timing.median_ns for each in chain.winners(*KEYS)] == [1.0, 3.0, 2.0]
            assert chain.records() == (winner(GRAPH, 1.0), winner(USUAL, 3.0))
            assert chain.answers() == (winner(GRAPH, 1.0),)

    def test_a_look_up_falls_back_to_other_conditions(self, tmp_path: Path) -> None:
        with Store.open(str(tmp_path / "a.db"), write=True) as store:
            store.put_winner(winner(GRAPH, 1.0))
            usual = winner(USUAL, 3.0)
            store.put_winner(usual)
            assert find(PROBLEM, H200, StoreChain((store,))).record == usual
            store.put_winner(dataclasses.replace(usual, trial=dataclasses.replace(usual.trial, fingerprint="older")))
            assert find(PROBLEM, H200, StoreChain((store,))).record == winner(GRAPH, 1.0)

    def test_the_nearest_problem_answers_with_its_usual_winner(self, tmp_path: Path) -> None:
        with Store.open(str(tmp_path / "a.db"), write=True) as store:
            store.put_winner(winner(GRAPH, 1.0))
            store.put_winner(winner(USUAL, 3.0))
            asked = dataclasses.replace(PROBLEM, image=(80, 64))
            assert find(asked, H200, StoreChain((store,))).record == winner(USUAL, 3.0)
