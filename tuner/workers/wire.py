"""Messages between the tuner and its workers: a length, then a pickle. This package writes and reads both ends."""

from __future__ import annotations

import dataclasses
import struct
from typing import BinaryIO

from warpsmith.errors import WarpsmithError

LENGTH = struct.Struct("<Q")
"""Header of a message: its length in bytes, as 64 bits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Raised:
    """An answer that is an expected error, to be raised again on the other side."""

    error: WarpsmithError


def read_message(stream: BinaryIO) -> bytes | None:
    """Reads one message; None at the end of the stream."""
    header = stream.read(LENGTH.size)
    if len(header) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(header)
    body = stream.read(length)
    return body if len(body) == length else None


def write_message(stream: BinaryIO, body: bytes) -> None:
    stream.write(LENGTH.pack(len(body)) + body)
    stream.flush()
