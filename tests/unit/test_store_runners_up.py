"""A store keeps, beside a winner, the fastest trial of each family that it beat."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic import command

from builders import LARGE, SMALL, failure, record, timing, trial
from warpsmith.errors import StoreError
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.store import migrations, opening, rows
from warpsmith.store.contents import check_store, contents_of, subjects_of
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.layout import RUNNERS_UP_TABLE
from warpsmith.store.merging import MergeReport, merge_stores
from warpsmith.store.prune import Unwanted, programs_of, prune_store
from warpsmith.store.record import FamilyTime, Record, Trial
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain
from warpsmith.store.store_reader import StoreReader

QUEUED, GRAPH = (
    f"median, 5 runs a sample, {launched}, in turns, cold L2" for launched in ("queued first", "CUDA graph")
)


def tried(family: str, ns: float = 5.0, number: int = 0, policy: str = QUEUED) -> Trial:
    return trial(number, timing(ns, policy=policy), family=family, fingerprint=f"{family}{number}")


def best(family: str, ns: float = 5.0, problem: Problem = SMALL, policy: str = QUEUED) -> Record:
    return record(problem, tried(family, ns, policy=policy))


def families(store: Store, problem: Problem = SMALL) -> dict[str, float | None]:
    """The families and times of a problem: the winner's first."""
    kept = (*store.winners(problem.key(), H200.key()), *store.runners_up(problem.key(), H200.key()))
    return {each.trial.family: each.trial.median_ns for each in kept}


@pytest.fixture
def filled(store: Store) -> Store:
    """`a` won in 3 ns, `b` took 4 and `c` 9."""
    store.put_winner(best("a", 3.0))
    store.put_runners_up((best("b", 4.0), best("c", 9.0)))
    return store


@pytest.fixture
def other() -> Store:
    return Store.open(":memory:", write=True)


class TestKeeping:
    def test_each_family_has_its_fastest(self, filled: Store) -> None:
        assert filled.winner(SMALL.key(), H200.key()) == best("a", 3.0)
        assert filled.runners_up(SMALL.key(), H200.key()) == (best("b", 4.0), best("c", 9.0))
        assert filled.beaten("b") == (best("b", 4.0),)
        assert filled.beaten("a") == ()
        assert filled.runners_up(LARGE.key(), H200.key()) == ()
        assert filled.records() == (best("a", 3.0),)
        assert check_store(filled) == ()

    def test_times_are_read_by_operation(self, filled: Store) -> None:
        conditions = "queued first, cold L2"
        expected = {FamilyTime(SMALL.key(), H200.key(), conditions, *each) for each in (("b", 4.0), ("c", 9.0))}
        assert set(filled.family_times("filter2d")) == expected
        assert expected == {FamilyTime.of(each) for each in filled.runners_up(SMALL.key(), H200.key())}
        assert filled.family_times("fft") == ()

    def test_the_later_replaces_the_earlier(self, filled: Store) -> None:
        filled.put_runners_up((best("b", 6.0),))
        assert families(filled) == {"a": 3.0, "b": 6.0, "c": 9.0}

    def test_a_winner_of_another_family_leaves_the_one_before_beside_it(self, filled: Store) -> None:
        filled.put_winner(best("b", 2.0))
        assert families(filled) == {"b": 2.0, "a": 3.0, "c": 9.0}
        assert filled.winner(SMALL.key(), H200.key()) == best("b", 2.0)

    def test_the_winners_own_family_has_no_row_beside_it(self, filled: Store) -> None:
        filled.put_runners_up((best("a", 8.0),))
        filled.put_winner(best("a", 2.5))
        assert families(filled) == {"a": 2.5, "b": 4.0, "c": 9.0}

    def test_conditions_are_kept_apart(self, filled: Store) -> None:
        filled.put_winner(best("c", 1.0, policy=GRAPH))
        filled.put_runners_up((best("b", 2.0, policy=GRAPH),))
        kept = filled.runners_up(SMALL.key(), H200.key())
        assert [(each.trial.family, each.trial.median_ns) for each in kept] == [("b", 4.0), ("c", 9.0), ("b", 2.0)]

    def test_a_failure_is_no_runner_up(self, filled: Store) -> None:
        with pytest.raises(ValueError, match="needs a measurement"):
            filled.put_runners_up((best("d"), record(SMALL, trial(1, failure()))))
        assert families(filled) == {"a": 3.0, "b": 4.0, "c": 9.0}


