"""A store of schema 5 keeps its times only if the text is unchanged."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import create_engine, select, update

import exhaustive
from builders import LARGE, SMALL, measurement, record
from builders import trial as made_trial
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.fingerprint import verbatim_fingerprint
from warpsmith.generator.presets import H200
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.plans.lookup import find
from warpsmith.plans.match import MatchKind
from warpsmith.store import migrations, opening
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.merging import merge_stores
from warpsmith.store.opening import StoreUpgraded
from warpsmith.store.poison import Started
from warpsmith.store.record import Failure, FailureKind, Record, Trial
from warpsmith.store.rekeying import EarlierGenerator, StoredProgram
from warpsmith.store.store import Store
from warpsmith.store.store_chain import open_for_reading
from warpsmith.store.tables import poisoned, trials

FAMILY = Filter2dPlain()


@pytest.fixture(scope="module")
def earlier() -> Iterator[EarlierGenerator]:
    with EarlierGenerator() as generator:
        yield generator


def of_that_time(earlier: EarlierGenerator, problem: Problem) -> tuple[str, Program]:
    config = FAMILY.default(problem, H200)
    made = earlier.program(StoredProgram(problem.operation, problem.spec(), FAMILY.name, config.values()))
    assert made is not None
    return made


def trial_of(program: Program, fingerprint: str, **changed: object) -> Trial:
    trial = made_trial(1, measurement(), family=program.family, fingerprint=fingerprint)
    return dataclasses.replace(trial, config=program.config, **changed)


def planted(program: Program) -> str:
    """The fingerprint of a text that differs from the program's in one operation."""
    (unit,) = program.units
    source = unit.source.replace(" < ", " <= ", 1)
    assert source != unit.source
    other = dataclasses.replace(unit, source=source)
    return verbatim_fingerprint((other,), program.steps, program.workspaces)


def as_schema_5(location: str) -> None:
    """Makes a store one of an earlier version, which had no ceilings."""
    opened = opening.open_location(location, write=True, immutable=False)
    with opened.writing() as connection:
        command.downgrade(migrations.config(connection), "0005")
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA user_version = 5")
    opened.reader.dispose()


class Stored:
    """A store with a winner whose text is unchanged, and one whose text had another operation."""

    def __init__(self, location: str, earlier: EarlierGenerator) -> None:
        self.location = location
        fingerprint, self.program = of_that_time(earlier, SMALL)
        self.right = record(SMALL, trial_of(self.program, fingerprint))
        _, other = of_that_time(earlier, LARGE)
        self.wrong = record(LARGE, trial_of(other, planted(other)))
        with Store.open(location, write=True) as store:
            for each in (self.right, self.wrong):
                store.put_winner(each)
                store.add_trials(each.problem, each.device, [each.trial])
            started = Started(self.program.family, self.program.config, fingerprint)
            store.poison.mark_started(H200, [started])
        as_schema_5(location)

    def upgraded(self) -> tuple[Record, ...]:
        with pytest.warns(StoreUpgraded, match="1 of 2 winners keep their times; the others were of an older"):
            store = Store.open(self.location, write=True)
        with store:
            return store.records()


@pytest.fixture
def stored(location: str, earlier: EarlierGenerator) -> Stored:
    return Stored(location, earlier)


@exhaustive.one_in(2)
def test_a_text_that_differs_in_one_operation_is_refused(stored: Stored) -> None:
    right, wrong = sorted(stored.upgraded(), key=lambda each: each.problem.key() == LARGE.key())
    assert right.trial == dataclasses.replace(stored.right.trial, fingerprint=stored.program.fingerprint)
    assert wrong == stored.wrong
    with open_for_reading(stored.location) as stores:
        assert find(SMALL, H200, stores).kind is MatchKind.EXACT
        assert find(LARGE, H200, stores).kind is not MatchKind.EXACT


