"""Regions of a design space, each one memory path and one tile of outputs per thread, and the configs to try in them.

Source: figures 2 and 3 of Iandola et al. 2013, "Communication-minimizing 2D convolution in GPU registers"."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

from warpsmith.errors import BadArgument
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.problem import Problem
from warpsmith.generator.registry import able_families, is_simplest
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


TRIALS_PER_CELL = 4
"""Number of configs tried per region if no number of trials is given."""
GLOBAL = "global"
"""Memory path of a family that offers no choice: it reads the image from global memory."""
WORDS = {"async": "asynchronous copies to shared", "shuffle": "global to register, shuffled on"}
"""Names of memory paths that the paper does not have and that `X to register` would not describe."""
PINNED = ("path", "rows", "columns")
"""Parameters whose values define a region, in families that have them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """A part of the design space: one memory path and one tile of outputs per thread."""

    family: str
    path: str
    rows: int
    columns: int

    @classmethod
    def of(cls, family: str, config: Config) -> Region:
        """The region that contains `config`."""
        values: Mapping[str, Any] = {"path": GLOBAL, "rows": 1, "columns": 1} | config.values()
        return cls(family, *(values[name] for name in PINNED))

    @property
    def outputs(self) -> int:
        """Number of outputs per thread."""
        return self.rows * self.columns


@dataclasses.dataclass(frozen=True, slots=True)
class RegionPlan:
    """A region and the configs to try in it, beginning with the one most like the family's default."""

    region: Region
    size: int
    """Number of legal configs."""
    configs: tuple[Config, ...]


def path_words(region: Region) -> str:
    """Name of the memory path, as in the paper; the simplest family has no prefetch."""
    if is_simplest(region.family):
        return f"{region.path} without prefetch"
    return WORDS.get(region.path, f"{region.path} to register")


def plan_sweep(
    problem: Problem, device: Device, trials: int | None, seed: int, families: tuple[Family, ...] | None = None
) -> tuple[RegionPlan, ...]:
    """Every region that has a legal config, with its configs to try: one like the family's default, the others random.

    Args:
        problem: problem to compute.
        device: device to run on.
        trials: total number of configs to try, spread evenly over the regions, but at least one in each. None for
            TRIALS_PER_CELL in each.
        seed: seed of the random configs.
        families: families whose spaces are swept.

    A family without a legal default is left out. Raises BadArgument if no family is left, or if `trials` is below 1.
    """
    if trials is not None and trials < 1:
        raise BadArgument(f"trials must be 1 or more; got {trials}")
    found: list[tuple[str, ConfigCounts]] = []
    gate, refused = Gate(problem, device), list[str]()
    for family in able_families(gate, families):
        try:
            space, default = gate.space(family), gate.default(family)
        except IllegalConfig as error:
            refused.append(str(error))
            continue
        pinned = [parameter for parameter in space.parameters if parameter.name in PINNED]
        for values in itertools.product(*(parameter.values for parameter in pinned)):
            fixed = {parameter.name: (value,) for parameter, value in zip(pinned, values, strict=True)}
            if (counts := ConfigCounts(space.narrowed(fixed), default)).size:
                found.append((family.name, counts))
    if refused and not found:
        raise BadArgument(f"no kernel family of {problem.key()} can be swept: {'; '.join(refused)}")
    sizes = [counts.size for _, counts in found]
    shares = [min(TRIALS_PER_CELL, size) for size in sizes] if trials is None else _shares(sizes, trials)
    return tuple(_plan(name, counts, share, seed) for (name, counts), share in zip(found, shares, strict=True))


def _plan(family: str, counts: ConfigCounts, count: int, seed: int) -> RegionPlan:
    first = counts.nearest
    region = Region.of(family, first)
    numbers = random.Random(f"{seed} {region}").sample(range(counts.size), count)
    tried = dict.fromkeys([first, *map(counts.at, numbers)])
    return RegionPlan(region, counts.size, tuple(itertools.islice(tried, count)))


def _shares(sizes: Sequence[int], total: int) -> list[int]:
    """`total` spread evenly over parts of these sizes, at least 1 each. Shares that small parts cannot use go to the
    others.
    """
    shares = [0] * len(sizes)
    for done, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[index] = min(sizes[index], max(1, total // (len(sizes) - done)))
        total -= shares[index]
    return shares
