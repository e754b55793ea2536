"""Search spaces: parameters with legal values, constraints that say why, and configs as points."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import itertools
import json
import math
import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import itemgetter
from types import FunctionType

Value = int | str

MOST_STEPS = 1_000_000
"""Values that a draw tries in a part of a space before it gives up, in 0.5 s: what is found takes a few thousand."""


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
    reads: tuple[str, ...] | None = None
    """The parameters in the order of the arguments, where `holds` takes any number of them."""

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters that the rule reads."""
        if self.reads is not None:
            return self.reads
        if isinstance(self.holds, FunctionType):  # a signature takes 100 us, and a space has up to 60 rules
            return self.holds.__code__.co_varnames[: self.holds.__code__.co_argcount]
        return tuple(inspect.signature(self.holds).parameters)

    @cached_property
    def accepts(self) -> Callable[[Mapping[str, Value]], bool]:
        """Tells whether values keep to the rule. A search asks this tens of times a config: values are passed by
        position, since keywords take half as long again.
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
    """One point of a space. Order-free: two configs with the same values are equal."""

    items: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Config:
        return cls(tuple(sorted(values.items())))

    def integer(self, name: str) -> int:
        """The value of an integer parameter."""
        value = self._value(name)
        if not isinstance(value, int):
            raise TypeError(f"parameter {name} is {value!r}, not an integer")
        return value

    def text(self, name: str) -> str:
        """The value of a parameter that is a word."""
        value = self._value(name)
        if not isinstance(value, str):
            raise TypeError(f"parameter {name} is {value!r}, not a word")
        return value

    def values(self) -> dict[str, Value]:
        """The values by name."""
        return dict(self.items)

    def _value(self, name: str) -> Value:
        """One value: items are sorted by name, and a dictionary of 20 takes four times as long."""
        place = bisect_left(self.items, (name,))
        if place < len(self.items) and self.items[place][0] == name:
            return self.items[place][1]
        return self.values()[name]

    @classmethod
    def joined(cls, stages: Mapping[str, Config]) -> Config:
        """The configs of several stages as one, each name behind its stage's: `rows.threads`."""
        return cls.of({f"{stage}.{name}": value for stage, config in stages.items() for name, value in config.items})

    def of_stage(self, stage: str) -> Config:
        """The config of one stage of a joined one."""
        start = f"{stage}."
        return Config.of({name.removeprefix(start): value for name, value in self.items if name.startswith(start)})

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
            if not names.issuperset(constraint.parameters):
                unknown = sorted(set(constraint.parameters) - names)
                raise ValueError(f"constraint {constraint.why!r} reads unknown parameters {unknown}")
        self.parameters = parameters
        self.constraints = constraints
        self._names = names

    @classmethod
    def joined(cls, spaces: Mapping[str, Space]) -> Space:
        """The spaces of several stages as one, each parameter's name behind its stage's; see `Config.joined`."""
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
        """Why `config` is not a point of this space, in one line; None where it is one."""
        values = config.values()
        if values.keys() != self._names:
            return f"parameters {sorted(values.keys() ^ self._names)} are missing or unknown"
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

    def narrowed(self, choices: Mapping[str, Iterable[Value]]) -> Space:
        """This space with fewer values: those named in `choices`, in this space's order; other parameters keep theirs.

        Raises:
            ValueError: a parameter or a value that this space does not have, or no value for a parameter.
        """
        wanted = {name: tuple(values) for name, values in choices.items()}
        if unknown := wanted.keys() - {parameter.name for parameter in self.parameters}:
            raise ValueError(f"unknown parameters {sorted(unknown)}; the space has {[p.name for p in self.parameters]}")
        narrowed = (_narrowed(each, wanted.get(each.name, each.values)) for each in self.parameters)
        return Space(tuple(narrowed), self.constraints)

    def due(self) -> list[list[Constraint]]:
        """For each parameter in order, the rules of which it is the last that they read, and so can be checked."""
        return self._due_in([parameter.name for parameter in self.parameters])

    def configs(self) -> Iterator[Config]:
        """Every legal config, in a fixed order; a partial choice that breaks a rule is dropped at once."""
        return self._walk([parameter.values for parameter in self.parameters])

    def listed(self, most: int) -> tuple[Config, ...] | None:
        """Every legal config, in a fixed order; None where they are more than `most`."""
        listing = tuple(itertools.islice(self.configs(), most + 1))
        return listing if len(listing) <= most else None

    def drawn(self, rng: random.Random) -> Config | None:
        """A legal config at random, not all equally likely, found without going through the space; None where it is
        empty, or where MOST_STEPS find none.
        """
        return self._first([rng.sample(each.values, len(each.values)) for each in self.parameters])

    def like(self, values: Mapping[str, Value]) -> Config | None:
        """A legal config that keeps what it can of `values`, earlier parameters first; None where the space is empty,
        or where MOST_STEPS find none.

        Where a value cannot stay, the nearest in the order of its parameter takes its place; for a number that is none
        of its values, the nearest by ratio.
        """
        return self._first([_nearest_first(each.values, values[each.name]) for each in self.parameters])

    @cached_property
    def why_empty(self) -> str | None:
        """The parameters of which no values are legal together, in one line; None where every part of the space has
        some, so that it is not empty.
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
        """Whether values that were legal before those of the parameters `changed` were, are so still.

        It asks only the rules that read a changed one: a few microseconds where `contains` takes 40 in a large space.
        """
        return all(rule.accepts(values) for name in changed for rule in self._readers[name])

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

    @cached_property
    def _readers(self) -> dict[str, list[Constraint]]:
        """The rules that read each parameter."""
        names = (parameter.name for parameter in self.parameters)
        return {name: [rule for rule in self.constraints if name in rule.parameters] for name in names}

    @cached_property
    def _chosen_in(self) -> list[int]:
        """The places of the parameters in the order in which a walk chooses: those without a choice first, so that it
        turns back from what they rule out at once. Legal configs come in the same order as without that.
        """
        return sorted(range(len(self.parameters)), key=lambda place: len(self.parameters[place].values) > 1)

    def _due_in(self, names: list[str]) -> list[list[Constraint]]:
        """`due` of parameters in another order."""
        due: list[list[Constraint]] = [[] for _ in names]
        for constraint in self.constraints:
            due[max((names.index(name) for name in constraint.parameters), default=0)].append(constraint)
        return due

    @cached_property
    def _due(self) -> list[list[Constraint]]:
        return self._due_in([self.parameters[place].name for place in self._chosen_in])

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        """The parameters in groups between which there is no rule, such as the stages of a pipeline: a config is one of
        each, and a part without any makes the space empty.
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
            _Part(tuple(group), _walk_of([names[each] for each in group], [rules[each] for each in group]))
            for group in groups.values()
        )

    def _first(self, orders: Sequence[Sequence[Value]]) -> Config | None:
        """The first legal config with the values of each parameter in the given order, part by part: the same as that
        of a walk over all parameters, which for an empty part of a pipeline would try all configs of the others.
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
        walk = _walk_of([self.parameters[place].name for place in self._chosen_in], self._due)
        for chosen in _legal(walk, [orders[place] for place in self._chosen_in]):
            yield Config.of(chosen)


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """Parameters of a space that rules tie together."""

    places: tuple[int, ...]
    """Their places among the parameters of the space, in the order in which they are chosen."""
    walk: tuple[_Depth, ...]

    def first(self, orders: Sequence[Sequence[Value]]) -> dict[str, Value] | None:
        """The first legal values, in MOST_STEPS at most; None where there are none."""
        return next(_legal(self.walk, orders, MOST_STEPS), None)


@dataclasses.dataclass(frozen=True, slots=True)
class _Depth:
    """A parameter in the order in which a walk chooses."""

    name: str
    rules: tuple[tuple[Callable[[Mapping[str, Value]], bool], int], ...]
    """What can be checked once it is chosen, each with a bit for each parameter that it reads: 1 for the first one."""


def _walk_of(names: Sequence[str], due: Sequence[Sequence[Constraint]]) -> tuple[_Depth, ...]:
    """The parameters of a walk, where `due` has the rules that can be checked once each is chosen."""
    bits = {name: 1 << depth for depth, name in enumerate(names)}
    return tuple(
        _Depth(name, tuple((rule.accepts, sum(bits[each] for each in {*rule.parameters})) for rule in rules))
        for name, rules in zip(names, due, strict=True)
    )


def _legal(
    walk: Sequence[_Depth], orders: Sequence[Sequence[Value]], most_steps: int | None = None
) -> Iterator[dict[str, Value]]:
    """Every legal choice of values, depth first, as one dictionary that changes with each.

    Where no value of a parameter is left, the walk goes back to the last parameter that had a part in ruling one out,
    and not to the one before it, whose other values would fail alike (conflict-directed backjumping: Prosser 1993,
    "Hybrid Algorithms for the Constraint Satisfaction Problem"). The choices and their order are the same.

    Args:
        walk: the parameters, in the order in which they are chosen.
        orders: for each, its values in the order in which they are tried.
        most_steps: values that are tried in all before it gives up; None for any number.
    """
    chosen: dict[str, Value] = {}
    steps = 0
    untried = [iter(orders[0])]
    blamed = [0] * len(walk)  # bits of the parameters whose values ruled out values of this one
    while True:
        depth = len(untried) - 1
        name, rules = walk[depth].name, walk[depth].rules
        for chosen[name] in untried[-1]:
            steps += 1
            if steps == most_steps:
                return
            for accepts, read in rules:  # all() of a generator takes half as long again
                if not accepts(chosen):
                    blamed[depth] |= read
                    break
            else:
                break
        else:
            earlier = blamed[depth] & ((1 << depth) - 1)
            if not earlier:
                return
            back = earlier.bit_length() - 1
            blamed[back] |= earlier
            del untried[back + 1 :]
            continue
        if len(untried) < len(walk):
            untried.append(iter(orders[depth + 1]))
            blamed[depth + 1] = 0
        else:
            yield chosen
            blamed = [(1 << place) - 1 for place in range(len(walk))]  # from a legal choice on one step at a time


def _narrowed(parameter: Parameter, wanted: tuple[Value, ...]) -> Parameter:
    if unknown := set(wanted) - set(parameter.values):
        raise ValueError(
            f"{parameter.name} has no value {', '.join(map(str, unknown))}; choose from {list(parameter.values)}"
        )
    if not wanted:
        raise ValueError(f"{parameter.name} needs a value; choose from {list(parameter.values)}")
    return dataclasses.replace(parameter, values=tuple(value for value in parameter.values if value in wanted))


@lru_cache(maxsize=1024)  # of the few values that parameters have; the configs of a search's start ask for the same
def _nearest_first(values: tuple[Value, ...], wanted: Value) -> Sequence[Value]:
    if wanted in values:
        here = values.index(wanted)
        return [values[place] for place in sorted(range(len(values)), key=lambda place: abs(place - here))]
    if isinstance(wanted, int):
        return sorted(values, key=lambda value: _octaves(value, wanted))
    return values


def _octaves(value: Value, wanted: int) -> float:
    """How far a number is from another; words come last."""
    return abs(math.log2((abs(value) + 1) / (abs(wanted) + 1))) if isinstance(value, int) else math.inf
