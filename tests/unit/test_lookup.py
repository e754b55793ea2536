"""Search for the best stored answer: each rung of the ladder, and why better ones were passed over."""

from __future__ import annotations

import dataclasses
import math
import shutil
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from builders import winner
from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.presets import H200, HOST
from warpsmith.generator.registry import OPERATIONS, family_named
from warpsmith.generator.space import Config, Value
from warpsmith.plans.lookup import find, known_configs, program_of
from warpsmith.plans.match import Match, MatchKind
from warpsmith.store.location import write_location
from warpsmith.store.record import Checked, Record, Verdict, marked
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StoreChain, open_for_reading

# Not a preset: winners for real devices ship with the package.
GPU = dataclasses.replace(H200, name="Test GPU")
SIBLING = dataclasses.replace(GPU, name="Sibling GPU", multiprocessors=78)
OLDER = dataclasses.replace(GPU, name="A Older GPU", compute_capability=(8, 0))

PROBLEM = Filter2d(image=(480, 640), filter=(3, 3))


def sized(rows: int, columns: int) -> Filter2d:
    return dataclasses.replace(PROBLEM, image=(rows, columns))


def family(name: str) -> Family:
    found = family_named(name)
    assert found is not None
    return found


PLAIN = family("filter2d_plain")
WINDOW = family("filter2d_window")


def stored(
    problem: Filter2d = PROBLEM,
    device: Device = GPU,
    *,
    of: Family = PLAIN,
    median_ns: float = 1000.0,
    **choices: Value,
) -> Record:
    """A winner of `problem` on `device`: the default config of a family with some choices changed."""
    config = Config.of(of.default(problem, device).values() | choices)
    assert of.space(problem, device).why_not(config) is None
    return winner(problem, median_ns, device, family=of, choices=choices)


def altered(record: Record, **changes: object) -> Record:
    """The record with its trial changed, as another version of the package may have left it."""
    return dataclasses.replace(record, trial=dataclasses.replace(record.trial, **changes))  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path, made_file: Path) -> Iterator[Store]:
    with Store.open(str(shutil.copy(made_file, tmp_path / "store.db")), write=True) as opened:
        yield opened


def found(store: Store, *records: Record, problem: Filter2d = PROBLEM, device: Device = GPU) -> Match:
    """Match that `find` makes of these records."""
    for record in records:
        store.put_winner(record)
    return find(problem, device, StoreChain((store,)))


