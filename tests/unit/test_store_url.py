"""Invalid store URLs: one line names the fault, exit code 2, and never a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from warpsmith.errors import BadArgument, StoreError
from warpsmith.store.database import ServerLost
from warpsmith.store.location import redacted
from warpsmith.store.opening import BadUrl
from warpsmith.store.store import Store
from warpsmith.store.store_reader import open_winners

PG = "postgresql+psycopg"
PORT = "must be a number from 1 to 65535"
QUOTE = "as %40, %3A and %2F"


def refusal(url: str, *, write: bool) -> str:
    with pytest.raises(BadUrl) as caught:
        Store.open(url, write=write)
    message = str(caught.value)
    assert "\n" not in message
    assert "s3cret" not in message
    assert "s3cret" not in redacted(url)
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, BadArgument)
    assert isinstance(caught.value, StoreError)  # as of every other store that cannot be opened
    return message


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize(
    ("url", "told"),
    [
        (f"{PG}://user@host:abc/db", PORT),
        (f"{PG}://user:s3cret@host:abc/db", f"://user:***@host:abc/db: the port after the host's colon {PORT}"),
        (f"{PG}://user:s3cret@host:99999/db", f"://user:***@host:99999/db: the port after the host's colon {PORT}"),
        (f"{PG}://user:s3cret@host:/db", PORT),
        (f"{PG}://user:s3cret@host:0/db", PORT),
        (f"{PG}://user:s3cret@host:-5/db", PORT),
        (f"{PG}://user:s3cret@[::1:5432/db", PORT),
        (f"{PG}://user:s3cret@h1:1,h2:2/db", PORT),
        (f"{PG}://user:s3cret/db", PORT),  # the password stands where a port would
        (f"{PG}://user:p@s3cret@host/db", QUOTE),
        (f"{PG}://user:p@s3cret:more@host:5432/db", QUOTE),
        (f"{PG}:/user:s3cret@host/db", "is no database URL"),
        ("postgresql:user:s3cret@host/db", "is no database URL"),
        ("post gres://user:s3cret@host/db", "is no database URL"),
        ("://", "is no database URL"),
        (f"{PG}://user:s3cret@ho\nst/db", "has characters that no URL has"),
        (f"{PG}://user:s3cret@host/d\0b", "has characters that no URL has"),
        ("mysql://user:s3cret@host/db", "a store is a file, or a URL of postgresql+psycopg://"),
        ("postgresql+nosuch://user:s3cret@host/db", "a store knows no such driver; use postgresql+psycopg://"),
        ("postgresql+asyncpg://user:s3cret@host/db", "a store knows no such driver; use postgresql+psycopg://"),
        ("sqlite+nosuch:///a.db", "a store knows no such driver; use postgresql+psycopg://"),
        ("sqlite:///a.db?mode=ro", "an SQLite store takes no URL options"),
        ("sqlite://a.db", "three slashes"),
        (f"{PG}:///db?port=abc&password=s3cret", "'abc'"),
        (f"{PG}:///db?host=a&port=1&port=2&password=s3cret", "number of hosts and ports"),
        (f"{PG}:///db?host=a:1&host=b&port=1,2&password=s3cret", "multihost"),
        (f"{PG}:///db?host=127.0.0.1&nonsense=1&password=s3cret", 'invalid connection option "nonsense"'),
        (f"{PG}:///db?host=127.0.0.1&connect_timeout=soon&password=s3cret", "connect_timeout"),
        (f"{PG}://user:s3cret@host/db?plugin=nosuch", "plugin is none"),
    ],
)
def test_what_is_wrong_is_told(url: str, told: str, write: bool) -> None:
    assert told in refusal(url, write=write)


@pytest.mark.parametrize("place", ["no-host.invalid", "127.0.0.1:1", "[::1]:1"])
def test_a_server_that_fails_is_no_bad_argument(place: str) -> None:
    with pytest.raises(ServerLost) as caught:
        Store.open(f"{PG}://user:s3cret@{place}/db", write=False)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["sqlite:///{}", "sqlite+pysqlite:///{}", "{}"])
def test_a_file_may_be_a_url_and_its_name_anything(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "user:word@host.db"
    Store.open(scheme.format(path), write=True).close()
    assert path.exists()


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize(
    ("location", "told"), [("a\0b", "is no name of a file"), ("~no-such-user/a.db", "a user who is not known here")]
)
def test_names_that_no_file_has(location: str, told: str, write: bool) -> None:
    with pytest.raises(StoreError, match=told):
        Store.open(location, write=write)
    with pytest.raises(StoreError, match=told):
        open_winners(location)


@pytest.mark.parametrize("url", [f"{PG}:/user:s3cret@host/db", f"{PG}://user:s3cret@host:abc/db", "sqlite://a.db"])
def test_look_ups_refuse_the_same_urls(url: str) -> None:
    with pytest.raises(BadUrl) as caught:
        open_winners(url)
    assert "s3cret" not in str(caught.value)
