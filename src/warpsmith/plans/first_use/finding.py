"""Result of a check."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """Comparison of some results with their expected values."""

    samples: int
    wrong: int
    largest_error: float
    message: str
    """Message about the worst wrong result; empty if none is wrong."""

    @property
    def is_right(self) -> bool:
        return self.wrong == 0