class TestExact:
    def test_is_the_stored_winner_ready_to_run(self, store: Store) -> None:
        record = stored(block_columns=64)
        match = found(store, record)
        assert (match.kind, match.record, match.reasons) == (MatchKind.EXACT, record, ())
        assert match.program == PLAIN.program(PROBLEM, record.trial.config)
        assert match.program.config.integer("block_columns") == 64

    def test_comes_before_every_other(self, store: Store) -> None:
        others = (stored(sized(480, 641)), stored(device=SIBLING), stored(device=HOST))
        assert found(store, *others, stored(block_rows=4)).record == stored(block_rows=4)

    @pytest.mark.parametrize(
        "change",
        [{"filter": (3, 2)}, {"border": Border.WRAP}, {"weights": (1.0,) * 9}, {"planes": 2}, {"image": (640, 480)}],
    )
    def test_is_never_of_another_problem(self, store: Store, change: dict[str, object]) -> None:
        other = dataclasses.replace(PROBLEM, **change)  # type: ignore[arg-type]
        match = found(store, stored(other))
        assert match.kind is not MatchKind.EXACT
        assert match.reasons[0] == f"exact: {PROBLEM.key()} is not stored for {GPU.key()}"

    def test_is_a_miss_where_the_kernel_has_changed_since(self, store: Store) -> None:
        record = altered(stored(block_columns=64), fingerprint="0" * 16)
        match = found(store, record)
        assert match.kind is not MatchKind.EXACT
        assert match.reasons[0] == "exact: the stored time is of an older text of this kernel; tune again to renew it"
        # Its config is still the best guess there is.
        assert match.program == PLAIN.program(PROBLEM, record.trial.config)

    @pytest.mark.parametrize(
        ("config", "becomes"),
        [
            ({"block_columns": 7}, "block_columns 7 to 16"),
            ({"block_columns": 256, "block_rows": 16}, "block_rows 16 to 2"),
            ({"weights": "literal"}, "weights literal to argument"),
        ],
    )
    def test_is_changed_to_the_most_like_where_its_config_is_illegal_now(
        self, store: Store, config: dict[str, Value], becomes: str
    ) -> None:
        usual = stored().trial.config.values()
        match = found(store, altered(stored(), config=Config.of(usual | config)))
        assert match.kind is MatchKind.NEAR
        assert match.reasons == (
            "exact: the stored config of filter2d_plain is not legal in this version",
            f"near: the stored config does not fit here; changed: {becomes}",
        )

    @pytest.mark.parametrize("changes", [{"config": Config.of({"block": 32})}, {"family": "filter2d_forgotten"}])
    def test_is_passed_over_where_nothing_of_it_means_anything_now(
        self, store: Store, changes: dict[str, object]
    ) -> None:
        record = altered(stored(), **changes)
        match = found(store, record)
        assert match.kind is MatchKind.DEFAULT
        assert match.reasons == (
            f"exact: the stored config of {record.trial.family} is not legal in this version",
            "near: 1 stored, none with a config that is legal here",
            "device: none is stored",
        )

    @pytest.mark.parametrize("verdict", Verdict)
    def test_is_passed_over_where_it_was_wrong_when_last_looked_at(self, store: Store, verdict: Verdict) -> None:
        record = marked(stored(block_columns=64), Checked("2026-03-04T05:06:07+00:00", verdict, 900.0, "580"))
        match = found(store, record)
        if verdict is not Verdict.WRONG:
            assert (match.kind, match.record) == (MatchKind.EXACT, record)
            return
        assert match.kind is MatchKind.DEFAULT  # nor is it a guess for a like problem
        assert match.reasons[0] == "exact: the stored winner was not right when it was last looked at; tune again"
        assert find(sized(480, 641), GPU, StoreChain((store,))).kind is MatchKind.DEFAULT


