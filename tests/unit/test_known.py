"""Configs that a search tries first, and how long a time limit waits for them."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from builders import winner
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.filter2d.plain_family import Filter2dPlain
from warpsmith.generator.filter2d.window_family import Filter2dWindow
from warpsmith.generator.gate import Gate
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.presets import H200
from warpsmith.generator.ranking import likely
from warpsmith.generator.registry import families_for
from warpsmith.generator.space import Config, Value
from warpsmith.store.record import Record
from warpsmith.store.store import Store
from warpsmith.store.store_chain import open_beside
from warpsmith.store.trials import Sample
from warpsmith.tuner.search.known import (
    CARRIED,
    PROPOSED,
    Key,
    Known,
    have_times,
    known_first,
    present_answer,
    samples_of,
)

GPU = dataclasses.replace(H200, name="Test GPU")
PROBLEM = Filter2d(image=(480, 640), filter=(3, 3))
PLAIN, WINDOW = Filter2dPlain(), Filter2dWindow()
FAMILIES: dict[str, Family] = {PLAIN.name: PLAIN, WINDOW.name: WINDOW}
"""Two families, the simplest first, unlike the registry's order."""


def sized(rows: int) -> Filter2d:
    return dataclasses.replace(PROBLEM, image=(rows, 640))


def first_of(
    path: Path, *records: Record, families: dict[str, Family] = FAMILIES, device: Device = GPU
) -> tuple[Key, ...]:
    with Store.open(str(path), write=True) as store:
        for record in records:
            store.put_winner(record)
        with open_beside(store) as stores:
            answer = present_answer(PROBLEM, device, stores, families)
            return _first(answer, Gate(PROBLEM, device), stores, families, samples_of(store, stores, "filter2d"))


def _first(*given: Any) -> tuple[Key, ...]:
    """All keys that `known_first` yields, each once."""
    return tuple(Known(known_first(*given)))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Path of a store, with no shipped store or samples beside it."""
    monkeypatch.setattr("warpsmith.tuner.search.known.shipped_samples", lambda: ())
    monkeypatch.setattr("warpsmith.store.location.shipped_store", lambda: tmp_path / "nothing.db")
    return tmp_path / "store.db"


def defaults(*families: Family) -> list[Key]:
    return [(family.name, family.default(PROBLEM, GPU)) for family in families]


def key(record: Record) -> Key:
    return record.trial.family, record.trial.config


def choices(count: int) -> list[dict[str, Value]]:
    """Legal changes of the default, each another config."""
    default = PLAIN.default(PROBLEM, GPU).values()
    others = [config.values() for config in PLAIN.space(PROBLEM, GPU).neighbours(Config.of(default))]
    return [{name: value for name, value in each.items() if default[name] != value} for each in others[:count]]


class TestKnownFirst:
    def test_is_the_stored_winner_and_then_the_defaults(self, path: Path) -> None:
        record = winner(PROBLEM, device=GPU, choices=choices(1)[0])
        assert first_of(path, record)[:3] == (key(record), *defaults(PLAIN, WINDOW))

    def test_has_the_nearest_winner_before_the_defaults_and_the_others_after_them(self, path: Path) -> None:
        exact, near, far = (
            winner(sized(rows), device=GPU, choices=each)
            for rows, each in zip((480, 500, 4000), choices(3), strict=True)
        )
        first = first_of(path, far, exact, near)
        assert first[:2] == (key(exact), key(near))
        assert list(first[2:4]) == defaults(PLAIN, WINDOW)
        assert first[4] == key(far)

    def test_has_the_winners_of_another_device(self, path: Path) -> None:
        another = dataclasses.replace(GPU, name="Another GPU", multiprocessors=78)
        elsewhere = winner(PROBLEM, device=another, choices=choices(1)[0])
        assert first_of(path, elsewhere)[0] == key(elsewhere)

    def test_names_nothing_twice(self, path: Path) -> None:
        records = [winner(sized(rows), device=GPU, choices=each) for rows in (480, 500, 600) for each in choices(1)]
        first = first_of(path, *records)
        assert len(first) == len(set(first))

    def test_is_not_much(self, path: Path) -> None:
        records = [winner(sized(480 + rows), device=GPU, choices=each) for rows, each in enumerate(choices(20))]
        assert len(first_of(path, *records)) <= 1 + CARRIED + len(FAMILIES)

    def test_is_of_the_families_that_compete(self, path: Path) -> None:
        record = winner(PROBLEM, device=GPU, family=WINDOW)
        only: dict[str, Family] = {PLAIN.name: PLAIN}
        assert {name for name, _ in first_of(path, record, families=only)} == {PLAIN.name}

    def test_on_a_new_device_has_what_ships(self, tmp_path: Path) -> None:
        """The winners of an H200 ship with the package; on an H100 they come before anything else."""
        h100 = dataclasses.replace(H200, name="NVIDIA H100", multiprocessors=132, l2_bytes=50 * 2**20)
        problem = Filter2d(image=(9216, 9216), filter=(15, 15))
        families = {family.name: family for family in families_for(problem, h100)}
        with Store.open(str(tmp_path / "store.db"), write=True) as store, open_beside(store) as stores:
            answer = present_answer(problem, h100, stores, families)
            first = _first(answer, Gate(problem, h100), stores, families, samples_of(store, stores, "filter2d"))
        default = next(iter(families.values())).default(problem, h100)
        assert (answer.family, answer.config) == first[0] != (next(iter(families)), default)

    def test_learns_from_the_trials_that_ship(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A prior proposes before the defaults in a first search on a new GPU, of a problem that nobody tuned."""
        monkeypatch.setattr("warpsmith.store.location.shipped_store", lambda: tmp_path / "nothing.db")
        h100 = dataclasses.replace(H200, name="NVIDIA H100", l2_bytes=50 * 2**20)
        problem = Filter2d(image=(600, 1100), filter=(5, 4), border="reflect")
        families = {family.name: family for family in families_for(problem, h100)}
        with Store.open(str(tmp_path / "store.db"), write=True) as store, open_beside(store) as stores:
            answer = present_answer(problem, h100, stores, families)
            first = _first(answer, Gate(problem, h100), stores, families, samples_of(store, stores, "filter2d"))
        proposed = first[1 : 1 + PROPOSED]
        defaults = {(name, family.default(problem, h100)) for name, family in families.items()}
        assert len(first) > PROPOSED
        assert len(defaults & set(proposed)) <= 1
        assert all(families[name].space(problem, h100).why_not(config) is None for name, config in proposed)


