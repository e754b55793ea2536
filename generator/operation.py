"""Operations: a class of problems, and the kernel families that solve it."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """An operation as the generator knows it. `registry.py` lists all (docs/guide/adding-an-operation.md)."""

    problem: type[Problem]
    families: tuple[Family, ...]
    """Families that compete, in the order of preference without measurements. Their names begin with the operation's
    name, from which stores tell the operation of a program that is known by its text alone."""
    simplest: Family
    """Family whose default config is the simplest kernel, found without a search; winners are compared with it. It has
    the fewest conditions of all families. A problem that it does not solve has no such comparison."""

    def __post_init__(self) -> None:
        if self.simplest not in self.families:
            raise ValueError(f"the simplest family of {self.name} is none of its families")
        if strays := [family.name for family in self.families if not family.name.startswith(f"{self.name}_")]:
            raise ValueError(f"families of {self.name} must be named after it: {', '.join(strays)}")

    @property
    def name(self) -> str:
        """Name in keys, stores and on the command line."""
        return self.problem.operation
