"""Spaces with branches: the value of one parameter decides which values and rules the others have.

The points of a Fourier transform are such a parameter: radices that fit one size fit no other, and transforms of odd
sizes have a parameter less. A branch is made when it is first needed, so that a default and the legality of one config
take one branch out of hundreds.
"""

from __future__ import annotations

import abc
import dataclasses
import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from warpsmith.errors import one_line
from warpsmith.generator.space import Config, Parameter, Shown, Space, Value, shortened

ADJACENT = 4
"""Values of the branching parameter on either side of a config's own, in their order, that its neighbours have."""
SHOWN = 6
"""Values of the branching parameter that a message lists."""


class Branches(abc.ABC):
    """The branches of a space, by the value of its branching parameter."""

    name: str
    """Name of the branching parameter, which is a parameter with a single value of each branch."""

    likely: tuple[str, ...]
    """The first of `values`, one or more, which are known without a list of all."""

    @property
    @abc.abstractmethod
    def values(self) -> tuple[str, ...]:
        """Values of the branching parameter, the likeliest first."""

    @abc.abstractmethod
    def space(self, value: str) -> Space | str:
        """The branch of one of `values`, made once; one line that says why it is empty."""


@dataclasses.dataclass(frozen=True, slots=True)
class BranchingParameter(Parameter):
    """A parameter whose values are words, and decide which values the others have."""

    values: tuple[str, ...]


