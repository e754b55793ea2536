"""PostgreSQL differences from SQLite that a store hides, and its error names."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from builders import SMALL as PROBLEM
from builders import record, trial, winner
from warpsmith.errors import StoreError
from warpsmith.generator.presets import H200
from warpsmith.store import opening, rows, sqlite
from warpsmith.store.contents import check_store, contents_of
from warpsmith.store.database import ServerLost
from warpsmith.store.layout import WINNER_IDENTITY
from warpsmith.store.merging import absorb
from warpsmith.store.store import Store
from warpsmith.store.tables import replace, winners


def refusal(url: str, *, write: bool = True) -> str:
    """The line that opening fails with."""
    with pytest.raises(StoreError) as caught:
        Store.open(url, write=write)
    message = str(caught.value)
    assert "\n" not in message
    return message


class TestSameAsAFile:
    def test_order_is_that_of_bytes(self, store: Store, postgresql: Any) -> None:
        assert postgresql.execute("SELECT 'a' < 'B'") == [(True,)]  # the server's own order is another
        for name in ("a", "B"):
            store.put_winner(dataclasses.replace(record(), device=dataclasses.replace(H200, name=name)))
        keys = [dataclasses.replace(H200, name=name).key() for name in ("B", "a")]
        assert [each.device.key() for each in store.records()] == keys
        assert [row["device_key"] for row in contents_of(store).winners] == keys
        assert [row["key"] for row in contents_of(store).devices] == keys

    def test_what_no_column_keeps_is_replaced(self, store: Store) -> None:
        for compiler in ("g++\0", "g++\udcff"):
            store.add_trials(PROBLEM, H200, [trial(1, compiler=compiler)])
            store.add_trials(PROBLEM, H200, [trial(1, compiler=compiler)])
        assert [each.compiler for each in store.trials(PROBLEM, H200)] == ["g++\0", "g++\udcff"]
        assert check_store(store) == ()

    @pytest.mark.parametrize("time", [1 / 3, 5e-324, 1.7976931348623157e308, 123456789.12345679])
    def test_times_keep_every_digit(self, store: Store, time: float) -> None:
        store.put_winner(record(PROBLEM, time))
        assert store.records() == (record(PROBLEM, time),)
        assert contents_of(store).winners[0]["median_ns"] == time

    def test_a_store_for_reading_is_not_written(self, database: str) -> None:
        Store.open(database, write=True).close()
        with Store.open(database, write=False) as store:
            for change in (
                lambda: store.add_trials(PROBLEM, H200, [trial(1)]),
                lambda: store.tuners.register("host 17"),
            ):
                with pytest.raises(StoreError, match="is read-only: open it for writing"):
                    change()

    def test_reading_sees_one_moment(self, location: str) -> None:
        with Store.open(location, write=True) as store:
            store.add_trials(PROBLEM, H200, [trial(1)])
            before = len(store.trials(PROBLEM, H200))
            opened = opening.open_location(location, write=False, immutable=False)
            with opened.reading() as connection:
                seen = [_count(connection)]
                writer = threading.Thread(target=store.add_trials, args=(PROBLEM, H200, [trial(2)]))
                writer.start()
                # An SQLite file's writer waits for readers, a server's does not.
                writer.join(0.3)
                seen.append(_count(connection))
            writer.join()
            assert seen == [before, before]
            assert len(store.trials(PROBLEM, H200)) == before + 1
            opened.reader.dispose()

    def test_writers_wait_and_then_say_so(self, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with Store.open(location, write=True) as store:
            other = opening.open_location(location, write=True, immutable=False)
            monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.2)
            with other.writing(), pytest.raises(StoreError, match=r"another process is writing .* since 0\.2 s"):
                store.add_trials(PROBLEM, H200, [trial(1)])
            store.add_trials(PROBLEM, H200, [trial(1)])
            other.reader.dispose()
            assert len(store.trials(PROBLEM, H200)) == 1

    def test_a_writer_sees_what_it_waited_for(self, location: str) -> None:
        """The faster winner stays, even if it was not there when the slower one arrived."""
        with Store.open(":memory:", write=True) as other:
            other.put_winner(record(PROBLEM, 6.0))
            slower = contents_of(other)
        with Store.open(location, write=True) as store:
            store.add_trials(PROBLEM, H200, [trial(0)])
            opened = opening.open_location(location, write=True, immutable=False)
            with opened.writing() as connection:
                replace(connection, winners, rows.winner_row(record(PROBLEM, 4.0)), WINNER_IDENTITY)
                late = threading.Thread(target=absorb, args=(store, slower))
                late.start()
                late.join(0.3)
                assert late.is_alive()
            late.join()
            opened.reader.dispose()
            assert store.records() == (record(PROBLEM, 4.0),)

    def test_threads_share_a_store(self, location: str) -> None:
        # The orders differ: without a common lock two writers would wait for each other's rows.
        batches = [[trial(number) for number in range(20)][:: 1 - 2 * (turn % 2)] for turn in range(20)]
        with Store.open(location, write=True) as store, ThreadPoolExecutor(20) as threads:
            list(threads.map(lambda batch: store.add_trials(PROBLEM, H200, batch), batches))
            assert len(store.trials(PROBLEM, H200)) == 20

    def test_a_fork_shares_a_store(self, location: str) -> None:
        with Store.open(location, write=True) as store:
            store.add_trials(PROBLEM, H200, [trial(0)])
            child = os.fork()
            if child == 0:
                try:
                    for number in range(1, 20):
                        store.add_trials(PROBLEM, H200, [trial(number)])
                finally:
                    os._exit(0)
            for number in range(20, 40):
                store.add_trials(PROBLEM, H200, [trial(number)])
            os.waitpid(child, 0)
            assert {each.config.integer("n") for each in store.trials(PROBLEM, H200)} == set(range(40))


def _count(connection: Any) -> int:
    return int(connection.exec_driver_sql("SELECT count(*) FROM warpsmith_trials").scalar_one())


class TestOpening:
    @pytest.mark.parametrize("write", [False, True])
    def test_no_server(self, write: bool) -> None:
        line = refusal("postgresql+psycopg://me:secret@127.0.0.1:1/x", write=write)
        assert line.startswith("postgresql+psycopg://me:***@127.0.0.1:1/x: no server answers (")
        assert "Connection refused" in line
        assert "no server answers" in refusal("postgresql+psycopg:///x?host=/nowhere", write=write)

    def test_no_such_host(self) -> None:
        assert "no-host.invalid" in refusal("postgresql+psycopg://no-host.invalid/x").partition(": ")[2]

    def test_no_such_database(self, postgresql: Any) -> None:
        assert 'database "nothing" does not exist' in refusal(postgresql.url("nothing"))

    def test_a_wrong_password_is_refused_and_not_shown(self, postgresql: Any) -> None:
        postgresql.execute("CREATE ROLE keyed LOGIN PASSWORD 'right'")
        for user, database in (("keyed:wrong-one", "postgres"), ("keyed", "postgres?password=wrong-one")):
            line = refusal(postgresql.url(database, user))
            assert "password authentication failed" in line
            assert "wrong-one" not in line

    def test_a_role_without_rights(self, database: str, postgresql: Any) -> None:
        postgresql.execute("CREATE ROLE stranger LOGIN")
        assert "permission denied" in refusal(database.replace("postgres@", "stranger@"))

    def test_an_empty_database_for_reading(self, database: str) -> None:
        assert "holds no store yet" in refusal(database, write=False)

    def test_a_database_that_cannot_keep_every_character(self, postgresql: Any) -> None:
        options = "ENCODING 'SQL_ASCII' LOCALE 'C' LOCALE_PROVIDER libc TEMPLATE template0"
        line = refusal(postgresql.url(postgresql.new_database(options)))
        assert "keeps text as SQL_ASCII, but a store needs UTF8" in line

    def test_a_newer_schema(self, database: str, postgresql: Any) -> None:
        Store.open(database, write=True).close()
        postgresql.execute("UPDATE warpsmith_version SET version_num = '0099'", database.rpartition("/")[2])
        for write in (False, True):
            assert "newer warpsmith" in refusal(database, write=write)

    def test_at_once_of_an_empty_database(self, database: str) -> None:
        """Eight processes make the tables at the same time."""

        def fill(number: int) -> None:
            with Store.open(database, write=True) as store:
                store.add_trials(PROBLEM, H200, [trial(number)])

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(fill, range(8)))
        with Store.open(database, write=False) as store:
            assert len(store.trials(PROBLEM, H200)) == 8
            assert check_store(store) == ()

    def test_the_driver_need_not_be_named(self, database: str) -> None:
        Store.open(database.replace("+psycopg", ""), write=True).close()
        Store.open(database, write=False).close()

    def test_settings_of_the_url_hold(self, database: str) -> None:
        Store.open(database, write=True).close()
        url = f"{database}?application_name=mine&connect_timeout=3"
        opened = opening.open_location(url, write=False, immutable=False)
        with opened.reading() as connection:
            info = connection.connection.driver_connection.info.get_parameters()  # type: ignore[union-attr]
        opened.reader.dispose()
        assert (info["application_name"], info["connect_timeout"]) == ("mine", "3")


class TestTransactions:
    @pytest.fixture
    def settings(self, database: str) -> Callable[[str, str], str]:
        """A setting of the server within a transaction."""

        def ask(kind: str, name: str) -> str:
            opened = opening.open_location(database, write=True, immutable=False)
            with (opened.writing if kind == "write" else opened.reading)() as connection:
                value = connection.exec_driver_sql(f"SHOW {name}").scalar_one()
            opened.reader.dispose()
            return str(value)

        return ask

    @pytest.mark.parametrize(
        ("kind", "name", "value"),
        [
            ("read", "transaction_isolation", "repeatable read"),
            ("read", "transaction_read_only", "on"),
            ("write", "transaction_isolation", "read committed"),
            ("write", "transaction_read_only", "off"),
            # A tuner that is stopped in mid-transaction loses the lock before the others lose patience.
            ("write", "idle_in_transaction_session_timeout", "10s"),
            ("write", "lock_timeout", "30s"),
        ],
    )
    def test_are_set_as_they_should_be(
        self, settings: Callable[[str, str], str], kind: str, name: str, value: str
    ) -> None:
        assert settings(kind, name) == value

    def test_a_writer_that_vanished_holds_nobody_up(self, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("warpsmith.store.postgresql.IDLE_TIMEOUT_S", 1)
        with Store.open(database, write=True) as store:
            vanished = opening.open_location(database, write=True, immutable=False)
            with pytest.raises(ServerLost), vanished.writing() as connection:  # noqa: PT012  (at the last statement)
                connection.exec_driver_sql("SELECT 1")
                store.add_trials(PROBLEM, H200, [trial(1)])  # waits until the server ends the other
                assert len(store.trials(PROBLEM, H200)) == 1
                connection.exec_driver_sql("SELECT 1")
            vanished.reader.dispose()


class TestThatMayNotBeChanged:
    """A search is refused before it begins, with the reason; reading goes on."""

    @pytest.fixture
    def reader(self, postgresql: Any, database_with_store: str) -> Iterator[str]:
        """The URL of a store for a user who may only read it."""
        name = database_with_store.rpartition("/")[2]
        with Store.open(database_with_store, write=True) as store:
            store.put_winner(winner())
        postgresql.execute("CREATE ROLE reader LOGIN")
        postgresql.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", name)
        yield postgresql.url(name, "reader")
        postgresql.execute("DROP OWNED BY reader", name)
        postgresql.execute("DROP ROLE reader")

    def test_by_this_user(self, reader: str) -> None:
        with pytest.raises(StoreError, match="may only be read by this user: have the right to change its tables"):
            Store.open(reader, write=True)
        with Store.open(reader, write=False) as store:
            assert store.records() == (winner(),)

    def test_by_a_user_who_may_make_no_tables(self, postgresql: Any, database: str) -> None:
        name = database.rpartition("/")[2]
        postgresql.execute("CREATE ROLE guest LOGIN")
        try:
            with pytest.raises(StoreError, match=r"permission denied .*: have the right to change its tables granted"):
                Store.open(postgresql.url(name, "guest"), write=True)
        finally:
            postgresql.execute("DROP ROLE guest")

    @pytest.mark.filterwarnings("ignore:.*; waiting for it")
    def test_as_a_copy_of_another_server(self, postgresql: Any, database_with_store: str) -> None:
        mark = postgresql.folder / "data" / "standby.signal"
        with Store.open(database_with_store, write=True) as opened_before:
            opened_before.put_winner(winner())
            postgresql.stop("fast")
            mark.touch()
            postgresql.start()
            try:
                with pytest.raises(StoreError, match="follows another server, and takes no changes"):
                    Store.open(database_with_store, write=True)
                with pytest.raises(StoreError, match="follows another server, and takes no changes"):
                    opened_before.put_winner(winner())
                with Store.open(database_with_store, write=False) as store:
                    assert store.records() == (winner(),)
            finally:
                postgresql.stop("fast")
                mark.unlink()
                postgresql.start()
