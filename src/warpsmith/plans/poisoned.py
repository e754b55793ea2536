"""Programs that no look-up returns: those that gave wrong results here, and those that stores mark as harmful."""

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
    """An untuned program gave wrong results at its first use; another one takes its place."""


class WrongHere:
    """Programs that gave wrong results in this process, remembered even if no store can be written."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, str], str] = {}

    def of(self, device: Device) -> dict[str, str]:
        """Reasons by fingerprint, in the order in which they were found."""
        here = device.key()
        return {program: message for (key, program), message in self._messages.copy().items() if key == here}

    def add(self, device: Device, fingerprint: str, message: str) -> None:
        self._messages[device.key(), fingerprint] = message

    def forget(self) -> None:
        self._messages.clear()


WRONG_HERE = WrongHere()


def refuse(program: Program, problem: Problem, device: Device, message: str, store: str | None) -> None:
    """Excludes a program from all look-ups on this device, and warns about it.

    Args:
        program: program that gave wrong results.
        problem: problem that it ran for.
        device: device that it ran on.
        message: number of wrong results, and the worst one.
        store: store as the user named it; if it cannot be written, only this process remembers the program.
    """
    failure = f"{program.family} {program.config.key()} gave wrong results for {problem.key()}: {message}"
    WRONG_HERE.add(device, program.fingerprint, failure)
    warnings.warn(f"{failure}; another program takes its place", WrongProgram, stacklevel=2)
    # No store can be written without the extra `tune`.
    with contextlib.suppress(ImportError, StoreError, OSError):
        from warpsmith.store.poison import Started
        from warpsmith.store.store import Store

        started = Started(program.family, program.config, program.fingerprint)
        with Store.open(write_location(store), write=True) as opened:
            opened.poison.add(device, started, Failure(FailureKind.WRONG, failure))
