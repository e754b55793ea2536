"""What a check found."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """How some results compare with what they must be."""

    samples: int
    wrong: int
    largest_error: float
    message: str
    """The worst of those that are wrong; empty where none is."""

    @property
    def is_right(self) -> bool:
        return self.wrong == 0
