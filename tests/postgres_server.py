"""PostgreSQL server for tests, on a free port of this machine. Its data are in memory if there is room."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

USER = "postgres"
"""User that runs the server, which refuses to run as root. Debian's package creates this user."""
ACCESS = """\
local all all trust
host all keyed 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""
NOT_FOR_KEEPS = "-c fsync=off -c full_page_writes=off -c autovacuum=off -c shared_buffers=32MB"
"""Options of a server whose data nobody needs after a crash; `synchronous_commit` stays as users have it."""
MEMORY, ROOM_BYTES = Path("/dev/shm"), 1 << 30
"""File system in memory and the free bytes that it must have. A new database is 7 MB of files, 0.3 s on a disk."""


def folder_for_data() -> Path:
    """New folder. pytest's folders are closed to other users, and their paths are too long for a socket's name."""
    has_room = os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    return Path(tempfile.mkdtemp(prefix="warpsmith-postgresql-", dir=MEMORY if has_room else None))


class PostgresServer:
    """Server on a free port of this machine, with its own data folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs, self.folder = programs, folder
        self._names = (f"store_{number}" for number in itertools.count())
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        # ICU's sort order differs from byte order, as on most servers.
        locale = ("--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")
        # This strategy copies files without logging their pages. The default of PostgreSQL 15 logs them.
        self._copying = "STRATEGY file_copy" if int(programs.parts[-2]) >= 15 else ""
        self._call("initdb", "--username", USER, "--encoding=UTF8", *locale, "--no-sync")
        (folder / "data" / "pg_hba.conf").write_text(ACCESS)

    def start(self) -> None:
        """Starts the server if it does not run."""
        if self._call("pg_ctl", "status", check=False) != 0:
            options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 {NOT_FOR_KEEPS}"
            self._call("pg_ctl", "start", "-w", "-l", str(self.folder / "log"), "-o", options)

    def stop(self, mode: str = "immediate") -> None:
        """Stops the server: `immediate` as a crash would, `fast` as an administrator does."""
        self._call("pg_ctl", "stop", "-w", "-m", mode)

    def url(self, database: str, user: str = USER) -> str:
        """URL of a store in `database`."""
        return f"postgresql+psycopg://{user}@127.0.0.1:{self.port}/{database}"

    def new_database(self, options: str = "") -> str:
        """Creates an unused database and returns its name."""
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name} {options} {self._copying}")
        return name

    def execute(self, statement: str, database: str = USER) -> list[Any]:
        """Runs and commits one statement, and returns its rows."""
        import psycopg

        with psycopg.connect(host="127.0.0.1", port=self.port, user=USER, dbname=database, autocommit=True) as opened:
            done = opened.execute(statement.encode())
            return done.fetchall() if done.description else []

    def _call(self, program: str, *arguments: str, check: bool = True) -> int:
        command = [str(self._programs / program), *arguments, "-D", str(self.folder / "data")]
        # Output goes to a file and not to a pipe, because the server would keep the pipe open.
        with (self.folder / "calls").open("w+") as output:
            user = USER if os.geteuid() == 0 else None
            done = subprocess.run(command, stdout=output, stderr=output, user=user, cwd=self.folder, check=False)
            output.seek(0)
            assert done.returncode == 0 or not check, output.read()
        return done.returncode
