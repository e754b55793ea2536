"""Cases that a kind and a seed make, for the loops of this folder."""

from __future__ import annotations

import dataclasses
import enum
from typing import Generic, TypeVar

Kind = TypeVar("Kind", bound=enum.StrEnum)


@dataclasses.dataclass(frozen=True)  # without slots: to call an alias such as SeededCase[Kind] sets an attribute
class SeededCase(Generic[Kind]):
    """A case of a kind; its seed draws the rest."""

    kind: Kind
    seed: int

    def __str__(self) -> str:
        return f"{self.kind} {self.seed}"

    @classmethod
    def parse(cls, text: str, kinds: type[Kind]) -> SeededCase[Kind]:
        """The case that `str` wrote."""
        kind, seed = text.split()
        return cls(kinds(kind), int(seed))
