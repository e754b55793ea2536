"""The default config of a family and random ones, the same in every run."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.problem import Problem
from warpsmith.generator.space import Config


def some_configs(
    family: Family[Any], problem: Problem, device: Device, count: int, starts: int | None = 0
) -> list[Config]:
    """The default config of a family that solves the problem, the first `starts` that a search begins with (None for
    all of them), and up to `count` random ones.
    """
    space, rng = family.space(problem, device), random.Random(problem.key())
    chosen = (family.default(problem, device), *family.starts(problem, device)[:starts])
    drawn = (space.drawn(rng) for _ in range(count))
    return list(dict.fromkeys(filter(None, (*chosen, *drawn))))


def some(count: int, starts: int | None = 0) -> Callable[[Family[Any], Problem, Device], list[Config]]:
    """`some_configs` with that many random ones and starts."""
    return functools.partial(some_configs, count=count, starts=starts)
