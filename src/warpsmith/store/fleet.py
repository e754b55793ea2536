"""State that tuners on one store share: which of them are alive, and what each of them is trying."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.store import claims
from warpsmith.store.claims import Claim, Granted
from warpsmith.store.database import Database
from warpsmith.store.record import Trial


class Fleet:
    """The tuners on a store, through `claims`. It is the part of a `Store` that no look-up needs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register_tuner(self, name: str) -> str:
        """Adds a tuner and returns its id. `name` identifies it to people, such as its host and process."""
        tuner = uuid.uuid4().hex
        self._database.write(lambda connection: claims.register(connection, tuner, name))
        return tuner

    def beat(self, tuner: str) -> None:
        """A tuner's sign of life. Raises `claims.StruckOff` if the other tuners took it for dead."""
        self._database.write(lambda connection: claims.beat(connection, tuner))

    def beats(self) -> dict[str, int]:
        """Beat counter of each registered tuner, by its id.

        A tuner whose counter does not change, over some time of the caller's own monotonic clock, is dead.
        """
        return self._database.read(claims.beats) if self._database.schema >= 2 else {}

    def strike(self, tuner: str) -> str | None:
        """Removes a tuner and its claims: a dead one, or oneself at the end. Returns its name; None if it was gone."""
        return self._database.write(lambda connection: claims.strike(connection, tuner))

    def claim(
        self,
        problem: Problem,
        device: Device,
        tuner: str,
        wanted: Iterable[Claim],
        holds: Callable[[Trial], bool] = lambda _: True,
    ) -> Granted:
        """Claims those of `wanted` that no other tuner has claimed and for which no trial is stored.

        Claims that the tuner already has are granted again. A claim ends with `add_trials` or `strike`.

        A trial for which `holds` is False is to be tried again. Raises `claims.StruckOff` if the tuner was removed.
        """
        asked = tuple(wanted)
        return self._database.write(lambda connection: claims.take(connection, problem, device, tuner, asked, holds))
