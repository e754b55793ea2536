"""Families of filter1d on the host, and the configs of them that tests run."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import verified
from warpsmith.devices.select import DeviceRef
from warpsmith.generator.device import DeviceKind
from warpsmith.generator.family import Family
from warpsmith.generator.filter1d import Filter1d
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config

FAMILIES = FILTER1D.families
STATEFUL = {"filter1d_step", "filter1d_partitioned"}
"""Families that filter nothing without a state."""
COARSE = {"filter1d_fft_matrix"}
"""Families that filter in precision f16 alone."""
FILTERS = tuple(each for each in FAMILIES if each.name not in STATEFUL | COARSE and "gradients" not in each.name)
"""Families of filters of any slice without a state; test_filter1d_states.py, test_filter1d_gradients.py and
test_filter1d_fft_matrix.py have the others."""
DEVICE = DeviceRef(DeviceKind.HOST).device()


def solved_by(family: Family[Filter1d], problems: Sequence[Filter1d]) -> list[Filter1d]:
    return [each for each in problems if family.why_not(each, DEVICE) is None]


def program_of(family: Family[Filter1d], problem: Filter1d, turn: int = 0) -> Program:
    """Program of the default config in every third turn, else of a random one."""
    default = family.default(problem, DEVICE)
    drawn = family.space(problem, DEVICE).drawn(random.Random(problem.key()))
    return family.program(problem, default if turn % 3 == 0 else drawn or default)


def cases_of(family: Family[Filter1d], problems: Sequence[Filter1d]) -> list[verified.Case]:
    return [(each, program_of(family, each, turn)) for turn, each in enumerate(solved_by(family, problems))]


def covering_configs(family: Family[Filter1d], problem: Filter1d) -> list[Config]:
    """Random configs that together have each value of each parameter that some legal config has."""
    space, rng = family.space(problem, DEVICE), random.Random(problem.key())
    seen: set[tuple[str, Any]] = set()
    found = []
    for parameter in space.parameters:
        for value in parameter.values:
            config = None
            if (parameter.name, value) not in seen:
                config = space.narrowed({parameter.name: [value]}).drawn(rng)
            if config is not None:
                seen.update(config.items)
                found.append(config)
    return found
