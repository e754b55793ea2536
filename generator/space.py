"""Search spaces: parameters with legal values, constraints with their reasons, and configs as points."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import inspect
import itertools
import json
import math
import random
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from types import FunctionType
from typing import NamedTuple

from warpsmith.generator.space_walk import WalkPart, legal_choices, walk_of

Value = int | str

MOST_SHOWN = 24
"""Largest number of names or values that a message lists: a pipeline has 60 parameters."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A choice of a config: its name, its legal values, and its meaning."""

    name: str
    values: tuple[Value, ...]
    meaning: str


def words(choices: Iterable[enum.StrEnum]) -> tuple[str, ...]:
    """Members of an enum as the values of a parameter, which stores keep as plain text."""
    return tuple(each.value for each in choices)


@dataclasses.dataclass(frozen=True)
class Constraint:
    """A rule over some parameters: the argument names of `holds`. `why` goes to the user whose config breaks it."""

    why: str
    holds: Callable[..., bool]
    reads: tuple[str, ...] | None = None
    """Parameters in the order of the arguments, if `holds` takes any number of arguments."""

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Parameters that the rule reads."""
        if self.reads is not None:
            return self.reads
        if isinstance(self.holds, FunctionType):  # a signature takes 100 us, and a space has up to 60 rules
            return self.holds.__code__.co_varnames[: self.holds.__code__.co_argcount]
        return tuple(inspect.signature(self.holds).parameters)

    @cached_property
    def accepts(self) -> Callable[[Mapping[str, Value]], bool]:
        """Tells if values keep the rule.

        A search calls it tens of times per config. It passes values by position, since keywords take half as long
        again.
        """
        holds = self.holds
        if not self.parameters:
            return lambda values: holds()  # noqa: ARG005 - a rule that reads nothing
        read = itemgetter(*self.parameters)
        if len(self.parameters) == 1:
            return lambda values: holds(read(values))
        return lambda values: holds(*read(values))


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """One point of a space. The order does not matter: two configs with the same values are equal."""

    items: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Config:
        return cls(tuple(sorted(values.items())))

    def integer(self, name: str) -> int:
        """Value of an integer parameter. Raises TypeError if it is a word."""
        value = self._value(name)
        if not isinstance(value, int):
            raise TypeError(f"parameter {name} is {value!r}, not an integer")
        return value

    def text(self, name: str) -> str:
        """Value of a parameter that is a word. Raises TypeError if it is an integer."""
        value = self._value(name)
        if not isinstance(value, str):
            raise TypeError(f"parameter {name} is {value!r}, not a word")
        return value

    def values(self) -> dict[str, Value]:
        return dict(self.items)

    def _value(self, name: str) -> Value:
        """One value by bisection of the sorted items: a dictionary of 20 items takes four times as long."""
        place = bisect_left(self.items, (name,))
        if place < len(self.items) and self.items[place][0] == name:
            return self.items[place][1]
        return self.values()[name]

    @classmethod
    def joined(cls, stages: Mapping[str, Config]) -> Config:
        """The configs of several stages as one, each name prefixed with its stage's: `rows.threads`."""
        return cls.of({f"{stage}.{name}": value for stage, config in stages.items() for name, value in config.items})

    def of_stage(self, stage: str) -> Config:
        """Config of one stage out of a joined config."""
        start = f"{stage}."
        return Config.of({name.removeprefix(start): value for name, value in self.items if name.startswith(start)})

    def key(self) -> str:
        """Readable line: `block_x=32 columns=4 ...`."""
        return " ".join(f"{name}={value}" for name, value in self.items)

    def __str__(self) -> str:
        return self.key()


class Shown(NamedTuple):
    """Parameters and rules of a space, or of a part of it that stands for the whole."""

    parameters: tuple[Parameter, ...]
    rules: tuple[Constraint, ...]
    part: str = ""
    """The part: `basis=16x16`; empty for the whole space."""


