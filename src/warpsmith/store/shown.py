"""Locations of stores as printed in messages: URLs without their passwords. It needs no SQLAlchemy."""

from __future__ import annotations

import re

_KNOWN = re.compile(r"(?:postgres|postgresql|sqlite)(?:\+\w*)?:")
_WITH_USER = re.compile(r"(?P<user>[\w+]+://[^:/@?]*)(?P<password>:[^@]*)?(?P<place>@[^@]*)")
_WITHOUT = re.compile(r"[\w+]+://[^:/@?]*(?::[0-9]+)?(?:[/?][^@]*)?")
_SECRET_OPTION = re.compile(r"(?<=[?&])(?:ssl)?password=[^&]*(?:&|$)", re.IGNORECASE)
_SECRET = re.compile(r"((?:^|[?&])(?:ssl)?password=)[^&]*", re.IGNORECASE)


def is_url(location: str) -> bool:
    """True if a location is meant as a URL. This includes database URLs with a missing slash, which are no file
    names.
    """
    return "://" in location or _KNOWN.match(location) is not None


def shown(location: str) -> str:
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
