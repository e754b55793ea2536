"""Locations of stores: where they lie, the order in which they are read, and how messages show them.

It needs no SQLAlchemy. Messages show a URL without its passwords.
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

import platformdirs

from warpsmith.errors import BadArgument, StoreError

ENVIRONMENT_VARIABLE = "WARPSMITH_STORE"

_FILE_URL = re.compile(r"sqlite://(?:/(?P<path>[^?]*))?")
_KNOWN = re.compile(r"(?:postgres|postgresql|sqlite)(?:\+\w*)?:")
_WITH_USER = re.compile(r"(?P<user>[\w+]+://[^:/@?]*)(?P<password>:[^@]*)?(?P<place>@[^@]*)")
_WITHOUT = re.compile(r"[\w+]+://[^:/@?]*(?::[0-9]+)?(?:[/?][^@]*)?")
_SECRET_OPTION = re.compile(r"(?<=[?&])(?:ssl)?password=[^&]*(?:&|$)", re.IGNORECASE)
_SECRET = re.compile(r"((?:^|[?&])(?:ssl)?password=)[^&]*", re.IGNORECASE)


def own_store() -> Path | None:
    """The user's own file, in the platform's folder for persistent data.

    None for a user without a home folder, such as a user number in a container without an entry in the list of users.
    """
    try:
        folder = Path(platformdirs.user_data_dir("warpsmith", appauthor=False))
    except RuntimeError:
        return None
    return folder / "store.db" if folder.is_absolute() else None  # older platformdirs return `~` unexpanded


def shipped_store() -> Path:
    """File of the winners that come with the package."""
    return Path(__file__).parent.parent / "cache.db"


def named_location(explicit: str | None) -> str | None:
    """The location that the user named: `explicit` (`--store`), else WARPSMITH_STORE, else None.

    Raises BadArgument if it is no text.
    """
    if explicit is not None and not isinstance(explicit, str):
        raise BadArgument(f"a store is named by the path or the URL as text; got {explicit!r}")
    return explicit or os.environ.get(ENVIRONMENT_VARIABLE) or None


def write_location(explicit: str | None) -> str:
    """The store for results: the named location, else the user's own file. Raises StoreError if there is neither."""
    if (location := named_location(explicit) or own_store()) is None:
        raise StoreError("this user has no home folder for a store: name one with --store or WARPSMITH_STORE")
    return str(location)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A location at which a store may exist."""

    location: str
    is_named: bool = False
    """True if the user named it. It must then be readable."""
    may_be_missing: bool = True
    """True if it need not exist yet: the environment may name a store before the first search makes it."""
    is_installed: bool = False


def unnamed_places() -> tuple[Place, ...]:
    """The user's own file and the shipped one."""
    own = own_store()
    return *(() if own is None else (Place(str(own)),)), Place(str(shipped_store()), is_installed=True)


def places(explicit: str | None) -> tuple[Place, ...]:
    named = named_location(explicit)
    others = unnamed_places()
    return others if named is None else (Place(named, is_named=True, may_be_missing=not explicit), *others)


def look_up_locations(explicit: str | None) -> tuple[str, ...]:
    """Locations of the stores that a look-up reads, in order, whether they exist or not."""
    return tuple(place.location for place in places(explicit))


def file_of(location: str) -> str | None:
    """The file that a location names by path or by URL, or `:memory:`; None for a server."""
    url = _FILE_URL.fullmatch(location)
    return location if not is_url(location) else url and (url["path"] or ":memory:")


def is_url(location: str) -> bool:
    """True if a location is meant as a URL. This includes database URLs with a missing slash, which are no file
    names.
    """
    return "://" in location or _KNOWN.match(location) is not None


def redacted(location: str) -> str:
    """The location for messages: a URL without its passwords."""
    if not is_url(location):
        return location
    if whole := _WITH_USER.fullmatch(location):
        location = whole["user"] + (":***" if whole["password"] else "") + whole["place"]
    elif not _WITHOUT.fullmatch(location):
        return _masked(location)
    return _SECRET_OPTION.sub("", location).rstrip("?&")


def _masked(location: str) -> str:
    """A location that cannot be split, without any text that may be a password.

    Everything before the last @ is masked. Without an @, the text at the place of a port is masked, because in a bare
    `user:password` the password stands there.
    """
    scheme, colon, rest = location.partition(":")
    rest = rest.lstrip("/")
    slashes = location[len(scheme) + len(colon) : len(location) - len(rest)]
    _, at, place = rest.rpartition("@")
    if not at:
        place = re.sub(r":(?![0-9]+(?:[/?]|$))[^/?]*", ":***", place, count=1)
    return _SECRET.sub(r"\1***", f"{scheme}{colon}{slashes}{'***@' if at else ''}{place}")
