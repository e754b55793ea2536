"""Regions of a design space, each one memory path and one tile of outputs per thread, and the configs to try in them.

Source: figures 2 and 3 of Iandola et al. 2013, "Communication-minimizing 2D convolution in GPU registers".
"""

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
from warpsmith.generator.space import Config
from warpsmith.tuner.spaces.config_counts import ConfigCounts

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
