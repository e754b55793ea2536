"""Programs that no look-up answers with: what gave wrong results here, and what stores say has done harm."""

from __future__ import annotations

import contextlib
import warnings

from warpsmith.errors import StoreError
from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.store.location import write_location
from warpsmith.store.record import Failure, FailureKind


class WrongProgram(UserWarning):
    """A program that nobody had tuned gave wrong results when it was first used; another one takes its place."""


class WrongHere:
    """The programs that gave wrong results in this process, also where no store can be written."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str], str] = {}

    def of(self, device: Device) -> dict[str, str]:
        """Reasons by fingerprint, in the order in which it was found."""
        here = device.key()
        return {program: told for (key, program), told in self._messages.copy().items() if key == here}

    def add(self, device: Device, fingerprint: str, message: str) -> None:
        """Notes a program."""
        self._messages[device.key(), fingerprint] = message

    def forget(self) -> None:
        """Lets go of all of them."""
        self._messages.clear()


WRONG_HERE = WrongHere()


def refuse(program: Program, problem: Problem, device: Device, message: str, store: str | None) -> None:
    """Has no look-up answer with a program on this device any more, and warns of it.

    Args:
        program: what gave wrong results.
        problem: for which.
        device: where.
        message: how many, and how far off.
        store: as the user named it; where it cannot be written, this process alone remembers.
    """
    told = f"{program.family} {program.config.key()} gave wrong results for {problem.key()}: {message}"
    WRONG_HERE.add(device, program.fingerprint, told)
    warnings.warn(f"{told}; another program takes its place", WrongProgram, stacklevel=2)
    # Without the extra `tune` no store can be written.
    with contextlib.suppress(ImportError, StoreError, OSError):
        from warpsmith.store.poison import Started
        from warpsmith.store.store import Store

        started = Started(program.family, program.config, program.fingerprint)
        with Store.open(write_location(store), write=True) as opened:
            opened.poison(device, started, Failure(FailureKind.WRONG, told))
