"""Operations: a kind of problem, and the kernel families that solve it."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """What the generator knows of an operation. To add one, name it in `registry.py` (docs/adding-an-operation.md)."""

    problem: type[Problem]
    families: tuple[Family, ...]
    """Those that compete, in the order of preference where nothing is measured. Their names begin with the operation's,
    which is how stores tell to which operation a program belongs that is known by its text alone."""
    simplest: Family
    """The one whose default config, which nobody has searched for, is the simplest kernel: what winners are set beside.
    It is the family with the fewest conditions; a problem that it does not solve has no such default."""

    def __post_init__(self) -> None:
        if self.simplest not in self.families:
            raise ValueError(f"the simplest family of {self.name} is none of its families")
        if strays := [family.name for family in self.families if not family.name.startswith(f"{self.name}_")]:
            raise ValueError(f"families of {self.name} must be named after it: {', '.join(strays)}")

    @property
    def name(self) -> str:
        """Its name in keys, stores and on the command line."""
        return self.problem.operation
