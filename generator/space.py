"""Search spaces: parameters with legal values, constraints that say why, and configs as points."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

Value = int | str


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One thing that may be chosen: its name, its legal values, and what it means."""

    name: str
    values: tuple[Value, ...]
    meaning: str


@dataclasses.dataclass(frozen=True)
class Constraint:
    """A rule over some parameters. `holds` names them as its arguments; `why` is told to whoever breaks it."""

    why: str
    holds: Callable[..., bool]

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that the rule reads."""
        return tuple(inspect.signature(self.holds).parameters)

    def accepts(self, values: Mapping[str, Value]) -> bool:
        return self.holds(**{name: values[name] for name in self.parameters})


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """One point of a space. Order-free: two configs with the same values are equal."""

    items: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Config:
        return cls(tuple(sorted(values.items())))

    def integer(self, name: str) -> int:
        """The value of an integer parameter."""
        value = self.values()[name]
        if not isinstance(value, int):
            raise TypeError(f"parameter {name} is {value!r}, not an integer")
        return value

    def text(self, name: str) -> str:
        """The value of a parameter that is a word."""
        value = self.values()[name]
        if not isinstance(value, str):
            raise TypeError(f"parameter {name} is {value!r}, not a word")
        return value

    def values(self) -> dict[str, Value]:
        """The values by name."""
        return dict(self.items)

    def key(self) -> str:
        """One readable line: `block_x=32 columns=4 ...`."""
        return " ".join(f"{name}={value}" for name, value in self.items)

    def __str__(self) -> str:
        return self.key()


class Space:
    """Parameters and the constraints between them. Immutable.

    Raises:
        ValueError: a constraint reads a parameter that the space does not have.
    """

    def __init__(self, parameters: tuple[Parameter, ...], constraints: tuple[Constraint, ...]) -> None:
        names = {parameter.name for parameter in parameters}
        for constraint in constraints:
            if unknown := set(constraint.parameters) - names:
                raise ValueError(f"constraint {constraint.why!r} reads unknown parameters {sorted(unknown)}")
        self.parameters = parameters
        self.constraints = constraints

    def why_not(self, config: Config) -> str | None:
        """Why `config` is not a point of this space, in one line; None where it is one."""
        values = config.values()
        names = {parameter.name for parameter in self.parameters}
        if values.keys() != names:
            return f"parameters {sorted(values.keys() ^ names)} are missing or unknown"
        for parameter in self.parameters:
            if values[parameter.name] not in parameter.values:
                return f"{parameter.name}={values[parameter.name]} is not one of {list(parameter.values)}"
        for constraint in self.constraints:
            if not constraint.accepts(values):
                return constraint.why
        return None

    def contains(self, config: Config) -> bool:
        """Whether `config` is a point of this space."""
        return self.why_not(config) is None

    def due(self) -> list[list[Constraint]]:
        """For each parameter in order, the rules of which it is the last that they read, and so can be checked."""
        names = [parameter.name for parameter in self.parameters]
        due: list[list[Constraint]] = [[] for _ in names]
        for constraint in self.constraints:
            due[max((names.index(name) for name in constraint.parameters), default=0)].append(constraint)
        return due

    def configs(self) -> Iterator[Config]:
        """Every legal config, in a fixed order; a partial choice that breaks a rule is dropped at once."""
        order, due = [parameter.name for parameter in self.parameters], self.due()

        def extend(depth: int, chosen: dict[str, Value]) -> Iterator[Config]:
            if depth == len(order):
                yield Config.of(chosen)
                return
            for value in self.parameters[depth].values:
                chosen[order[depth]] = value
                if all(constraint.accepts(chosen) for constraint in due[depth]):
                    yield from extend(depth + 1, chosen)
            chosen.pop(order[depth], None)

        return extend(0, {})

    def listed(self, most: int) -> tuple[Config, ...] | None:
        """Every legal config, in a fixed order; None where they are more than `most`."""
        listing = tuple(itertools.islice(self.configs(), most + 1))
        return listing if len(listing) <= most else None

    def drawn(self, rng: random.Random) -> Config | None:
        """A legal config at random, not all equally likely, found without going through the space; None where it is
        empty.
        """
        shuffled = (
            dataclasses.replace(each, values=tuple(rng.sample(each.values, len(each.values))))
            for each in self.parameters
        )
        return next(Space(tuple(shuffled), self.constraints).configs(), None)

    @cached_property
    def fingerprint(self) -> str:
        """Changes whenever a parameter, a value or a constraint does; names Optuna's studies."""
        text = json.dumps(
            [
                [[parameter.name, list(parameter.values)] for parameter in self.parameters],
                [constraint.why for constraint in self.constraints],
            ]
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]
