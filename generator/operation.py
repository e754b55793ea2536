"""Operations: a class of problems, and the kernel families that solve it."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping

from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """An operation as the generator knows it. `registry.py` lists all (docs/guide/adding-an-operation.md)."""

    problem: type[Problem]
    listed: Mapping[str, Callable[[], Family]]
    """Families that compete, by name, in the order of preference without measurements. Calling one imports its module.
    Their names begin with the operation's name, from which stores tell the operation of a program that is known by its
    text alone."""
    simplest_name: str
    """Name of `simplest`."""
    studied: Mapping[str, Callable[[], Family]] = dataclasses.field(default_factory=dict)
    """Families that no search meets unless it names them (`named_family`), such as the kernels of a document, kept for
    comparison."""

    def __post_init__(self) -> None:
        if self.simplest_name not in self.listed:
            raise ValueError(f"the simplest family of {self.name} is none of its families")
        if strays := [name for name in (*self.listed, *self.studied) if not name.startswith(f"{self.name}_")]:
            raise ValueError(f"families of {self.name} must be named after it: {', '.join(strays)}")

    @property
    def name(self) -> str:
        """Name in keys, stores and on the command line."""
        return self.problem.operation

    def named(self, name: str) -> Family | None:
        """Family of that name, one that is `studied` included; None if there is none."""
        found = self.listed.get(name) or self.studied.get(name)
        return None if found is None else found()

    @property
    def families(self) -> tuple[Family, ...]:
        """All families, in the order of `listed`; imports those that were not imported yet."""
        return tuple(family() for family in self.listed.values())

    @property
    def simplest(self) -> Family:
        """Family whose default config is the simplest kernel, found without a search; winners are compared with it. It
        has the fewest conditions of all families. A problem that it does not solve has no such comparison."""
        return self.listed[self.simplest_name]()


def families_in(package: str, places: Mapping[str, str]) -> Mapping[str, Callable[[], Family]]:
    """Families of an operation by name, each imported when it is first called.

    Args:
        package: package of the operation, which has the modules of its families.
        places: place of each family by the family's name, `module:Class`, or `module:TABLE` of a mapping that has the
            family by its name. The module is relative to `package`.
    """
    found = {name: place.split(":") for name, place in places.items()}
    return {name: functools.partial(_family, name, f"{package}.{module}", at) for name, (module, at) in found.items()}


@functools.cache
def _family(name: str, module: str, at: str) -> Family:
    """The one instance of a family: families have no state, and callers compare them by identity."""
    found: Mapping[str, Family] | Callable[[], Family] = getattr(importlib.import_module(module), at)
    return found[name] if isinstance(found, Mapping) else found()
