"""Stores before schema 8: their Fourier families had no basis in their configs, and some differed in it alone."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from alembic import command

from builders import measurement, record, timing, trial
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.conv2d.fourier.plane_transforms import BASIS
from warpsmith.generator.conv2d.fourier.variants import FOURIER
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.presets import H200
from warpsmith.generator.space import Config
from warpsmith.plans.lookup import regenerate
from warpsmith.store import migrations, opening, rows, tables
from warpsmith.store.contents import check_store, contents_of
from warpsmith.store.fourier_bases import FAMILIES, with_basis
from warpsmith.store.interchange import export_lines, import_lines
from warpsmith.store.layout import BASES_SINCE
from warpsmith.store.merging import merge_stores
from warpsmith.store.record import Record, Trial
from warpsmith.store.store import Store
from warpsmith.store.store_reader import StoreReader

LAYER = Conv2d((16, 16, 13, 13), (16, 16, 3, 3))
FFT, TILED, TENSOR = (FOURIER[name] for name in ("conv2d_fft", "conv2d_fft_tiled", "conv2d_fft_tensor"))


def tried(family: Pipeline, median_ns: float, name: str | None = None) -> Trial:
    """A trial of a family's default as it was stored before, under the `name` of that time."""
    config = family.default(LAYER, H200)
    fingerprint = family.program(LAYER, config).fingerprint
    before = Config.of({each: value for each, value in config.items if each != BASIS})
    return trial(1, measurement(timing(median_ns)), family=name or family.name, config=before, fingerprint=fingerprint)


def of_rank(number: int, family: Pipeline = FFT) -> Pipeline:
    return family.alternatives(LAYER)[number - 1]


TRIALS = (
    tried(of_rank(1), 30.0),
    tried(of_rank(2), 20.0, "conv2d_fft_2"),
    tried(of_rank(3), 40.0, "conv2d_fft_3"),
    tried(of_rank(2, TILED), 15.0, "conv2d_fft_tiled_2"),
    tried(of_rank(1, TILED), 25.0),
    tried(TENSOR, 50.0),
    trial(1, measurement(timing(60.0)), family="conv2d_direct"),
)
WON, *BEATEN = (record(LAYER, each) for each in sorted(TRIALS, key=lambda each: each.median_ns or 0.0))
AFTER = {"conv2d_fft_tiled": 15.0, "conv2d_fft": 20.0, "conv2d_fft_tensor": 50.0, "conv2d_direct": 60.0}
"""The fastest time of each family of today."""


def old_rows() -> tuple[rows.Row, tuple[rows.Row, ...]]:
    return rows.winner_row(WON), tuple(map(rows.winner_row, BEATEN))


@pytest.fixture
def seventh(location: str) -> str:
    """A store of schema 7."""
    Store.open(location, write=True).close()
    opened = opening.open_location(location, write=True, immutable=False)
    with opened.writing() as connection:
        command.downgrade(migrations.config(connection), f"{BASES_SINCE - 1:04d}")
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA user_version = {BASES_SINCE - 1}")
        tables.add_subject(connection, LAYER, H200)
        won, beaten = old_rows()
        tables.add_missing(connection, tables.winners, (won,))
        tables.add_missing(connection, tables.runners_up, beaten)
        tables.add_missing(
            connection, tables.trials, [rows.trial_row(LAYER, H200, each, rows.now()) for each in TRIALS]
        )
    opened.reader.dispose()
    return location


def times(records: tuple[Record, ...]) -> dict[str, float]:
    found = {each.trial.family: each.timing.median_ns for each in records}
    assert len(found) == len(records)
    return found


def check(winners: tuple[Record, ...], beaten: tuple[Record, ...], *, keeps_the_winners_family: bool = False) -> None:
    """Every record has a config of today, and the text that was timed."""
    assert times(winners) == {"conv2d_fft_tiled": 15.0}
    expected = dict(AFTER)
    if not keeps_the_winners_family:
        del expected["conv2d_fft_tiled"]
        assert times(beaten) == expected
    for each in (*winners, *beaten):
        if each.trial.family in FAMILIES:
            assert FAMILIES[each.trial.family] == each.trial.family
            program = regenerate(each)
            assert program is not None
            assert BASIS in program.config.values()


class TestSeventhSchema:
    def test_is_read_with_bases(self, seventh: str) -> None:
        subject = LAYER.key(), H200.key()
        with Store.open(seventh, write=False) as store:
            check(store.winners(*subject), store.runners_up(*subject), keeps_the_winners_family=True)
            assert [each.timing.median_ns for each in store.beaten("conv2d_fft")] == [20.0]
            assert {each.family: each.median_ns for each in store.family_times("conv2d")}["conv2d_fft"] == 20.0
            assert {each.config.text(BASIS) for each in store.trials(LAYER, H200) if each.family == "conv2d_fft"} == {
                basis.word for basis in FFT.variant.likely(LAYER)
            }
        if Path(seventh).exists():
            with StoreReader.open(Path(seventh)) as reader:
                check(reader.winners(*subject), reader.runners_up(*subject), keeps_the_winners_family=True)
                assert [each.timing.median_ns for each in reader.beaten("conv2d_fft")] == [20.0]
                assert {each.family: each.median_ns for each in reader.family_times("conv2d")}["conv2d_fft"] == 20.0

    def test_comes_up_to_date_for_writing(self, seventh: str) -> None:
        subject = LAYER.key(), H200.key()
        for write in (True, False):
            with Store.open(seventh, write=write) as store:
                check(store.winners(*subject), store.runners_up(*subject))
                assert check_store(store) == ()
                found = store.trials(LAYER, H200)
                assert {(each.family, each.median_ns) for each in found} == {
                    (FAMILIES.get(each.family, each.family), each.median_ns) for each in TRIALS
                }

    def test_is_merged(self, seventh: str, tmp_path: Path) -> None:
        with Store.open(seventh, write=False) as other, Store.open(str(tmp_path / "own.db"), write=True) as own:
            merge_stores(own, other)
            subject = LAYER.key(), H200.key()
            check(own.winners(*subject), own.runners_up(*subject))
            before = contents_of(own)
            merge_stores(own, other)
            assert contents_of(own) == before

    def test_lines_of_that_time_are_imported(self, tmp_path: Path) -> None:
        header = {"format": "warpsmith-store", "version": 2, "trials": 0, "winners": 1, "runners_up": len(BEATEN)}
        lines = [header, *({"kind": "runner-up", **each.spec()} for each in BEATEN), {"kind": "winner", **WON.spec()}]
        with Store.open(str(tmp_path / "own.db"), write=True) as own:
            import_lines(own, map(json.dumps, lines))
            subject = LAYER.key(), H200.key()
            check(own.winners(*subject), own.runners_up(*subject))
            again = [*export_lines(own)]
            assert sum('"basis":' in each for each in again) == 3


def test_a_row_that_cannot_be_read_stays() -> None:
    won, _ = old_rows()
    for changed in (
        {**won, "config": "{"},
        {**won, "config": "[]"},
        {**won, "spec": None},
        {**won, "config": rows.to_json({"first.x_radices": "4x", "first.y_radices": "4", "first.packing": "pair"})},
        {**won, "family": "conv2d_direct"},
    ):
        assert with_basis(changed) is changed
    today = with_basis(won)
    assert today is not won
    assert with_basis(today) is today
    assert dataclasses.replace(rows.record_of(today).trial, family="", config=Config(())) == dataclasses.replace(
        WON.trial, family="", config=Config(())
    )


def test_every_family_of_that_time_is_one_of_today() -> None:
    assert set(FAMILIES.values()) == set(FOURIER)
