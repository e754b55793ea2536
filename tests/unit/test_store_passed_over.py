"""Unreadable stores that nobody named: a look-up warns once, names the remedy, and goes on."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import warpsmith as ws
from builders import SMALL as PROBLEM
from builders import winner
from warpsmith.cli.app import run
from warpsmith.devices.select import DeviceRef
from warpsmith.errors import StoreError
from warpsmith.plans.lookup import find
from warpsmith.plans.make import LOOK_EVERY_S
from warpsmith.plans.match import Match, MatchKind
from warpsmith.store import changes, location, rows, sqlite, store_chain
from warpsmith.store.changes import PATIENCE_S, REST_S, BusyStores
from warpsmith.store.layout import SCHEMA_VERSION
from warpsmith.store.record import Record
from warpsmith.store.store import Store
from warpsmith.store.store_chain import StorePassedOver

QUERY = ("query", "filter2d", "--image", "64x64", "--filter", "3x3", "--device", "host")
HOST = DeviceRef.parse("host").device()


OWN, SHIPPED = winner(PROBLEM, 20.0, HOST), winner(PROBLEM, 30.0, HOST)


def put(path: Path, *records: Record) -> Path:
    with Store.open(str(path), write=True) as store:
        for record in records:
            store.put_winner(record)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("made")
    return put(folder / "own.db", OWN), put(folder / "shipped.db", SHIPPED)


@pytest.fixture(autouse=True)
def home(made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a winner of 20 ns and a package with one of 30 ns."""
    monkeypatch.delenv(location.ENVIRONMENT_VARIABLE, raising=False)
    shipped = tmp_path / "package" / "cache.db"
    monkeypatch.setattr(location, "shipped_store", lambda: shipped)
    for source, target in zip(made, (location.own_store(), shipped), strict=True):
        target.parent.mkdir(parents=True)
        shutil.copy(source, target)
    return tmp_path


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5000])


def paint(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(5000))