class BranchingSpace(Space):
    """A space whose configs are those of all branches. Immutable.

    Its `constraints` are those of the branches (`within`); it has none itself.

    Raises:
        ValueError: all branches are empty.
    """

    def __init__(self, branches: Branches) -> None:
        self._branches = branches
        for values in (branches.likely, branches.values):
            found = (each for each in map(branches.space, values) if isinstance(each, Space))
            if (main := next(found, None)) is not None:
                break
        else:
            raise ValueError(f"all {len(branches.values)} values of {branches.name} are empty branches")
        self._main = main
        self.names = main.names

    @cached_property
    def branching(self) -> BranchingParameter:
        meaning = next(each.meaning for each in self._main.parameters if each.name == self._branches.name)
        return BranchingParameter(self._branches.name, self._branches.values, meaning)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of all branches, each with its values in all of them. This makes all branches."""
        meanings = {each.name: each.meaning for space in self._spaces() for each in space.parameters}
        values: dict[str, dict[Value, None]] = {name: {} for name in meanings}
        for space in self._spaces():
            for each in space.parameters:
                values[each.name] |= dict.fromkeys(each.values)
        return tuple(Parameter(name, tuple(values[name]), meaning) for name, meaning in meanings.items())

    def within(self, config: Config) -> Space:
        """The branch of a legal config."""
        space = self._branches.space(config.text(self._branches.name))
        assert isinstance(space, Space)
        return space

    def changed(self, change: Callable[[Space], Space], failed: Callable[[Exception], None]) -> BranchingSpace:
        """This space with each branch changed; one that cannot be made is empty, and its error goes to `failed`."""
        return BranchingSpace(_Guarded(self._branches, change, failed))

    def why_not(self, config: Config) -> str | None:
        name, value = self._branches.name, config.values().get(self._branches.name)
        if value is None:
            return f"parameter {name} is missing"
        if not isinstance(value, str) or not self._has(value):
            first, count = self.branching.values[:SHOWN], len(self.branching.values)
            return f"{name}={value} is not one of the {count} values {', '.join(first)}{', ...' * (count > SHOWN)}"
        space = self._branches.space(value)
        why = space if isinstance(space, str) else space.why_not(config)
        return None if why is None else f"with {name}={value}: {why}"

    def narrowed(self, choices: Mapping[str, Iterable[Value]]) -> Space:
        """This space with fewer values; branches that have none of a parameter's are left out."""
        wanted = {name: tuple(values) for name, values in choices.items()}
        known = {each.name: set(each.values) for each in self._main.parameters}
        if any(not values or not known.get(name, set()).issuperset(values) for name, values in wanted.items()):
            Space(self.parameters, ()).narrowed(wanted)  # it raises ValueError for what no branch has
        values = wanted.pop(self._branches.name, None)
        kept = None if values is None else tuple(value for value in self.branching.values if value in values)
        return BranchingSpace(_Changed(self._branches, lambda space: _narrowed(space, wanted), kept))

    def having(self, wanted: Mapping[str, Iterable[Value]]) -> Space:
        rest = {name: tuple(values) for name, values in wanted.items() if name != self._branches.name}
        return BranchingSpace(_Changed(self._branches, lambda space: _narrowed(space, rest), self._wanted(wanted)))

    def why_none_has(self, wanted: Mapping[str, tuple[Value, ...]]) -> str | None:
        name = self._branches.name
        if (why := self.why_not_named(wanted)) is not None:
            return why
        if not (values := self._wanted(wanted)):
            return f"{name}={shortened(wanted[name])} is none of {shortened(self.branching.values)}"
        rest = {each: values for each, values in wanted.items() if each != name}
        first = ""
        for value in values:
            space = self._branches.space(value)
            if (why := space if isinstance(space, str) else space.why_none_has(rest)) is None:
                return None
            first = first or f"with {name}={value}: {why}"
        return first

    def shown(self) -> Shown:
        """All values of the branching parameter; the other parameters, and the rules, of the first branch."""
        name, main = self._branches.name, self._main
        others = (each for each in main.parameters if each.name != name)
        (own,) = (each.values for each in main.parameters if each.name == name)
        return Shown((self.branching, *others), main.constraints, f"{name}={own[0]}")

    def _wanted(self, wanted: Mapping[str, Iterable[Value]]) -> tuple[str, ...]:
        """Values of the branching parameter that are wanted; all if it is not named."""
        if self._branches.name not in wanted:
            return self.branching.values
        chosen = set(wanted[self._branches.name])
        return tuple(value for value in self.branching.values if value in chosen)

    def configs(self) -> Iterator[Config]:
        for space in self._spaces():
            yield from space.configs()

    def drawn(self, rng: random.Random) -> Config | None:
        """A random legal config, mostly of an early branch, as `drawn_branch` has them."""
        values = list(self.branching.values)
        while values:
            value = values.pop(_early(len(values), rng))
            space = self._branches.space(value)
            if isinstance(space, Space) and (config := space.drawn(rng)) is not None:
                return config
        return None

    def drawn_branch(self, rng: random.Random) -> str:
        """A random value of the branching parameter. The logarithm of its place is uniform: half of all draws are among
        the first values, as many as the square root of their number.
        """
        return self.branching.values[_early(len(self.branching.values), rng)]

    def like(self, values: Mapping[str, Value]) -> Config | None:
        """A legal config that keeps as many of `values` as it can, the branch first."""
        value = values[self._branches.name]
        if isinstance(value, str) and self._has(value) and (config := self._like(value, values)) is not None:
            return config
        order = self.branching.values
        here = order.index(value) if value in order else 0
        nearest = sorted(range(len(order)), key=lambda place: abs(place - here))
        return next((config for place in nearest if (config := self._like(order[place], values)) is not None), None)

    @cached_property
    def why_empty(self) -> str | None:
        reasons = [space if isinstance(space, str) else space.why_empty for space in self._each()]
        return None if None in reasons else reasons[0]

    def neighbours(self, config: Config) -> Iterator[Config]:
        """Every legal config of the same branch that differs in one parameter, then the most similar configs of the
        ADJACENT branches.
        """
        yield from self.within(config).neighbours(config)
        order, values = self.branching.values, config.values()
        here = order.index(config.text(self._branches.name))
        for value in order[max(0, here - ADJACENT) : here + 1 + ADJACENT]:
            if value != order[here] and (other := self._like(value, values)) is not None:
                yield other

    def allows(self, values: Mapping[str, Value], changed: Iterable[str]) -> bool:
        names = tuple(changed)
        config = Config.of(values)
        return self.contains(config) if self._branches.name in names else self.within(config).allows(values, names)

    @cached_property
    def fingerprint(self) -> str:
        """Hash that changes whenever the first branch, or the values of the branching parameter do."""
        text = json.dumps([self._main.fingerprint, self.branching.name, list(self.branching.values)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _has(self, value: str) -> bool:
        return value in self._branches.likely or value in self._branches.values

    def _like(self, value: str, values: Mapping[str, Value]) -> Config | None:
        space = self._branches.space(value)
        if isinstance(space, str):
            return None
        wanted = {each.name: values.get(each.name, each.values[0]) for each in space.parameters}
        return space.like({**wanted, self._branches.name: value})

    def _each(self) -> Iterator[Space | str]:
        return map(self._branches.space, self._branches.values)

    def _spaces(self) -> Iterator[Space]:
        return (each for each in self._each() if isinstance(each, Space))


def _early(count: int, rng: random.Random) -> int:
    """A random place of `count`, whose logarithm is uniform."""
    return int((count + 1) ** rng.random()) - 1


class _Changed(Branches):
    """Branches that are each changed when they are first needed, or only some of them."""

    def __init__(
        self, branches: Branches, change: Callable[[Space], Space | str], values: tuple[str, ...] | None = None
    ) -> None:
        self.name = branches.name
        self.likely = branches.likely if values is None else values
        self._branches, self._change, self._values = branches, change, values
        self._made: dict[str, Space | str] = {}

    @property
    def values(self) -> tuple[str, ...]:
        return self._branches.values if self._values is None else self._values

    def space(self, value: str) -> Space | str:
        if value not in self._made:
            space = self._made_before(value)
            self._made[value] = space if isinstance(space, str) else self._change(space)
        return self._made[value]

    def _made_before(self, value: str) -> Space | str:
        return self._branches.space(value)


class _Guarded(_Changed):
    """Branches that are changed, and are empty if they cannot be made."""

    def __init__(
        self, branches: Branches, change: Callable[[Space], Space | str], failed: Callable[[Exception], None]
    ) -> None:
        super().__init__(branches, change)
        self._failed = failed

    def _made_before(self, value: str) -> Space | str:
        try:
            return super()._made_before(value)
        except Exception as error:
            self._failed(error)
            return one_line(error)


def _narrowed(space: Space, wanted: Mapping[str, tuple[Value, ...]]) -> Space | str:
    values = {each.name: each.values for each in space.parameters}
    own = {name: tuple(value for value in given if value in values.get(name, ())) for name, given in wanted.items()}
    without = [name for name, values in own.items() if not values]
    return f"it has none of the values of {', '.join(without)}" if without else space.narrowed(own)
