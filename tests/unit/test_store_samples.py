"""Samples: a few trials of every problem, to fit a prior."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from builders import trial as made_trial
from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.space import Config
from warpsmith.store.record import FailureKind, Trial
from warpsmith.store.store import Store
from warpsmith.store.trials import FASTEST, OTHERS, Sample, stored_samples

SMALL, LARGE = (Filter2d(image=(rows, 64), filter=(3, 3)) for rows in (64, 128))


def trial(number: int, time_ns: float | None) -> Trial:
    outcome = FailureKind.COMPILE if time_ns is None else time_ns
    return made_trial(number, outcome, family="filter2d_plain", config={"number": number})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "store.db"), write=True) as opened:
        yield opened


def test_are_all_trials_of_an_operation_where_they_are_few(store: Store) -> None:
    store.add_trials(SMALL, H200, (trial(1, 5.0), trial(2, None)))
    store.add_trials(LARGE, HOST, (trial(1, 7.0),))
    store.add_trials(Fft(16), H200, (trial(1, 9.0),))
    assert set(stored_samples(store.database, "filter2d")) == {
        Sample(SMALL, H200, "filter2d_plain", Config.of({"number": 1}), 5.0),
        Sample(SMALL, H200, "filter2d_plain", Config.of({"number": 2}), None),
        Sample(LARGE, HOST, "filter2d_plain", Config.of({"number": 1}), 7.0),
    }
    assert [sample.problem for sample in stored_samples(store.database, "fft")] == [Fft(16)]


def test_are_the_fastest_and_a_spread_of_the_others_where_they_are_many(store: Store) -> None:
    times = [None if number % 10 == 9 else float(2000 - number) for number in range(1000)]
    store.add_trials(SMALL, H200, [trial(number, time_ns) for number, time_ns in enumerate(times)])
    samples = stored_samples(store.database, "filter2d")
    assert FASTEST < len(samples) <= FASTEST + OTHERS
    known = sorted(time_ns for time_ns in times if time_ns is not None)
    taken = sorted(sample.time_ns for sample in samples if sample.time_ns is not None)
    assert taken[:FASTEST] == known[:FASTEST]
    others = [sample.config.integer("number") for sample in samples if (sample.time_ns or 9e9) > known[FASTEST - 1]]
    assert min(others) < 200
    assert max(others) > 800
    assert any(sample.time_ns is None for sample in samples)
    assert stored_samples(store.database, "filter2d") == samples


def test_pass_over_what_cannot_be_read(store: Store) -> None:
    store.add_trials(SMALL, H200, (trial(1, 5.0), trial(2, 6.0)))
    engine = create_engine(f"sqlite:///{store.location}")
    with engine.begin() as connection:
        connection.execute(text("update warpsmith_trials set config = '[1]' where median_ns = 5.0"))
    engine.dispose()
    assert [sample.time_ns for sample in stored_samples(store.database, "filter2d")] == [6.0]
