"""Counts this process's writes to stores, so that caches of store contents are refreshed at once."""

from __future__ import annotations


class OwnWrites:
    """The counter. Threads may note at the same time: all that matters is that the number changes."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0
        """Transactions that have ended, also with an error."""

    def note(self) -> None:
        """Counts a transaction. Call it when one has ended."""
        self.count += 1


OWN_WRITES = OwnWrites()
