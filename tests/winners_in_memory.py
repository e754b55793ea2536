"""Winners and runners-up that look-ups find without a store."""

from __future__ import annotations

from warpsmith.generator.device import Device
from warpsmith.store.ceilings import StoredCeilings
from warpsmith.store.record import Failure, FamilyTime, Record


class WinnersInMemory:
    """Answers look-ups from given records; it implements `store_reader.Winners`.

    Args:
        location: the store's name in messages.
        read: its winners of one operation, in the order of `Winners.records`.
        beaten: its runners-up of that operation, those of a problem and a device in the order of `Winners.runners_up`.
    """

    def __init__(self, location: str, read: tuple[Record, ...], beaten: tuple[Record, ...] = ()) -> None:
        self.location = location
        self._read = read
        self._beaten = beaten

    def winners(self, problem_key: str, device_key: str | None = None) -> tuple[Record, ...]:
        """Winners of `Problem.key()` on `Device.key()`, one for each conditions, in the order of USUAL_FIRST.

        Without a device, those on all devices, by device key.
        """
        return _of(self._read, problem_key, device_key)

    def records(self, operation: str | None = None) -> tuple[Record, ...]:
        """All winners, or those of one operation."""
        return tuple(each for each in self._read if operation in (None, each.problem.operation))

    def runners_up(self, problem_key: str, device_key: str) -> tuple[Record, ...]:
        """Fastest candidate of each family except the winner's, for each conditions, in the order of USUAL_FIRST."""
        return _of(self._beaten, problem_key, device_key)

    def pinned_winners(self, problem_key: str, device_key: str) -> tuple[Record, ...]:  # noqa: ARG002 - the interface's
        """Empty, because users of this snapshot pin nothing."""
        return ()

    def beaten(self, family: str) -> tuple[Record, ...]:
        """All runners-up of a family, by problem key, then device key."""
        return tuple(each for each in self._beaten if each.trial.family == family)

    def family_times(self, operation: str) -> tuple[FamilyTime, ...]:
        """Times of all runners-up of an operation, in no order."""
        return tuple(FamilyTime.of(each) for each in self._beaten if each.problem.operation == operation)

    def poisoned(self, device: Device) -> dict[str, Failure]:  # noqa: ARG002 - part of the interface
        """Empty, because users of this snapshot run no programs."""
        return {}

    def ceilings(self, device: Device) -> StoredCeilings | None:  # noqa: ARG002 - part of the interface
        """None, because nothing was measured."""
        return None

    def close(self) -> None:
        """Does nothing."""


def _of(records: tuple[Record, ...], problem_key: str, device_key: str | None) -> tuple[Record, ...]:
    of_problem = (each for each in records if each.problem.key() == problem_key)
    return tuple(each for each in of_problem if device_key in (None, each.device.key()))