def test_defaults_of_likely_families_come_before_others(path: Path) -> None:
    """A search of 1.5 s once ended with what a neighbour's winner had become: the default of another family,
    70 times slower, came before the default of the best family.
    """
    layer = Conv2d((128, 256, 13, 13), (256, 256, 3, 3), padding=1, precision="f16", dtype="float16", layout="nhwc")  # type: ignore[arg-type]
    families = {family.name: family for family in families_for(layer, H200)}
    promising = [family.name for family in likely(families.values(), layer, H200)]
    assert 0 < len(promising) < len(families)
    assert next(iter(families)) != promising[0]
    with Store.open(str(path), write=True) as store, open_beside(store) as stores:
        answer = present_answer(layer, H200, stores, families)
        first = _first(answer, Gate(layer, H200), stores, families, ())
    assert [name for name, _ in first][: len(promising)] == promising
    assert {name for name, _ in first} == set(families)


def test_a_search_of_pipelines_does_not_wait_for_a_prior(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prior of 60 parameters' pairs took 13 s to fit; layers without a pipeline still get its proposals."""

    class Asked(Exception):
        pass

    def fit(*_: object) -> None:
        raise Asked

    monkeypatch.setattr("warpsmith.tuner.search.known.Prior.fit", fit)
    layer = Conv2d(input=(32, 64, 28, 28), weight=(64, 64, 3, 3), padding=1)
    with Store.open(str(path), write=True) as store, open_beside(store) as stores:
        for problem in (layer, dataclasses.replace(layer, stride=(2, 2))):
            families = {family.name: family for family in families_for(problem, GPU)}
            answer = present_answer(problem, GPU, stores, families)
            has_pipelines = any(isinstance(family, Pipeline) for family in families.values())
            assert has_pipelines is (problem is layer)
            with contextlib.nullcontext() if has_pipelines else pytest.raises(Asked):
                first = _first(answer, Gate(problem, GPU), stores, families, samples_of(store, stores, "conv2d"))
                assert {name for name, _ in first} == set(families)


def test_samples_are_all_winners_the_trials_of_the_store_that_is_tuned_into_and_those_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warpsmith.store.location.shipped_store", lambda: tmp_path / "shipped.db")
    trial = Sample.of(winner(sized(600), device=GPU))
    monkeypatch.setattr("warpsmith.tuner.search.known.shipped_samples", lambda: (trial,))
    shipped, own = winner(sized(500), device=GPU), winner(PROBLEM, device=GPU)
    with Store.open(str(tmp_path / "shipped.db"), write=True) as store:
        store.put_winner(shipped)
    with Store.open(str(tmp_path / "own.db"), write=True) as store:
        store.add_trials(PROBLEM, GPU, (own.trial,))
        with open_beside(store) as stores:
            assert samples_of(store, stores, "filter2d") == (Sample.of(shipped), Sample.of(own), trial)
            assert samples_of(store, stores, "fft") == ()


class TestHaveTimes:
    KNOWN = tuple(("plain", Config.of({"n": n})) for n in range(4))

    @pytest.mark.parametrize(
        ("outcomes", "enough"),
        [
            ("", False),
            ("t", False),
            ("tt", True),
            ("ft", False),
            ("ftt", True),
            ("fffft"[:4], True),  # nothing else is known
            ("ffft", True),
            ("-tttt"[:4], False),  # the likeliest has not ended yet
            ("t-tt", False),
        ],
    )
    def test_the_first_two_that_are_right(self, outcomes: str, enough: bool) -> None:
        tried = {key: told == "t" for key, told in zip(self.KNOWN, outcomes, strict=False) if told != "-"}
        assert have_times(self.KNOWN, tried) is enough

    def test_of_nothing_known(self) -> None:
        assert have_times((), {})
