"""Which programs are tried for a layer, and in which order."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future

from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.device import Device, DeviceKind
from warpsmith.generator.family import MAX_UNROLLED, Family
from warpsmith.generator.program import Program
from warpsmith.generator.registry import families_for, is_simplest
from warpsmith.generator.space import Config
from warpsmith.store.record import Failure
from warpsmith.tuner.workers.compile_job import Compiled

MOST_CHANGES = 12
"""Single changes of a default at the most."""
UNLIKELY_STARTS = 1
"""Configs beside the default of a family that is not likely to win."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A program that is being compiled."""

    family: Family
    config: Config
    program: Program
    compiling: Future[Compiled | Failure]


def families(problem: Conv2d, device: Device, beside: Sequence[str] = ()) -> list[Family]:
    """Those that solve a layer, the likely ones and those of `beside` first. The simplest kernel is for nobody to beat:
    it is left out where anything else solves the problem.
    """
    able = families_for(problem, device)
    likely = [each for each in able if each.name in beside or each.is_likely(problem, device)]
    others = [each for each in able if each not in likely and not is_simplest(each.name)]
    return likely + others or list(able)


def configs(
    problem: Conv2d, device: Device, starts: int, beside: Sequence[str] = ()
) -> Iterator[tuple[Family, Config]]:
    """The default of every family, then the first start of each, then the second and so on, each of them once.

    Args:
        problem: what is solved.
        device: on what.
        starts: of a family that is likely, twice as many of one of `beside`; of others UNLIKELY_STARTS. A family
            that calls libraries takes single changes of its default behind its starts, if it has any.
        beside: families that are wanted whatever is likely.
    """
    lists = []
    for family in families(problem, device, beside):
        is_wanted = family.name in beside or family.is_likely(problem, device) or device.kind is DeviceKind.HOST
        count = starts if is_wanted else min(starts, UNLIKELY_STARTS)
        lists.append((family, _configs(family, problem, device)[: 1 + count * (1 + (family.name in beside))]))
    for number in range(max((len(found) for _, found in lists), default=0)):
        yield from ((family, found[number]) for family, found in lists if number < len(found))


def single_units(programs: Iterable[Program]) -> list[Program]:
    """Every unit of some programs as a program of its own, but such as compile to the same once. Compiled before the
    whole ones, which then find all their units in the cache: several families of a layer share their transforms.
    """
    found: dict[str, Program] = {}
    for program in programs:
        for unit in program.units:
            launches = tuple(each for each in program.launches if each.unit == unit.name)
            single = dataclasses.replace(program, units=(unit,), steps=launches, workspaces=())
            found.setdefault(repr(single.compilation(unit.name)), single)
    return list(found.values())


def _configs(family: Family, problem: Conv2d, device: Device) -> list[Config]:
    default = family.default(problem, device)
    starts = family.starts(problem, device)
    changes = () if family.may_answer else family.space(problem, device).neighbours(default)
    known = dict.fromkeys((default, *starts, *itertools.islice(changes, MOST_CHANGES)))
    quick = [config for config in known if family.unrolled(problem, config) <= MAX_UNROLLED]
    return quick or [default]