class TestNear:
    def test_is_the_nearest_size_on_this_device(self, store: Store) -> None:
        half = stored(sized(480, 320), block_rows=4)
        records = (stored(sized(120, 160)), half, stored(sized(4800, 6400)))
        match = found(store, *records)
        assert (match.kind, match.record) == (MatchKind.NEAR, half)
        assert match.program == PLAIN.program(PROBLEM, half.trial.config)
        assert match.reasons == (f"exact: {PROBLEM.key()} is not stored for {GPU.key()}",)

    def test_may_have_other_planes(self, store: Store) -> None:
        two_planes, smaller = dataclasses.replace(PROBLEM, planes=2), sized(120, 640)
        assert found(store, stored(two_planes), stored(smaller)).record == stored(two_planes)

    def test_of_equally_near_ones_is_always_the_same(self, tmp_path: Path) -> None:
        """The answer does not depend on which store comes first."""
        stores = []
        for rows, columns in ((240, 640), (960, 640), (480, 1280)):
            stores.append(Store.open(str(tmp_path / f"{rows}x{columns}.db"), write=True))
            stores[-1].put_winner(stored(sized(rows, columns)))
        matches = [find(PROBLEM, GPU, StoreChain(order)) for order in permutations(stores)]
        StoreChain(tuple(stores)).close()
        assert {match.kind for match in matches} == {MatchKind.NEAR}
        assert len({match.record.problem.key() for match in matches if match.record}) == 1

    def test_that_is_legal_as_it_is_comes_before_one_that_is_not(self, store: Store) -> None:
        """Loads of four pixels are aligned in rows of 640, but not in rows of 642."""
        nearest = stored(sized(480, 640), of=WINDOW, columns=4, load_vector=4, store_vector=2)
        farther = stored(sized(480, 1280), of=WINDOW, columns=4, load_vector=2, store_vector=2)
        match = found(store, nearest, farther, problem=sized(480, 642))
        assert (match.kind, match.record) == (MatchKind.NEAR, farther)

    def test_is_the_config_most_like_one_that_is_illegal_here(self, store: Store) -> None:
        vector = stored(of=WINDOW, columns=4, load_vector=4, store_vector=2, unroll=4, rows=4)
        match = found(store, vector, problem=dataclasses.replace(PROBLEM, image=(481, 641), planes=3))
        assert (match.kind, match.record) == (MatchKind.NEAR, vector)
        values = match.program.config.values()
        assert (values["load_vector"], values["columns"], values["unroll"]) == (1, 4, 4)
        assert match.reasons[-1].startswith("near: the stored config does not fit here; changed: load_vector 4 to 1")

    def test_tuned_elsewhere_is_another_devices(self, store: Store) -> None:
        elsewhere = stored(sized(480, 320), SIBLING)
        match = found(store, elsewhere)
        assert (match.kind, match.record) == (MatchKind.DEVICE, elsewhere)
        assert match.reasons[1:] == (
            "near: none is stored",
            f"device: this is the winner of {sized(480, 320).key()} on Sibling GPU",
        )

    def test_a_very_distant_one_comes_after_another_devices(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Filter2d, "near_reach", math.inf)
        distant, elsewhere = stored(sized(30, 40)), stored(device=SIBLING)
        match = found(store, distant, elsewhere)
        assert (match.kind, match.record) == (MatchKind.DEVICE, elsewhere)
        assert match.reasons[1] == "near: 1 stored, the nearest of them farther off than another device's winner"

    def test_comes_before_another_device(self, store: Store) -> None:
        near = stored(sized(240, 320))
        assert found(store, near, stored(device=SIBLING)).record == near

    @pytest.mark.parametrize(
        "change", [{"filter": (2, 3)}, {"border": Border.WRAP}, {"weights": (1.0,) * 9}], ids=lambda each: str(each)
    )
    def test_is_never_of_another_filter_or_border(self, store: Store, change: dict[str, object]) -> None:
        """Another filter's or border's winner is only a better default config."""
        other = stored(dataclasses.replace(PROBLEM, **change), block_columns=64)  # type: ignore[arg-type]
        match = found(store, other)
        assert (match.kind, match.record) == (MatchKind.DEFAULT, None)
        assert match.reasons[1:3] == ("near: none is stored", "device: none is stored")
        assert match.reasons[3].startswith(f"default: the config is that of the winner of {other.problem.key()}")
        assert match.program.family == PLAIN.name
        assert match.program.config.integer("block_columns") == 64
        assert found(store, stored(sized(240, 320))).record == stored(sized(240, 320))

    def test_one_over_two_octaves_away_is_none(self, store: Store) -> None:
        assert found(store, stored(sized(239, 320))).kind is MatchKind.DEFAULT

    def test_a_stored_filter_larger_than_the_image_asked_for_is_no_obstacle(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Filter2d, "near_reach", math.inf)
        large_filter = Filter2d(image=(480, 640), filter=(15, 15))
        match = found(store, stored(large_filter), stored(), problem=sized(12, 16))
        assert (match.kind, match.record) == (MatchKind.NEAR, stored())


