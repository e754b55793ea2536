"""The operations that this version knows. One line each; nothing else names them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from warpsmith.errors import BadArgument
from warpsmith.generator.cgemm.operation import CGEMM
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED, Family
from warpsmith.generator.fft.operation import FFT
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.gate import Gate, IllegalConfig
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
    return able_families(Gate(problem, device), families)


def able_families(gate: Gate, families: tuple[Family, ...] | None = None) -> tuple[Family, ...]:
    """`families_for` the problem and the device of a gate."""
    if families is None:
        operation = OPERATIONS.get(gate.problem.operation)
        families = () if operation is None else operation.families
    reasons = {family.name: gate.why_unable(family) for family in families}
    able = tuple(family for family in families if reasons[family.name] is None)
    if not able:
        told = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise BadArgument(f"no kernel family solves {gate.problem.key()}: {told}")
    return able


def named_family(problem: Problem, device: Device, name: str) -> Family:
    """The family of that name, where it solves `problem` on `device`.

    Raises BadArgument, in one line, for another name, with those that do, or for one that does not, with its reason.
    """
    family = family_named(name)
    if family is None:
        able = ", ".join([AUTO, *(each.name for each in families_for(problem, device))])
        raise BadArgument(f"unknown method {name!r}; {problem.key()} is solved by {able}")
    if (why_not := Gate(problem, device).why_unable(family)) is not None:
        raise BadArgument(f"{name} does not solve {problem.key()}: {why_not}")
    return family


def likely(families: Iterable[FamilyT], problem: Problem, device: Device) -> list[FamilyT]:
    """Those that winners of like problems are mostly of, the one that is expected to take the least time first."""
    gate = Gate(problem, device)
    expected = [(time_ns, family) for family in families if (time_ns := gate.likely_ns(family)) is not None]
    return [family for _, family in sorted(expected, key=lambda each: each[0])]


def likely_first(families: Iterable[FamilyT], problem: Problem, device: Device) -> list[FamilyT]:
    """All of them: `likely` ones, then the others as they come."""
    listed = list(families)
    first = likely(listed, problem, device)
    return [*first, *(each for each in listed if each not in first)]


def answering(problem: Problem, device: Device) -> tuple[Family, Config]:
    """The first of the `defaults`. Raises BadArgument where there is none, with the reasons."""
    reasons: list[str] = []
    first = next(defaults(Gate(problem, device), reasons), None)
    if first is None:
        raise BadArgument(f"no kernel family answers {problem.key()} without a search: {'; '.join(reasons)}")
    return first


def defaults(
    gate: Gate, reasons: list[str], families: tuple[Family, ...] | None = None
) -> Iterator[tuple[Family, Config]]:
    """The legal defaults that may answer where nothing is stored, the best first: those of likely families in the
    order of the times that are expected of them, then the others. One that the compiler takes long for comes last.

    Args:
        gate: of the problem and the device.
        reasons: takes a line for each default that is not legal.
        families: those that may answer; None for the operation's that do without a search (`Family.may_answer`).

    Raises BadArgument where no family solves the problem but those that never answer so.
    """
    slow = []
    for family in _in_order(gate) if families is None else families:
        try:
            config = gate.default(family)
        except IllegalConfig as refused:
            reasons.append(str(refused))
            continue
        if family.unrolled(gate.problem, config) > MAX_UNROLLED:
            slow.append((family, config))
        else:
            yield family, config
    yield from slow


def _in_order(gate: Gate) -> list[Family]:
    solving = able_families(gate)
    able = likely_first((each for each in solving if each.may_answer), gate.problem, gate.device)
    if not able:
        told = f"{', '.join(each.name for each in solving)} alone, which is chosen by a search and never without"
        operation = gate.problem.operation
        raise BadArgument(f"{gate.problem.key()} is solved by {told}: run `warpsmith tune {operation}` first")
    return able


def simplest_family(operation: str) -> Family | None:
    """The family of an operation's simplest kernel; None for an operation that this version has none for."""
    return OPERATIONS[operation].simplest if operation in OPERATIONS else None


def family_named(name: str) -> Family | None:
    """The family of that name, or None where this version has none."""
    return next((family for family in FAMILIES if family.name == name), None)


def is_simplest(family: str) -> bool:
    """Whether an operation's simplest kernel is of the family of that name."""
    return any(operation.simplest.name == family for operation in OPERATIONS.values())