class TestMerge:
    def test_the_faster_of_each_family_stays(self, filled: Store, other: Store) -> None:
        other.put_winner(best("b", 3.5))
        other.put_runners_up((best("c", 10.0), best("d", 20.0)))
        assert merge_stores(filled, other) == MergeReport(0, 0, 0, winners_kept=1, runners_up_added=2)
        assert families(filled) == {"a": 3.0, "b": 3.5, "c": 9.0, "d": 20.0}

    def test_a_winner_that_lost_is_its_familys_fastest(self, filled: Store, other: Store) -> None:
        other.put_winner(best("b", 2.0))
        other.put_runners_up((best("a", 2.5), best("c", 30.0)))
        assert merge_stores(filled, other) == MergeReport(0, 0, winners_replaced=1, winners_kept=0, runners_up_added=1)
        assert families(filled) == {"b": 2.0, "a": 2.5, "c": 9.0}

    def test_again_changes_nothing(self, filled: Store, other: Store) -> None:
        for first, second in ((filled, other), (other, filled)):
            merge_stores(first, second)
        again = merge_stores(filled, other)
        assert again == MergeReport(0, 0, 0, winners_kept=1)
        assert families(filled) == families(other)

    def test_json_lines_carry_them(self, filled: Store, other: Store) -> None:
        lines = [*export_lines(filled)]
        assert json.loads(lines[0])["version"] == 2
        report = import_lines(other, lines)
        assert (report.winners_added, report.runners_up_added) == (1, 2)
        assert contents_of(other) == contents_of(filled)
        with pytest.raises(StoreError, match="1 of the 2 runners_up that its first line announces"):
            import_lines(other, lines[:-1])

    def test_lines_without_them_are_of_the_earlier_version(self, store: Store) -> None:
        store.put_winner(best("a"))
        header = json.loads(next(iter(export_lines(store))))
        assert header == {"format": "warpsmith-store", "version": 1, "trials": 0, "winners": 1}


class TestPrune:
    def test_stale_ones_go(self, filled: Store) -> None:
        listed = {(row["family"], row["fingerprint"]) for row in programs_of(filled)}
        assert listed == {("a", "a0"), ("b", "b0"), ("c", "c0")}
        stale = frozenset({(SMALL.key(), H200.key(), "b", '{"n":0}', "b0")})
        assert prune_store(filled, Unwanted(stale=stale), dry_run=True).runners_up == 1
        assert prune_store(filled, Unwanted(stale=stale)).runners_up == 1
        assert families(filled) == {"a": 3.0, "c": 9.0}

    def test_their_trials_stay_where_few_are_kept(self, filled: Store) -> None:
        filled.add_trials(SMALL, H200, (tried("a", 3.0), tried("b", 4.0), tried("b", 5.0, 1)))
        prune_store(filled, Unwanted(keep_trials=0))
        assert filled.trials(SMALL, H200) == (tried("a", 3.0), tried("b", 4.0))

    def test_everything_goes_with_its_problem(self, filled: Store) -> None:
        assert prune_store(filled, Unwanted(everything=True)).runners_up == 2
        assert subjects_of(filled) == ()
        assert contents_of(filled).problems == ()

    def test_a_problem_that_has_nothing_else_stays(self, store: Store) -> None:
        store.put_runners_up((best("b"),))
        prune_store(store, Unwanted(stale=frozenset()))
        assert subjects_of(store) == ((SMALL, H200),)


