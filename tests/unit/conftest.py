"""A PostgreSQL server, and the stores that every test of what stores do runs on."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from warpsmith.store.store import Store

USER = "postgres"
"""The server refuses to run as root; Debian's package makes this user."""

MISSING = "no PostgreSQL server in /usr/lib/postgresql: apt-get install postgresql"

ACCESS = """\
local all all trust
host all keyed 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


class PostgresServer:
    """A server on a free port of this machine, with its data in a folder of its own."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self._folder = programs, folder
        self._names = (f"store_{number}" for number in itertools.count())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        # ICU's order differs from that of bytes, as it does on most servers.
        locale = ("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")
        self._call("initdb", "--username", USER, "--encoding=UTF8", *locale, "--no-sync")
        (folder / "data" / "pg_hba.conf").write_text(ACCESS)

    def start(self) -> None:
        """Starts it where it does not run."""
        if self._call("pg_ctl", "status", check=False) != 0:
            options = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
            self._call("pg_ctl", "start", "-w", "-l", str(self._folder / "log"), "-o", options)

    def stop(self, mode: str = "immediate") -> None:
        """Ends it: `immediate` as a crash would, `fast` as an administrator does."""
        self._call("pg_ctl", "stop", "-w", "-m", mode)

    def url(self, database: str, user: str = USER) -> str:
        """The location of a store there."""
        return f"postgresql+psycopg://{user}@127.0.0.1:{self.port}/{database}"

    def new_database(self, options: str = "") -> str:
        """The name of a database that nobody has used."""
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name} {options}")
        return name

    def execute(self, statement: str, database: str = USER) -> list[Any]:
        """One statement, committed, and the rows that it gives."""
        import psycopg

        with psycopg.connect(host="127.0.0.1", port=self.port, user=USER, dbname=database, autocommit=True) as opened:
            done = opened.execute(statement.encode())
            return done.fetchall() if done.description else []

    def _call(self, program: str, *arguments: str, check: bool = True) -> int:
        command = [str(self._programs / program), *arguments, "-D", str(self._folder / "data")]
        # A file and no pipe: the server keeps it open.
        with (self._folder / "calls").open("w+") as output:
            user = USER if os.geteuid() == 0 else None
            done = subprocess.run(command, stdout=output, stderr=output, user=user, cwd=self._folder, check=False)
            output.seek(0)
            assert done.returncode == 0 or not check, output.read()
        return done.returncode


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """A running server. Where none is installed, its tests are skipped, or fail where CI is set."""
    installed = [*Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if not installed:
        (pytest.fail if "CI" in os.environ else pytest.skip)(MISSING)
    newest = max(installed, key=lambda each: int(each.parts[-3]))
    # pytest's folders are closed to other users, and too long for a socket's name.
    folder = Path(tempfile.mkdtemp(prefix="warpsmith-postgresql-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        server = PostgresServer(newest.parent, folder)
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def database(postgresql: PostgresServer) -> Iterator[str]:
    """The URL of an empty database on a running server."""
    postgresql.start()
    name = postgresql.new_database()
    yield postgresql.url(name)
    postgresql.start()
    # Hundreds of them would fill the disk's cache, and whoever syncs next would wait for it.
    postgresql.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["file", "postgresql"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where several processes can make one store."""
    return str(tmp_path / "a.db") if request.param == "file" else request.getfixturevalue("database")


@pytest.fixture(params=["file", "memory", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store, open for writing."""
    where = {"file": str(tmp_path / "a.db"), "memory": ":memory:"}.get(request.param)
    with Store.open(where or request.getfixturevalue("database"), write=True) as opened:
        yield opened


@pytest.fixture
def execute() -> Callable[..., None]:
    """Changes an SQLite file behind the store's back: `execute(path, *statements)`."""

    def call(path: Path, *statements: str) -> None:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return call
