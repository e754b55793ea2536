"""Jobs of worker processes, the state between them, and messages: a length, then a pickle.

This module imports little, because compilers start with it too.
"""

from __future__ import annotations

import abc
import dataclasses
import struct
from typing import TYPE_CHECKING, BinaryIO, Generic, Protocol, TypeVar

from warpsmith.errors import WarpsmithError

if TYPE_CHECKING:
    from warpsmith.devices.runtime import Runtime


Answer = TypeVar("Answer", covariant=True)


class Closing(Protocol):
    """Object that occupies device memory until it is closed."""

    def close(self) -> None:
        """Frees the memory."""


class WorkerState:
    """State of a worker process between jobs: an open device, and data that a job laid out on it for later jobs."""

    def __init__(self) -> None:
        self.runtime: Runtime | None = None
        self.laid_out: Closing | None = None

    def clear(self) -> None:
        """Frees what was laid out on the device."""
        if self.laid_out is not None:
            self.laid_out.close()
            self.laid_out = None

    def close(self) -> None:
        """Closes the device."""
        if self.runtime is not None:
            self.runtime.close()


class Job(abc.ABC, Generic[Answer]):
    """One request to a worker process. Jobs and answers are frozen and can be pickled."""

    @abc.abstractmethod
    def run(self, state: WorkerState) -> Answer:
        """Does the work, in the worker process."""


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
