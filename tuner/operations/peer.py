"""What another library is to a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Protocol

from numpy.typing import NDArray

from warpsmith.store.record import LeftOut


class Unavailable(Exception):
    """A library does not have what a problem asks for, or cannot do it here; the message says which."""


class PeerRun(Protocol):
    """Does a library's work once on its set `index` of inputs and output, and does not wait.

    `stream` is the handle of the stream to work on, which may be one that is being captured; None is the default one.
    """

    def __call__(self, index: int = 0, stream: int | None = None, /) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """One library, ready to run on dense inputs and outputs of its own: as many sets of them as it was made with."""

    name: str
    """Library, version, function."""
    run: PeerRun
    result: Callable[[], NDArray[Any]]
    """The output of the last run on set 0."""
    renew: Callable[[], None] = lambda: None
    """Gives the inputs of all sets back what runs have overwritten; between runs that are timed, untimed itself."""
    tolerance: float | None = None
    """Largest scaled error of a library whose arithmetic is coarser by design, as its name says; None: as of ours."""


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    told = str(error).strip().splitlines()
    return f"{type(error).__name__}: {told[0]}" if told else type(error).__name__


@dataclasses.dataclass(frozen=True, slots=True)
class PeerMaker:
    """A library that may be installed, and what makes a `Peer` of it."""

    name: str
    """Of the library, where there is no peer that knows its version."""
    packages: tuple[str, ...]
    """One of them must be installed."""
    make: Callable[[], Peer]
    why_not: str | None = None
    """Why it is left out without a look at it, such as for the time that it would take; None where it is not."""

    def made(self) -> Peer | LeftOut:
        """The library, ready to run, or why it is left out."""
        if self.why_not is not None:
            return LeftOut(self.name, self.why_not)
        if not any(find_spec(package) is not None for package in self.packages):
            return LeftOut(self.name, f"{' or '.join(self.packages)} is not installed")
        try:
            return self.make()
        except Unavailable as error:
            return LeftOut(self.name, str(error))
        except Exception as error:
            return LeftOut(self.name, f"failed: {first_line(error)}")