class TestOtherDevice:
    def test_is_the_same_problem_on_a_device_of_the_same_kind(self, store: Store) -> None:
        record = stored(device=SIBLING, block_columns=64)
        match = found(store, record)
        assert (match.kind, match.record) == (MatchKind.DEVICE, record)
        assert match.program == PLAIN.program(PROBLEM, record.trial.config)
        assert [reason.partition(":")[0] for reason in match.reasons] == ["exact", "near"]

    def test_of_the_same_architecture_comes_first(self, store: Store) -> None:
        assert OLDER.key() < SIBLING.key()
        assert found(store, stored(device=OLDER), stored(device=SIBLING)).record == stored(device=SIBLING)

    def test_of_another_architecture_is_better_than_none(self, store: Store) -> None:
        assert found(store, stored(device=OLDER)).record == stored(device=OLDER)

    @pytest.mark.parametrize(("asked", "other"), [(GPU, HOST), (HOST, GPU)])
    def test_of_another_kind_is_not_used(self, store: Store, asked: Device, other: Device) -> None:
        match = found(store, stored(device=other), device=asked)
        assert (match.kind, match.record) == (MatchKind.DEFAULT, None)
        assert match.reasons[2] == "device: none is stored"

    def test_passes_over_a_config_that_is_illegal_here(self, store: Store) -> None:
        """Sixteen blocks of 128 threads need the 2048 threads of the sibling's multiprocessor."""
        small = dataclasses.replace(GPU, threads_per_multiprocessor=1536)
        one_output: dict[str, Any] = {"columns": 1, "load_vector": 1, "store_vector": 1, "unroll": 1}
        full: dict[str, Any] = {"block_columns": 128, "block_strips": 1, "min_blocks": 16}
        demanding = stored(device=SIBLING, of=WINDOW, **one_output, **full)
        assert found(store, demanding, device=small).reasons[-1] == (
            "device: the stored config does not fit here; changed: min_blocks 16 to 8"
        )
        assert found(store, demanding, stored(device=OLDER), device=small).record == stored(device=OLDER)


class TestKnown:
    """Configs known before a search."""

    def known(
        self, store: Store, *records: Record, count: int, problem: Filter2d = PROBLEM
    ) -> list[tuple[str, Config]]:
        for record in records:
            store.put_winner(record)
        return list(known_configs(problem, GPU, StoreChain((store,)), count))

    def test_begins_with_the_answer_and_goes_on_with_the_nearest(self, store: Store) -> None:
        exact = stored(block_rows=1, block_columns=64)
        near = stored(sized(480, 320), block_rows=2, block_columns=64)
        far = stored(sized(120, 160), of=WINDOW)
        elsewhere = stored(device=SIBLING, block_rows=4, block_columns=64)
        expected = [(each.trial.family, each.trial.config) for each in (exact, near, far, elsewhere)]
        assert self.known(store, elsewhere, far, near, exact, count=9) == expected
        assert self.known(store, count=2) == expected[:2]

    def test_names_none_twice(self, store: Store) -> None:
        alike = (stored(), stored(sized(480, 320)), stored(device=SIBLING))
        assert self.known(store, *alike, count=9) == [(PLAIN.name, stored().trial.config)]

    def test_is_the_default_where_nothing_is_stored(self, store: Store) -> None:
        assert self.known(store, count=9) == [(WINDOW.name, WINDOW.default(PROBLEM, GPU))]

    def test_is_legal_here(self, store: Store) -> None:
        vector = stored(of=WINDOW, columns=4, load_vector=4, store_vector=2, unroll=4, rows=4)
        odd = sized(481, 641)
        known = self.known(store, vector, stored(sized(960, 640)), count=9, problem=odd)
        assert len(known) == 2
        assert all(family(name).space(odd, GPU).contains(config) for name, config in known)

    def test_a_walk_of_one_wave_stays_one(self, store: Store) -> None:
        """A one-wave walk of a large image is longer than that of a small image."""
        warpgroup = family("filter2d_warpgroup")
        large, small = (Filter2d(image=size, filter=(11, 11)) for size in ((9216, 9216), (2000, 3000)))
        record = stored(large, of=warpgroup)
        [(name, config)] = self.known(store, record, count=9, problem=small)
        assert name == warpgroup.name
        assert config.integer("rows") == warpgroup.default(small, GPU).integer("rows")
        assert config.integer("rows") < record.trial.config.integer("rows")