@exhaustive.one_in(2, 1)
def test_trials_and_the_poison_list_move_along(stored: Stored) -> None:
    stored.upgraded()
    with Store.open(stored.location, write=False) as store:
        (trial,) = store.trials(SMALL, H200)
        assert trial.fingerprint == stored.program.fingerprint
        assert store.trials(LARGE, H200) == (stored.wrong.trial,)
        with store.database.reading() as connection:
            assert connection.scalars(select(poisoned.c.fingerprint)).all() == [stored.program.fingerprint]


@exhaustive.one_in(2)
def test_a_second_opening_says_nothing(stored: Stored, recwarn: pytest.WarningsRecorder) -> None:
    stored.upgraded()
    recwarn.clear()
    Store.open(stored.location, write=True).close()
    assert not recwarn.list


@exhaustive.one_in(2, 1)
def test_an_older_store_that_is_only_read_answers_by_the_text_as_it_is(stored: Stored) -> None:
    """A writer has not updated the store yet; the answer is exact if no comment and no name of the text has changed."""
    fingerprint = verbatim_fingerprint(*_parts(FAMILY.program(SMALL, stored.program.config)))
    with open_for_reading(stored.location) as stores:
        is_exact = find(SMALL, H200, stores).kind is MatchKind.EXACT
    assert is_exact == (fingerprint == stored.right.trial.fingerprint)


def _parts(program: Program) -> tuple[object, ...]:
    return program.units, program.steps, program.workspaces


@exhaustive.one_in(2)
def test_what_is_merged_or_imported_from_an_older_store_moves_too(stored: Stored, tmp_path: Path) -> None:
    with Store.open(stored.location, write=False) as older:
        lines = list(export_lines(older))
        with Store.open(str(tmp_path / "merged.db"), write=True) as merged:
            merge_stores(merged, older)
            assert {each.trial.fingerprint for each in merged.records("filter2d")} == {
                stored.program.fingerprint,
                stored.wrong.trial.fingerprint,
            }
    with Store.open(str(tmp_path / "imported.db"), write=True) as imported:
        import_lines(imported, lines)
        (winner,) = imported.winners(SMALL.key(), H200.key())
        assert winner.trial.fingerprint == stored.program.fingerprint


@exhaustive.one_in(2, 1)
def test_poison_of_no_known_problem_moves_where_one_of_the_stores_problems_gives_the_text(
    location: str, earlier: EarlierGenerator
) -> None:
    fingerprint, program = of_that_time(earlier, SMALL)
    failed = Failure(FailureKind.TIMEOUT, "never ended")
    with Store.open(location, write=True) as store:
        store.add_trials(SMALL, H200, [trial_of(program, fingerprint, outcome=failed)])
        with store.database.writing() as connection:
            connection.exec_driver_sql("DELETE FROM warpsmith_trials")
    as_schema_5(location)
    Store.open(location, write=True).close()
    with Store.open(location, write=False) as store:
        assert store.poisoned(H200) == {program.fingerprint: failed}


@exhaustive.one_in(2)
def test_a_store_without_winners_is_upgraded_without_a_word(location: str, recwarn: pytest.WarningsRecorder) -> None:
    Store.open(location, write=True).close()
    as_schema_5(location)
    Store.open(location, write=True).close()
    assert not recwarn.list
    with Store.open(location, write=False) as store:
        assert store.records() == ()


@exhaustive.one_in(2, 1)
def test_a_damaged_row_stays_and_stops_nothing(stored: Stored) -> None:
    with Store.open(stored.location, write=False) as store:
        address = create_engine(store.database.server_url or f"sqlite:///{stored.location}")
    with address.begin() as connection:
        connection.execute(update(trials).values(config="{"))
    address.dispose()
    stored.upgraded()


def test_the_earlier_generator_makes_nothing_of_what_it_does_not_know(earlier: EarlierGenerator) -> None:
    assert earlier.program(StoredProgram("filter2d", SMALL.spec(), "of_tomorrow", {})) is None
    assert earlier.program(StoredProgram("filter2d", {}, FAMILY.name, {})) is None
    assert earlier.program(StoredProgram("filter2d", SMALL.spec(), FAMILY.name, {"no": 1})) is None
