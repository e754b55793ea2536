"""Counting and numbering of the legal configs of a space of millions, without listing them."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.space import Config, Space, Value


@dataclasses.dataclass(frozen=True, slots=True)
class _Rest:
    """Possible continuations of some chosen values."""

    count: int
    cost: tuple[int, int]
    nearest: tuple[Value, ...]
    """Values of the continuation with the least cost."""


_NONE = _Rest(0, (0, 0), ())
_END = _Rest(1, (0, 0), ())


class ConfigCounts:
    """Number of legal configs of a space, each config by its number, and the one nearest to a given config.

    Partial choices that the remaining rules cannot tell apart are counted once: nine million configs of a filter take
    seconds, where listing them takes minutes.

    Args:
        space: space to count.
        wanted: a config with the space's parameters; its values may lie outside.
    """

    def __init__(self, space: Space, wanted: Config) -> None:
        self._parameters = space.parameters
        self._wanted = wanted.values()
        names = [parameter.name for parameter in space.parameters]
        self._due = space.due()
        self._live: list[list[str]] = []
        """The chosen parameters that a remaining rule reads, for each depth."""
        for depth in range(len(names)):
            read = {name for rules in self._due[depth:] for rule in rules for name in rule.parameters}
            self._live.append([name for name in names[:depth] if name in read])
        self._known: dict[tuple[Value, ...], _Rest] = {}
        self._whole = self._rest({})

    @property
    def size(self) -> int:
        """Number of legal configs."""
        return self._whole.count

    @property
    def nearest(self) -> Config:
        """The legal config that differs from the wanted one in the fewest parameters, and among those by the fewest
        steps.

        Raises ValueError if no config is legal.
        """
        if not self.size:
            raise ValueError("the space is empty")
        names = (parameter.name for parameter in self._parameters)
        return Config.of(dict(zip(names, self._whole.nearest, strict=True)))

    def at(self, number: int) -> Config:
        """The legal config with that number, from 0 to size - 1, in the order of `Space.configs`. Raises IndexError."""
        if not 0 <= number < self.size:
            raise IndexError(number)
        chosen: dict[str, Value] = {}
        for parameter in self._parameters:
            for value in parameter.values:
                chosen[parameter.name] = value
                count = self._rest(chosen).count if self._accepts(chosen) else 0
                if number < count:
                    break
                number -= count
        return Config.of(chosen)

    def _accepts(self, chosen: dict[str, Value]) -> bool:
        """True if the rules that fall due with the last chosen value accept it."""
        return all(constraint.accepts(chosen) for constraint in self._due[len(chosen) - 1])

    def _rest(self, chosen: dict[str, Value]) -> _Rest:
        depth = len(chosen)
        if depth == len(self._parameters):
            return _END
        key = (depth, *(chosen[name] for name in self._live[depth]))
        if (known := self._known.get(key)) is not None:
            return known
        parameter, found = self._parameters[depth], _NONE
        for place, value in enumerate(parameter.values):
            chosen[parameter.name] = value
            if self._accepts(chosen) and (rest := self._rest(chosen)).count:
                found = _either(found, self._with(depth, place, rest))
        del chosen[parameter.name]
        self._known[key] = found
        return found

    def _with(self, depth: int, place: int, rest: _Rest) -> _Rest:
        """`rest` with the value at `place` of the parameter at `depth` prepended."""
        parameter = self._parameters[depth]
        value, wanted = parameter.values[place], self._wanted[parameter.name]
        steps = abs(place - parameter.values.index(wanted)) if wanted in parameter.values else 0
        differing, all_steps = rest.cost
        return _Rest(rest.count, (differing + (value != wanted), all_steps + steps), (value, *rest.nearest))


def _either(one: _Rest, other: _Rest) -> _Rest:
    if not one.count:
        return other
    return dataclasses.replace(min(one, other, key=lambda rest: rest.cost), count=one.count + other.count)
