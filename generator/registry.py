"""The operations that this version knows. One line each; nothing else names them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from warpsmith.errors import BadArgument
from warpsmith.generator.cgemm.operation import CGEMM
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED, Family
from warpsmith.generator.fft.operation import FFT
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.operation import Operation
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.generator.space import Config

FamilyT = TypeVar("FamilyT", bound=Family)

OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in (FILTER2D, FFT, CONV2D, CGEMM)}
"""By name."""

FAMILIES: tuple[Family, ...] = tuple(family for operation in OPERATIONS.values() for family in operation.families)
"""Of all operations, those of one in the order of preference where nothing is measured."""


def families_for(problem: Problem, device: Device, families: tuple[Family, ...] | None = None) -> tuple[Family, ...]:
    """Those of `families`, or of the operation's, that can solve `problem` on `device`, preferred first.

    Raises BadArgument with each family's reason where there is none.
    """
    if families is None:
        families = OPERATIONS[problem.operation].families if problem.operation in OPERATIONS else ()
    reasons = {family.name: family.why_not(problem, device) for family in families}
    able = tuple(family for family in families if reasons[family.name] is None)
    if not able:
        told = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise BadArgument(f"no kernel family solves {problem.key()}: {told}")
    return able


def named_family(problem: Problem, device: Device, name: str) -> Family:
    """The family of that name, where it solves `problem` on `device`.

    Raises BadArgument, in one line, for another name, with those that do, or for one that does not, with its reason.
    """
    family = family_named(name)
    if family is None:
        able = ", ".join([AUTO, *(each.name for each in families_for(problem, device))])
        raise BadArgument(f"unknown method {name!r}; {problem.key()} is solved by {able}")
    if (why_not := family.why_not(problem, device)) is not None:
        raise BadArgument(f"{name} does not solve {problem.key()}: {why_not}")
    return family


def likely(families: Iterable[FamilyT], problem: Problem, device: Device) -> list[FamilyT]:
    """Those that winners of like problems are mostly of, the one that is expected to take the least time first."""
    found = [family for family in families if family.is_likely(problem, device)]
    return sorted(found, key=lambda family: family.expected_ns(problem) or 0.0)


def likely_first(families: Iterable[FamilyT], problem: Problem, device: Device) -> list[FamilyT]:
    """All of them: `likely` ones, then the others as they come."""
    listed = list(families)
    first = likely(listed, problem, device)
    return [*first, *(each for each in listed if each not in first)]


def answering(problem: Problem, device: Device) -> tuple[Family, Config]:
    """The default that answers where nothing is stored: of the likely family that is expected to take the least time,
    else of the first one.

    One that would take the compiler long answers only where all would. Raises BadArgument where no family solves it
    but those that never answer so (`Family.may_answer`).
    """
    solving = families_for(problem, device)
    able = likely_first((each for each in solving if each.may_answer), problem, device)
    if not able:
        told = f"{', '.join(each.name for each in solving)} alone, which is chosen by a search and never without"
        raise BadArgument(f"{problem.key()} is solved by {told}: run `warpsmith tune {problem.operation}` first")
    defaults = ((family, family.default(problem, device)) for family in able)
    quick = (each for each in defaults if each[0].unrolled(problem, each[1]) <= MAX_UNROLLED)
    return next(quick, None) or (able[0], able[0].default(problem, device))


def simplest_family(operation: str) -> Family | None:
    """The family of an operation's simplest kernel; None for an operation that this version has none for."""
    return OPERATIONS[operation].simplest if operation in OPERATIONS else None


def family_named(name: str) -> Family | None:
    """The family of that name, or None where this version has none."""
    return next((family for family in FAMILIES if family.name == name), None)


def is_simplest(family: str) -> bool:
    """Whether an operation's simplest kernel is of the family of that name."""
    return any(operation.simplest.name == family for operation in OPERATIONS.values())