class Space:
    """Parameters and the constraints between them. Immutable.

    Raises:
        ValueError: a constraint reads a parameter that the space does not have.
    """

    def __init__(self, parameters: tuple[Parameter, ...], constraints: tuple[Constraint, ...]) -> None:
        names = frozenset(parameter.name for parameter in parameters)
        for constraint in constraints:
            if not names.issuperset(constraint.parameters):
                unknown = sorted(set(constraint.parameters) - names)
                raise ValueError(f"constraint {constraint.why!r} reads unknown parameters {unknown}")
        self._parameters = parameters
        self.constraints = constraints
        self.names = names

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self._parameters

    @classmethod
    def joined(cls, spaces: Mapping[str, Space]) -> Space:
        """Spaces of several stages as one, each parameter's name prefixed with its stage's; see `Config.joined`."""
        parameters = tuple(
            Parameter(f"{stage}.{each.name}", each.values, f"{stage}: {each.meaning}")
            for stage, space in spaces.items()
            for each in space.parameters
        )
        constraints = tuple(
            Constraint(f"{stage}: {each.why}", each.holds, tuple(f"{stage}.{name}" for name in each.parameters))
            for stage, space in spaces.items()
            for each in space.constraints
        )
        return cls(parameters, constraints)

    def why_not(self, config: Config) -> str | None:
        """Reason why `config` is not a point of this space, in one line; None if it is one."""
        values = config.values()
        if values.keys() != self.names:
            return f"parameters {sorted(values.keys() ^ self.names)} are missing or unknown"
        for parameter in self.parameters:
            if values[parameter.name] not in parameter.values:
                return f"{parameter.name}={values[parameter.name]} is not one of {list(parameter.values)}"
        for constraint in self.constraints:
            if not constraint.accepts(values):
                return constraint.why
        return None

    def contains(self, config: Config) -> bool:
        """True if `config` is a point of this space."""
        return self.why_not(config) is None

    def narrowed(self, choices: Mapping[str, Iterable[Value]]) -> Space:
        """This space with fewer values: those in `choices`, in this space's order; other parameters keep theirs.

        Raises:
            ValueError: a parameter or a value that this space does not have, or no value for a parameter.
        """
        wanted = {name: tuple(values) for name, values in choices.items()}
        if unknown := wanted.keys() - {parameter.name for parameter in self.parameters}:
            raise ValueError(f"unknown parameters {sorted(unknown)}; the space has {[p.name for p in self.parameters]}")
        narrowed = (_narrowed(each, wanted.get(each.name, each.values)) for each in self.parameters)
        return Space(tuple(narrowed), self.constraints)

    def within(self, config: Config) -> Space:  # noqa: ARG002 - a space with branches has a smaller one
        """The part of this space without branches in which a legal `config` is; see `BranchingSpace`."""
        return self

    def having(self, wanted: Mapping[str, Iterable[Value]]) -> Space:
        """The part of this space whose configs have one of the `wanted` values of each parameter named there.

        Raises ValueError if a parameter has none of its wanted values.
        """
        chosen = {each.name: set(wanted[each.name]) for each in self.parameters if each.name in wanted}
        return self.narrowed({each.name: chosen[each.name] & set(each.values) for each in self._among(chosen)})

    def why_none_has(self, wanted: Mapping[str, tuple[Value, ...]]) -> str | None:
        """Reason why no config has one of the `wanted` values of each parameter, in one line; None if one has them."""
        if (why := self.why_not_named(wanted)) is not None:
            return why
        for each in self._among(wanted):
            if not set(wanted[each.name]) & set(each.values):
                return f"{each.name}={shortened(wanted[each.name])} is none of {shortened(each.values)}"
        part = self.having(wanted)
        return None if part.why_empty is None else f"they contradict each other: {_conflict(part, wanted)}"

    def why_not_named(self, names: Iterable[str]) -> str | None:
        """The names that no parameter has, in one line; None if each is a parameter's."""
        missing = [name for name in names if name not in self.names]
        return f"it has no parameter {' and no parameter '.join(missing)}" if missing else None

    def shown(self) -> Shown:
        """What a list of this space shows."""
        return Shown(self.parameters, self.constraints)

    def _among(self, names: Container[str]) -> Iterator[Parameter]:
        return (each for each in self.parameters if each.name in names)

    def integers(self) -> dict[str, list[int]]:
        """The integer values of each parameter, by its name, in the parameter's order."""
        return {each.name: [value for value in each.values if isinstance(value, int)] for each in self.parameters}

    def due(self) -> list[list[Constraint]]:
        """The rules that can be checked once a parameter is set, for each in order: it is the last that they read."""
        return self._due_in([parameter.name for parameter in self.parameters])

    def configs(self) -> Iterator[Config]:
        """Every legal config, in a fixed order; a partial choice that breaks a rule is dropped at once."""
        return self._walk([parameter.values for parameter in self.parameters])

    def listed(self, most: int) -> tuple[Config, ...] | None:
        """Every legal config, in a fixed order; None if there are more than `most`."""
        listing = tuple(itertools.islice(self.configs(), most + 1))
        return listing if len(listing) <= most else None

    def drawn(self, rng: random.Random) -> Config | None:
        """A random legal config, not all equally likely, found without walking the whole space.

        None if the space is empty, or if MOST_STEPS values find none.
        """
        return self._first([rng.sample(each.values, len(each.values)) for each in self.parameters])

    def like(self, values: Mapping[str, Value]) -> Config | None:
        """A legal config that keeps as many of `values` as it can, earlier parameters first.

        A value that cannot stay is replaced by the nearest one in the order of its parameter; for a number that is no
        value of the parameter, by the nearest one by ratio. None if the space is empty, or if MOST_STEPS values find no
        config.
        """
        return self._first([_nearest_first(each.values, values[each.name]) for each in self.parameters])

    @cached_property
    def why_empty(self) -> str | None:
        """Parameters that have no legal values together, in one line; None if the space is not empty.

        Parameters for which MOST_STEPS values find no legal ones count as such, too.
        """
        for part in self._parts:
            orders = [self.parameters[place].values for place in part.places]
            if part.first(orders) is None:
                return (
                    f"no values of {', '.join(self.parameters[place].name for place in part.places)} are legal together"
                )
        return None

    def neighbours(self, config: Config) -> Iterator[Config]:
        """Every legal config that differs from a legal one in one parameter, in a fixed order."""
        values = config.values()
        for parameter in self.parameters:
            here = values[parameter.name]
            for value in parameter.values:
                values[parameter.name] = value
                if value != here and self.allows(values, (parameter.name,)):
                    yield Config.of(values)
            values[parameter.name] = here

    def allows(self, values: Mapping[str, Value], changed: Iterable[str]) -> bool:
        """True if `values`, legal before the parameters in `changed` were changed, still are.

        It checks only the rules that read a changed parameter: a few microseconds where `contains` takes 40 in a large
        space.
        """
        return all(rule.accepts(values) for name in changed for rule in self._readers[name])

    @cached_property
    def fingerprint(self) -> str:
        """Hash that changes whenever a parameter, a value or a constraint's text does; it names Optuna's studies."""
        text = json.dumps(
            [
                [[parameter.name, list(parameter.values)] for parameter in self.parameters],
                [constraint.why for constraint in self.constraints],
            ]
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def _readers(self) -> dict[str, list[Constraint]]:
        """Rules that read each parameter, by its name."""
        names = (parameter.name for parameter in self.parameters)
        return {name: [rule for rule in self.constraints if name in rule.parameters] for name in names}

    @cached_property
    def _chosen_in(self) -> list[int]:
        """Indices of the parameters in the order in which a walk chooses values: those with a single value come first.

        The walk then drops at once what these rule out. Legal configs come in the same order as without that.
        """
        return sorted(range(len(self.parameters)), key=lambda place: len(self.parameters[place].values) > 1)

    def _due_in(self, names: list[str]) -> list[list[Constraint]]:
        """`due` for parameters in another order."""
        due: list[list[Constraint]] = [[] for _ in names]
        for constraint in self.constraints:
            due[max((names.index(name) for name in constraint.parameters), default=0)].append(constraint)
        return due

    @cached_property
    def _due(self) -> list[list[Constraint]]:
        return self._due_in([self.parameters[place].name for place in self._chosen_in])

    @cached_property
    def _parts(self) -> tuple[WalkPart, ...]:
        """Groups of parameters with no rule between them, such as the stages of a pipeline.

        A config combines one choice of each group, so a group without a legal choice makes the space empty.
        """
        root = list(range(len(self.parameters)))
        places = {parameter.name: place for place, parameter in enumerate(self.parameters)}

        def find(place: int) -> int:
            while root[place] != place:
                place = root[place]
            return place

        for constraint in self.constraints:
            read = [places[name] for name in constraint.parameters]
            for other in read[1:]:
                root[find(other)] = find(read[0])
        groups: dict[int, list[int]] = {}
        for place in self._chosen_in:
            groups.setdefault(find(place), []).append(place)
        rules = dict(zip(self._chosen_in, self._due, strict=True))
        names = {place: self.parameters[place].name for place in rules}
        return tuple(
            WalkPart(tuple(group), walk_of([names[each] for each in group], [rules[each] for each in group]))
            for group in groups.values()
        )

    def _first(self, orders: Sequence[Sequence[Value]]) -> Config | None:
        """First legal config, with the values of each parameter in the given order, group by group.

        It is the first one of a walk over all parameters, too. That walk would try all configs of the other groups if
        one group of a pipeline is empty.
        """
        chosen: dict[str, Value] = {}
        for part in self._parts:
            found = part.first([orders[place] for place in part.places])
            if found is None:
                return None
            chosen |= found
        return Config.of(chosen)

    def _walk(self, orders: Sequence[Sequence[Value]]) -> Iterator[Config]:
        """Every legal config, depth first, with the values of each parameter in the given order."""
        if not self.parameters:
            yield Config(())
            return
        walk = walk_of([self.parameters[place].name for place in self._chosen_in], self._due)
        for chosen in legal_choices(walk, [orders[place] for place in self._chosen_in]):
            yield Config.of(chosen)


def _conflict(part: Space, wanted: Mapping[str, tuple[Value, ...]]) -> str:
    """The rule that an empty part of a space breaks, if there is a single one; else the parameters without values."""
    for rule in part.constraints:
        if not wanted.keys().isdisjoint(rule.parameters):
            others = tuple(each for each in part.constraints if each is not rule)
            if Space(part.parameters, others).why_empty is None:
                return rule.why
    return part.why_empty or ""


def shortened(values: Iterable[Value]) -> str:
    """Values as text for a message; a list of more than MOST_SHOWN leaves out its middle."""
    words = list(map(str, values))
    if len(words) > MOST_SHOWN:
        words = [*words[: MOST_SHOWN - 1], "...", words[-1]]
    return ", ".join(words)


def _narrowed(parameter: Parameter, wanted: tuple[Value, ...]) -> Parameter:
    if unknown := set(wanted) - set(parameter.values):
        raise ValueError(
            f"{parameter.name} has no value {', '.join(map(str, unknown))}; choose from {list(parameter.values)}"
        )
    if not wanted:
        raise ValueError(f"{parameter.name} needs a value; choose from {list(parameter.values)}")
    return dataclasses.replace(parameter, values=tuple(value for value in parameter.values if value in wanted))


@lru_cache(maxsize=1024)  # parameters share a few value tuples, and the configs of a search's start repeat values
def _nearest_first(values: tuple[Value, ...], wanted: Value) -> Sequence[Value]:
    if wanted in values:
        here = values.index(wanted)
        return [values[place] for place in sorted(range(len(values)), key=lambda place: abs(place - here))]
    if isinstance(wanted, int):
        return sorted(values, key=lambda value: _octaves(value, wanted))
    return values


def _octaves(value: Value, wanted: int) -> float:
    """Octaves between two numbers, each moved away from 0 by 1; infinite for words."""
    return abs(math.log2((abs(value) + 1) / (abs(wanted) + 1))) if isinstance(value, int) else math.inf
