"""How often this process has written to a store, so that what it remembers of stores is renewed at once."""

from __future__ import annotations


class OwnWrites:
    """Counts. Threads may note at the same time: what matters is that the number is another one afterwards."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0
        """Transactions that were ended, also by an error."""

    def note(self) -> None:
        """To be called when a transaction has ended."""
        self.count += 1


OWN_WRITES = OwnWrites()
