"""What another library is to a comparison."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True, slots=True)
class Peer:
    """One library, ready to run on dense inputs and an output of its own."""

    name: str
    """Library, version, function."""
    run: Callable[[], None]
    """Does the work once, on the device's default stream; does not wait."""
    result: Callable[[], NDArray[Any]]
    """The output of the last run."""
    renew: Callable[[], None] = lambda: None
    """Gives the inputs back what runs have overwritten; between runs that are timed, untimed itself."""