class TestDefault:
    def test_is_the_preferred_familys_own_and_says_what_was_missing(self, store: Store) -> None:
        match = found(store)
        assert (match.kind, match.record) == (MatchKind.DEFAULT, None)
        assert match.program == WINDOW.program(PROBLEM, WINDOW.default(PROBLEM, GPU))
        assert match.reasons == (
            f"exact: {PROBLEM.key()} is not stored for {GPU.key()}",
            "near: none is stored",
            "device: none is stored",
        )

    def test_is_of_a_family_that_solves_the_problem(self, store: Store) -> None:
        """A row of 250 pixels does not fit the registers of a thread."""
        problem = dataclasses.replace(PROBLEM, filter=(1, 250))
        assert WINDOW.why_not(problem, GPU)
        assert found(store, problem=problem).program.family == PLAIN.name

    def test_is_refused_where_no_family_solves_the_problem(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(type(PLAIN), "why_not", lambda *_: "solves whatever is asked for, but not today")
        problem = dataclasses.replace(PROBLEM, filter=(1, 250))
        with pytest.raises(BadArgument, match="no kernel family solves") as caught:
            found(store, problem=problem)
        assert all(each.name in str(caught.value) for each in OPERATIONS[problem.operation].families)


class TestChain:
    """The named store, then the user's own, then the shipped one, in that order."""

    @pytest.fixture(autouse=True)
    def shipped(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        shipped = tmp_path / "shipped.db"
        monkeypatch.setattr("warpsmith.store.location.shipped_store", lambda: shipped)
        return shipped

    NAMED, OWN, SHIPPED = (stored(block_rows=rows, block_columns=64) for rows in (1, 2, 4))

    def keep(self, location: Path | str, record: Record) -> str:
        with Store.open(str(location), write=True) as store:
            store.put_winner(record)
        return str(location)

    def answer(self, explicit: str | None) -> Match:
        with open_for_reading(explicit) as stores:
            return find(PROBLEM, GPU, stores)

    def test_the_named_store_wins_over_the_own_and_that_over_the_shipped(self, tmp_path: Path, shipped: Path) -> None:
        self.keep(shipped, self.SHIPPED)
        assert self.answer(None).record == self.SHIPPED
        self.keep(write_location(None), self.OWN)
        assert self.answer(None).record == self.OWN
        named = self.keep(tmp_path / "named.db", self.NAMED)
        assert self.answer(named).record == self.NAMED
        assert self.answer(None).record == self.OWN

    def test_the_environment_names_a_store_too(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keep(write_location(None), self.OWN)
        monkeypatch.setenv("WARPSMITH_STORE", self.keep(tmp_path / "named.db", self.NAMED))
        assert self.answer(None).record == self.NAMED

    def test_an_exact_answer_farther_down_wins_over_a_near_one(self, tmp_path: Path, shipped: Path) -> None:
        self.keep(shipped, self.SHIPPED)
        named = self.keep(tmp_path / "named.db", stored(sized(480, 320)))
        match = self.answer(named)
        assert (match.kind, match.record) == (MatchKind.EXACT, self.SHIPPED)

    def test_near_answers_of_all_stores_compete(self, tmp_path: Path, shipped: Path) -> None:
        self.keep(shipped, stored(sized(480, 320)))
        named = self.keep(tmp_path / "named.db", stored(sized(48, 64)))
        assert self.answer(named).record == stored(sized(480, 320))

    def test_no_store_at_all_leaves_the_default(self) -> None:
        assert self.answer(None).kind is MatchKind.DEFAULT


class TestProgramOf:
    def test_is_the_config_written_for_the_question(self) -> None:
        record, other = stored(block_columns=64), sized(500, 640)
        assert program_of(record, other, SIBLING) == PLAIN.program(other, record.trial.config)

    @pytest.mark.parametrize("change", [{"family": "unheard_of"}, {"config": Config.of({"block_columns": 7})}])
    def test_is_nothing_that_this_version_does_not_generate(self, change: dict[str, object]) -> None:
        assert program_of(altered(stored(), **change), PROBLEM, GPU) is None
