"""Parses URLs of stores, and says what is wrong with the ones it refuses."""

from __future__ import annotations

import re

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from warpsmith.errors import BadArgument, StoreError
from warpsmith.store import postgresql, sqlite
from warpsmith.store.shown import shown

_PARTS = re.compile(
    r"""(?P<driver>[\w+]+)://
    (?:[^:/]*(?::[^@]*)?@)?                # user and password
    (?:\[[^/?]+\]|[^/:?]+)?                # host
    (?::(?P<port>[^/?]*))?""",
    re.VERBOSE,
)
"""The parts of a URL as SQLAlchemy splits it (`sqlalchemy.engine.url`). SQLAlchemy does not say which part is wrong."""

_QUOTE = "write @, : and / in a user's name or password as %40, %3A and %2F"
_PORT = "the port after the host's colon must be a number from 1 to 65535; leave the colon out for PostgreSQL's own"


class BadUrl(BadArgument, StoreError):
    """Error for a URL that names no store. Exit code 2."""


def parse_url(location: str) -> URL:
    """The URL of a store, an SQLite file or a PostgreSQL database. Raises BadUrl, whose message never shows a
    password.
    """
    told = shown(location)
    if not location.isprintable():
        raise BadUrl(f"{' '.join(told.split())!r} has characters that no URL has: {sqlite.OTHER_STORE}")
    try:
        url = make_url(location)
    except ArgumentError:
        raise BadUrl(f"{told} is no database URL: {sqlite.OTHER_STORE}") from None
    except ValueError:  # only an invalid port raises this
        parts = _PARTS.match(location)
        is_quoted = parts is None or "@" not in (parts["port"] or "")
        raise BadUrl(f"{told}: {_PORT if is_quoted else _QUOTE}") from None
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        _check_file(url, told)
    elif url.drivername in ("postgresql", postgresql.DRIVER):
        _check_server(url, told)
    elif url.get_backend_name() in ("sqlite", "postgresql"):
        raise BadUrl(f"{told}: a store knows no such driver; use {postgresql.DRIVER}://, or name a file")
    else:
        raise BadUrl(f"{told}: a store is a file, or a URL of {postgresql.DRIVER}://")
    return url


def _check_file(url: URL, told: str) -> None:
    if url.host is not None or url.username is not None or url.port is not None:
        raise BadUrl(f"{told}: the path of an SQLite store comes after three slashes, such as sqlite:///store.db")
    if url.query:
        raise BadUrl(f"{told}: an SQLite store takes no URL options; name the file alone")


def _check_server(url: URL, told: str) -> None:
    if "@" in (url.host or ""):
        raise BadUrl(f"{told}: {_QUOTE}")
    if url.port is not None and not 0 < url.port < 2**16:
        raise BadUrl(f"{told}: {_PORT}")
    if "plugin" in url.query:
        raise BadUrl(f"{told}: a store's URL takes the options of PostgreSQL's client library, and plugin is none")
