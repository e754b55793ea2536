"""Untried configs of a space in random order."""

from __future__ import annotations

import random
from collections.abc import Iterator

from warpsmith.generator.space import Config, Space

LISTED = 5_000
"""Number of feasible configs up to which a space is listed at once, in 40 ms; larger spaces are sampled at random."""
LISTED_LATE = 500_000
"""Number of feasible configs up to which a space is listed, in seconds, once random draws find only tried configs."""
DRAWS = 200
"""Tried configs that may be drawn in a row before the space is listed."""


class RandomOrder:
    """Returns every config of a space once, in random order. Not thread-safe.

    Args:
        space: space of the configs.
        tried: configs to skip; read at each call.
        rng: random source of the order.
    """

    def __init__(self, space: Space, tried: set[Config], rng: random.Random) -> None:
        self.space, self.tried = space, tried
        self._rng = rng
        self._is_listed = False
        """True once a listing was tried; it takes thousands of configs, so only when it is first needed."""
        self._found: tuple[Config, ...] | None = None
        self._order: Iterator[Config] = iter(())

    @property
    def size(self) -> int | None:
        """Number of feasible configs of the space; None if there are too many to list."""
        return None if self._listing is None else len(self._listing)

    @property
    def remaining(self) -> int | None:
        """Number of feasible configs that were not tried yet; None if there are too many to count."""
        return None if self._listing is None else len(self._listing) - len(self.tried)

    def next(self) -> Config | None:
        """An untried config; None if none is left."""
        if self._listing is None:
            drawn = (self.space.drawn(self._rng) for _ in range(DRAWS))
            if (new := next((config for config in drawn if config not in self.tried), None)) is not None:
                return new
            self._list(LISTED_LATE)
        return next((config for config in self._order if config not in self.tried), None)

    @property
    def _listing(self) -> tuple[Config, ...] | None:
        """All feasible configs; None if there are too many to list."""
        if not self._is_listed:
            self._list(LISTED)
        return self._found

    def _list(self, most: int) -> None:
        self._is_listed = True
        self._found = self.space.listed(most)
        if self._found is not None:
            self._order = iter(self._rng.sample(self._found, len(self._found)))
