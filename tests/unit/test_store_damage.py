"""Unreadable rows: one spoils no neighbour and is always reported."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from builders import SMALL as PROBLEM
from builders import record, trial
from warpsmith.errors import StoreError
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200
from warpsmith.store.contents import check_store, contents_of, subjects_of
from warpsmith.store.interchange import export_lines
from warpsmith.store.merging import merge_stores
from warpsmith.store.store import Store


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store of ten trials and a winner."""
    path = tmp_path / "a.db"
    with Store.open(str(path), write=True) as store:
        for number in range(10):
            store.add_trials(PROBLEM, H200, [trial(number)])
        store.put_winner(record())
    return path


def execute(path: Path, *statements: str) -> None:
    """Changes a file behind the store's back."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


class TestDamagedRows:
    @pytest.mark.parametrize(
        ("statement", "finding"),
        [
            ("UPDATE warpsmith_trials SET spec = '{' WHERE id = 4", "JSON is damaged"),
            ("UPDATE warpsmith_trials SET spec = '[]' WHERE id = 4", "is not a trial"),
            ("UPDATE warpsmith_trials SET fingerprint = 'g' WHERE id = 4", "column fingerprint is 'g'"),
            ("UPDATE warpsmith_trials SET spec = replace(spec, 'compile\"', 'ennui\"') WHERE id = 4", "'ennui' is not"),
        ],
    )
    def test_trial(self, file: Path, statement: str, finding: str) -> None:
        execute(file, statement)
        with Store.open(str(file), write=True) as store:
            (line,) = check_store(store)
            assert line.startswith(f"{file}: trial ")
            assert finding in line
            assert len(store.trials(PROBLEM, H200)) == 9

    @pytest.mark.parametrize(
        ("statement", "finding"),
        [
            ("UPDATE warpsmith_winners SET median_ns = 1", "column median_ns is 1.0"),
            ("UPDATE warpsmith_winners SET spec = replace(spec, '[64,64]', '[64,65]')", "its own key is"),
            ("UPDATE warpsmith_winners SET spec = replace(spec, '\"filter2d\"', '\"dct\"')", "unknown operation 'dct'"),
        ],
    )
    def test_winner(self, file: Path, statement: str, finding: str) -> None:
        other = Filter2d(image=(32, 32), filter=(5, 5))
        execute(file, statement)
        with Store.open(str(file), write=True) as store:
            store.put_winner(record(other))
            (line,) = check_store(store)
            assert line.startswith(f"{file}: winner of 'filter2d image=64x64")
            assert finding in line
            assert store.winner(PROBLEM.key(), H200.key()) is None
            assert store.records() == (record(other),)

    def test_problem_of_a_newer_operation_is_passed_on(self, file: Path, tmp_path: Path) -> None:
        execute(
            file,
            "INSERT INTO warpsmith_problems VALUES ('fft size=8', 'fft', '{\"size\":8}')",
            "INSERT INTO warpsmith_winners SELECT 'fft size=8', device_key, conditions, family, config, fingerprint,"
            " compiler, median_ns, p20_ns, p80_ns, created_at, replace(spec, 'filter2d', 'fft') FROM warpsmith_winners",
        )
        with Store.open(str(file), write=True) as store, Store.open(str(tmp_path / "b.db"), write=True) as other:
            assert store.records() == (record(),)
            assert [line.partition(": ")[2].split()[0] for line in check_store(store)] == ["problem", "winner"]
            assert merge_stores(other, store).winners_added == 2
            assert contents_of(other) == contents_of(store)

    def test_problem_under_a_wrong_key_and_orphans_are_found(self, file: Path) -> None:
        execute(file, "UPDATE warpsmith_problems SET key = 'filter2d image=1x1'")
        with Store.open(str(file), write=False) as store:
            lines = check_store(store)
        assert len(lines) == 11
        assert all("belongs to nothing in warpsmith_problems" in line for line in lines)

    def test_a_merge_of_a_value_that_its_column_cannot_hold_adds_nothing(self, file: Path, tmp_path: Path) -> None:
        execute(file, "UPDATE warpsmith_winners SET p80_ns = 'crash'")
        with Store.open(str(file), write=False) as other, Store.open(str(tmp_path / "own.db"), write=True) as own:
            with pytest.raises(StoreError, match=r"own\.db is damaged \(could not convert string to float: 'crash'\)"):
                merge_stores(own, other)
            assert subjects_of(own) == ()

    def test_export_names_the_row_and_the_remedy(self, file: Path) -> None:
        execute(file, "UPDATE warpsmith_trials SET spec = '{' WHERE id = 4")
        with Store.open(str(file), write=False) as store, pytest.raises(StoreError, match="warpsmith db check"):
            list(export_lines(store))
