"""The winners of one operation as a store held them at one moment."""

from __future__ import annotations

from warpsmith.store.record import Record


class WinnersInMemory:
    """Answers look-ups as the store did from which the records were read, as `store_reader.Winners` has it.

    Args:
        location: that store's name in messages.
        read: its winners of one operation, in the order of `Winners.records`.
    """

    def __init__(self, location: str, read: tuple[Record, ...]) -> None:
        self.location = location
        self._read = read

    def winners(self, problem_key: str, device_key: str) -> tuple[Record, ...]:
        """The winners of `Problem.key()` on `Device.key()`, one for each conditions, in the order of USUAL_FIRST."""
        return tuple(
            each for each in self._read if (each.problem.key(), each.device.key()) == (problem_key, device_key)
        )

    def records(self, operation: str | None = None) -> tuple[Record, ...]:
        """All that were read, or those of them that are of one operation."""
        return tuple(each for each in self._read if operation in (None, each.problem.operation))

    def close(self) -> None:
        """Nothing is held."""