def renew_schema(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()


def stub(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def break_pages(path: Path) -> None:
    """Overwrites the pages of the winners and their indices: the file opens, but reading winners fails."""
    connection = sqlite3.connect(path)
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    roots = connection.execute("SELECT rootpage FROM sqlite_master WHERE tbl_name = 'warpsmith_winners'").fetchall()
    connection.close()
    content = bytearray(path.read_bytes())
    for (page,) in roots:
        content[(page - 1) * size : page * size] = b"\x07" * size
    path.write_bytes(content)


def break_text(path: Path) -> None:
    """Bytes that are no UTF-8 where the file says text."""
    content = path.read_bytes()
    assert b'"filter2d_' in content
    path.write_bytes(content.replace(b'"filter2d_', b'"filter2\xff\xfe'))


OPENING = [cut_short, paint, renew_schema, stub, replace_by_folder]
QUERYING = [break_pages, break_text]
damaged = pytest.mark.parametrize("damage", [*OPENING, *QUERYING])


@pytest.fixture
def told() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield seen


def check_told(told: list[warnings.WarningMessage], path: Path) -> None:
    (warning,) = told
    assert issubclass(warning.category, StorePassedOver)
    message = str(warning.message)
    assert message.startswith(str(path)) or f" {path}" in message
    assert f"`warpsmith db check --store {path}`" in message
    assert "\n" not in message


Told = list[warnings.WarningMessage]
Damage = Callable[[Path], None]


class TestPlan:
    @damaged
    def test_goes_on_with_the_shipped_store(self, told: Told, damage: Damage) -> None:
        path = location.own_store()
        damage(path)
        before = None if path.is_dir() else path.read_bytes()
        match = ws.query(PROBLEM, "host")
        check_told(told, path)
        assert (match.kind, match.record) == (MatchKind.EXACT, SHIPPED)
        assert before is None or path.read_bytes() == before

    @damaged
    def test_goes_on_with_a_default(self, told: Told, damage: Damage) -> None:
        location.own_store().unlink()
        damage(location.shipped_store())
        match = ws.query(PROBLEM, "host")
        check_told(told, location.shipped_store())
        assert (match.kind, match.record) == (MatchKind.DEFAULT, None)

    def test_computes_all_the_same(self, told: Told) -> None:
        paint(location.own_store())
        break_pages(location.shipped_store())
        image = np.random.default_rng(0).random((64, 64), dtype=np.float32)
        plan = ws.plan(PROBLEM, "host")
        assert plan.match.kind is MatchKind.DEFAULT
        assert plan(image, np.ones((3, 3), np.float32)).shape == (62, 62)
        assert {each.category for each in told} == {StorePassedOver}
        assert len(told) == 2

    def test_of_a_sound_own_store_reads_it_while_the_shipped_one_is_damaged(self, told: Told) -> None:
        paint(location.shipped_store())
        assert ws.query(PROBLEM, "host").record == OWN
        check_told(told, location.shipped_store())

    def test_is_served_by_a_named_store_while_the_own_one_is_damaged(self, told: Told, home: Path) -> None:
        paint(location.own_store())
        named = winner(PROBLEM, 10.0, HOST)
        assert ws.query(PROBLEM, "host", store=str(put(home / "named.db", named))).record == named
        check_told(told, location.own_store())

    @pytest.mark.parametrize("damage", OPENING)
    @pytest.mark.parametrize("by", ["argument", "environment", "own"])
    def test_refuses_a_damaged_store_that_was_named(
        self, told: Told, home: Path, monkeypatch: pytest.MonkeyPatch, damage: Damage, by: str
    ) -> None:
        """The user's own too, where it is named."""
        path = location.own_store() if by == "own" else put(home / "named.db", OWN)
        damage(path)
        if by == "environment":
            monkeypatch.setenv(location.ENVIRONMENT_VARIABLE, str(path))
        with pytest.raises(StoreError, match=path.name):
            ws.query(PROBLEM, "host", store=None if by == "environment" else str(path))
        assert told == []

    def test_refuses_a_named_store_of_which_a_query_shows_the_damage(self, told: Told, home: Path) -> None:
        path = put(home / "named.db", OWN)
        break_pages(path)
        with pytest.raises(StoreError, match=r"named\.db"):
            ws.query(PROBLEM, "host", store=str(path))
        assert told == []

    @pytest.mark.skipif(os.geteuid() == 0, reason="rights of files do not bind root")
    def test_goes_on_without_a_file_that_may_not_be_read(self, told: Told) -> None:
        location.own_store().chmod(0)
        assert ws.query(PROBLEM, "host").record == SHIPPED
        check_told(told, location.own_store())

    def test_goes_on_without_a_folder_that_may_not_be_looked_into(
        self, told: Told, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own, stat = location.own_store(), Path.stat

        def refuse(path: Path, **options: bool) -> os.stat_result:
            if path == own:
                raise PermissionError(13, "Permission denied")
            return stat(path, **options)

        monkeypatch.setattr(Path, "stat", refuse)
        assert ws.query(PROBLEM, "host").record == SHIPPED
        check_told(told, own)


class TestChain:
    @pytest.mark.parametrize("damage", QUERYING)
    def test_passes_over_a_store_once_and_for_all(self, told: Told, damage: Damage) -> None:
        damage(location.own_store())
        with store_chain.open_for_look_up(None) as chain:
            assert len(chain.stores) == 2
            for _ in range(3):
                assert chain.records() == (SHIPPED,)
                assert tuple(chain.winners(PROBLEM.key(), HOST.key())) == (SHIPPED,)
        check_told(told, location.own_store())

    def test_for_reports_and_exports_reads_all_or_fails(self, told: Told) -> None:
        break_pages(location.own_store())
        with store_chain.open_for_reading(None) as chain, pytest.raises(StoreError, match=r"store\.db"):
            chain.records()
        paint(location.own_store())
        with pytest.raises(StoreError, match=r"store\.db"):
            store_chain.open_for_reading(None)
        assert told == []

    @pytest.mark.parametrize("seed", range(40))
    def test_of_a_file_with_any_damage_answers(self, seed: int) -> None:
        """Other bytes at places drawn at random."""
        rng = random.Random(seed)
        content = bytearray(location.own_store().read_bytes())
        for _ in range(rng.choice((1, 30, 1000))):
            content[rng.randrange(len(content))] = rng.randrange(256)
        location.own_store().write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StorePassedOver)
            with store_chain.open_for_look_up(None) as chain:
                match: Match = find(PROBLEM, HOST, chain)
        assert match.record in (OWN, SHIPPED)


class Locked:
    """The user's own store while another process has it locked, and how long look-ups took."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.now = path, 1000.0
        self.busy = BusyStores(lambda: self.now)
        for module in (store_chain, changes):
            monkeypatch.setattr(module, "BUSY_STORES", self.busy)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            yield
            other.execute("ROLLBACK")

    @staticmethod
    def asked() -> tuple[Match, float]:
        """Answer of a look-up, and the seconds it took."""
        start = time.monotonic()
        return ws.query(PROBLEM, "host"), time.monotonic() - start


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Locked:
    own = location.own_store()
    assert own is not None
    return Locked(own, monkeypatch)


class TestLockedStore:
    def test_costs_a_second_once_and_one_warning(self, told: Told, locked: Locked) -> None:
        with locked.held():
            match, seconds = locked.asked()
            assert match.record == SHIPPED
            assert 0.9 * PATIENCE_S < seconds < 2 * PATIENCE_S
            for _ in range(20):
                match, seconds = locked.asked()
                assert (match.record, seconds < 0.5 * PATIENCE_S) == (SHIPPED, True)
            (warning,) = told
            assert str(warning.message) == (
                f"another process is writing {locked.path} since 1 s: try again when it is done; "
                f"going on without this store, which is asked again every {REST_S:g} s"
            )

    def test_is_asked_again_after_a_while(self, told: Told, locked: Locked) -> None:
        with locked.held():
            locked.asked()
            locked.now += 1.01 * REST_S
            match, seconds = locked.asked()  # it waits a moment, and does not warn again
            assert (match.record, seconds < 0.5 * PATIENCE_S, len(told)) == (SHIPPED, True, 1)
        assert locked.asked()[0].record == SHIPPED
        locked.now += 1.01 * REST_S
        assert locked.asked()[0].record == OWN
        with locked.held():  # another lock is news
            assert locked.asked()[0].record == SHIPPED
            assert len(told) == 2

    def test_is_not_what_a_remembered_plan_stays_with(self, told: Told, locked: Locked) -> None:
        with locked.held():
            assert ws.plan(PROBLEM, "host").match.record == SHIPPED
        time.sleep(2 * LOOK_EVERY_S)
        assert ws.plan(PROBLEM, "host").match.record == SHIPPED
        locked.now += 1.01 * REST_S
        time.sleep(2 * LOOK_EVERY_S)
        assert ws.plan(PROBLEM, "host").match.record == OWN
        assert len(told) == 1

    @pytest.mark.parametrize("spelling", ["{}", "sqlite:///{}"])
    def test_that_was_named_is_passed_over_too(self, told: Told, locked: Locked, spelling: str) -> None:
        named = locked.path.with_name("named.db")
        shutil.copy(locked.path, named)
        locked.path = named
        with locked.held():
            for _ in range(3):
                assert ws.query(PROBLEM, "host", store=spelling.format(named)).record == OWN
        assert len(told) == 1

    def test_is_an_error_of_a_report(self, locked: Locked, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.1)
        with locked.held(), pytest.raises(StoreError, match=r"another process is writing .* since 0\.1 s"):
            store_chain.open_for_reading(None)


def test_an_own_store_that_is_a_link_to_nowhere_is_told(told: Told) -> None:
    own = location.own_store()
    assert own is not None
    own.unlink()
    own.symlink_to("gone.db")
    assert ws.query(PROBLEM, "host").record == SHIPPED
    check_told(told, own)
    assert "is a link to gone.db, which is not there" in str(told[0].message)


class TestCommands:
    @pytest.mark.parametrize("damage", [paint, break_pages])
    def test_query_answers(self, capsys: pytest.CaptureFixture[str], damage: Damage) -> None:
        damage(location.own_store())
        with pytest.warns(StorePassedOver) as seen:
            assert run([*QUERY, "--json"]) == 0
        check_told(list(seen), location.own_store())
        assert json.loads(capsys.readouterr().out)["time_ns"] == 30.0

    @damaged
    def test_the_remedy_that_is_named_finds_the_damage(
        self, capsys: pytest.CaptureFixture[str], damage: Damage
    ) -> None:
        damage(location.own_store())
        assert run(["db", "check", "--store", str(location.own_store())]) == 1
        assert str(location.own_store()) in capsys.readouterr().err

    @pytest.mark.parametrize("damage", [*OPENING, break_pages])
    def test_tune_is_refused_and_loses_nothing(self, capsys: pytest.CaptureFixture[str], damage: Damage) -> None:
        path = location.own_store()
        damage(path)
        before = None if path.is_dir() else path.read_bytes()
        assert run(["tune", *QUERY[1:], "--trials", "1"]) == 1
        assert str(path) in capsys.readouterr().err
        assert before is None or path.read_bytes() == before


def test_a_schema_of_a_file_from_elsewhere_is_not_trusted() -> None:
    from warpsmith.store.opening import open_location

    for write in (False, True):
        opened = open_location(str(location.own_store()), write=write, immutable=False)
        with opened.reading() as connection:
            assert connection.exec_driver_sql("PRAGMA trusted_schema").scalar_one() == 0


def test_keys_that_damage_left_empty_have_a_place_in_the_order() -> None:
    """SQLite hands on NULL from a damaged page whatever the schema says."""
    damaged, sound = {"key": None}, {"key": "a"}
    assert set(map(id, rows.in_order((sound, damaged), "key"))) == {id(damaged), id(sound)}