class TestEarlierSchema:
    @pytest.fixture
    def fourth(self, location: str) -> str:
        """A store of schema 4: `a` won, and of four more trials two are of `b`, one of them under other conditions."""
        with Store.open(location, write=True) as store:
            store.put_winner(best("a", 3.0))
            store.put_winner(best("a", 30.0, LARGE))
            store.add_trials(SMALL, H200, (tried("a", 3.0), tried("b", 5.0), tried("b", 4.0, 1), tried("c", 9.0)))
            store.add_trials(SMALL, H200, (tried("b", 1.0, 2, GRAPH), trial(7, failure(), family="d")))
        self.downgraded(location)
        return location

    def downgraded(self, location: str) -> None:
        opened = opening.open_location(location, write=True, immutable=False)
        with opened.writing() as connection:
            command.downgrade(migrations.config(connection), "0004")
            if connection.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA user_version = 4")
        opened.reader.dispose()

    def test_is_read_as_one_in_which_nothing_was_beaten(self, fourth: str) -> None:
        with Store.open(fourth, write=False) as store:
            assert families(store) == {"a": 3.0}
            assert store.beaten("b") == store.family_times("filter2d") == contents_of(store).runners_up == ()
            assert len(subjects_of(store)) == 2
            assert prune_store(store, Unwanted(everything=True), dry_run=True).runners_up == 0
            assert len(programs_of(store)) == 7
            assert check_store(store) == ()
        if Path(fourth).exists():
            with StoreReader.open(Path(fourth)) as reader:
                assert reader.runners_up(SMALL.key(), H200.key()) == reader.family_times("filter2d") == ()

    def test_comes_up_to_date_with_what_its_trials_tell(self, fourth: str) -> None:
        with Store.open(fourth, write=True) as store:
            assert families(store) == {"a": 3.0, "b": 4.0, "c": 9.0}
            assert [each.trial for each in store.beaten("b")] == [tried("b", 4.0, 1)]
            assert check_store(store) == ()
        with Store.open(fourth, write=False) as again:
            assert families(again) == {"a": 3.0, "b": 4.0, "c": 9.0}

    def test_a_reader_sees_when_another_process_brings_it_up_to_date(self, fourth: str) -> None:
        if not Path(fourth).exists():
            pytest.skip("a server is not read by this reader")
        with StoreReader.open(Path(fourth)) as reader:
            Store.open(fourth, write=True).close()
            assert len(reader.family_times("filter2d")) == 2

    def test_a_damaged_trial_is_left_out(self, tmp_path: Path, fourth: str, execute: Callable[..., None]) -> None:
        if Path(fourth).parent != tmp_path:
            pytest.skip("what damages it knows files alone")
        execute(Path(fourth), "UPDATE warpsmith_trials SET spec = '{' WHERE family = 'c'")
        with Store.open(fourth, write=True) as store:
            assert families(store) == {"a": 3.0, "b": 4.0}

    def test_a_downgrade_and_an_upgrade_keep_the_rest(self, location: str) -> None:
        with Store.open(location, write=True) as store:
            store.put_winner(best("a", 3.0))
            store.put_runners_up((best("b", 4.0),))
        self.downgraded(location)
        with Store.open(location, write=True) as store:
            assert families(store) == {"a": 3.0}

    def test_is_merged_as_it_is(self, fourth: str, other: Store) -> None:
        with Store.open(fourth, write=False) as store:
            assert merge_stores(other, store).runners_up_added == 0
        assert families(other) == {"a": 3.0}


class TestReader:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "a.db"
        with Store.open(str(path), write=True) as store:
            for problem in (SMALL, LARGE):
                store.put_winner(best("a", 3.0, problem))
                store.put_runners_up((best("c", 9.0, problem), best("b", 4.0, problem)))
                store.put_runners_up((best("b", 2.0, problem, GRAPH),))
        return path

    def test_answers_as_the_store_does(self, file: Path) -> None:
        with Store.open(str(file), write=False) as store, StoreReader.open(file) as reader:
            assert reader.runners_up(SMALL.key(), H200.key()) == store.runners_up(SMALL.key(), H200.key())
            assert len(reader.runners_up(SMALL.key(), H200.key())) == 3
            assert reader.beaten("b") == store.beaten("b")
            assert len(reader.beaten("b")) == 4
            assert sorted(reader.family_times("filter2d")) == sorted(store.family_times("filter2d"))
            assert reader.family_times("fft") == ()

    def test_the_first_store_comes_first(self, file: Path, tmp_path: Path) -> None:
        with Store.open(str(tmp_path / "b.db"), write=True) as second:
            second.put_winner(best("a"))
            second.put_runners_up((best("b", 1.0),))
            with StoreReader.open(file) as first:
                chain = StoreChain((second, first))
                assert [each.timing.median_ns for each in chain.runners_up(SMALL.key(), H200.key())][:2] == [1.0, 4.0]
                assert len(chain.beaten("b")) == 5
                assert len(chain.family_times("filter2d")) == 7

    def test_rows_that_cannot_be_read_are_left_out(self, file: Path, execute: Callable[..., None]) -> None:
        execute(file, f"UPDATE {RUNNERS_UP_TABLE} SET median_ns = 'fast' WHERE family = 'c'")
        for reader in (StoreReader.open(file), Store.open(str(file), write=False)):
            assert {each.family for each in reader.family_times("filter2d")} == {"b"}
            assert reader.beaten("c") == ()
        with Store.open(str(file), write=False) as store:
            assert [line.partition("fastest c of ")[1] for line in check_store(store)] == ["fastest c of "] * 2

    def test_columns_agree_with_the_json(self, file: Path) -> None:
        with Store.open(str(file), write=False) as store:
            for row in contents_of(store).runners_up:
                made = rows.record_of(row)
                assert {**rows.winner_row(dataclasses.replace(made)), "pins": ""} == row
