"""A family's search that is made at the family's first turn: most families of a short search have none."""

from __future__ import annotations

from collections.abc import Callable

from warpsmith.tuner.search.family_search import FamilySearch


class NoSearch(Exception):
    """A family cannot be searched: it has no legal config to try first, or it failed.

    Args:
        family: the family's name.
    """

    def __init__(self, family: str) -> None:
        super().__init__(f"{family} cannot be searched")
        self.family = family


class LateSearch:
    """The search of one family, made when it is first needed. Making it takes the family's space, default and starts.

    Before that, it has tried nothing and has configs to try first. Not thread-safe.

    Args:
        make: makes the search. It raises NoSearch if the family cannot be searched.
    """

    def __init__(self, make: Callable[[], FamilySearch]) -> None:
        self._make = make
        self._made: FamilySearch | None = None

    @classmethod
    def of(cls, search: FamilySearch) -> LateSearch:
        """A search that is made already."""
        made = cls(lambda: search)
        made._made = search
        return made

    @property
    def made(self) -> FamilySearch:
        """The search itself, made now if it was not yet. Raises NoSearch."""
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def parameters(self) -> int:
        """Number of parameters of its space; 0 before the search is made."""
        return 0 if self._made is None else len(self._made.space.parameters)

    @property
    def tried(self) -> int:
        """See `FamilySearch.tried`."""
        return 0 if self._made is None else self._made.tried

    @property
    def settled(self) -> int:
        """See `FamilySearch.settled`."""
        return 0 if self._made is None else self._made.settled

    @property
    def best_ns(self) -> float | None:
        """See `FamilySearch.best_ns`."""
        return None if self._made is None else self._made.best_ns

    @property
    def firsts_are_due(self) -> bool:
        """See `FamilySearch.firsts_are_due`."""
        return self._made is None or self._made.firsts_are_due

    @property
    def is_doubted(self) -> bool:
        """See `FamilySearch.is_doubted`."""
        return self._made is not None and self._made.is_doubted

    @property
    def is_exhausted(self) -> bool:
        """True if every config of the space was tried."""
        return self._made is not None and self._made.remaining == 0

    def beside_ns(self, most_ns: float) -> float | None:
        """See `FamilySearch.beside_ns`."""
        return None if self._made is None else self._made.beside_ns(most_ns)
