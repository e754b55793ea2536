"""Operations that this version knows, one line each; nothing else lists them. A family's module is imported when the
family is first asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

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

if TYPE_CHECKING:
    FAMILIES: tuple[Family, ...]
    """Families of all operations, those of one operation in the order of preference without measurements. Reading this
    imports all of them."""
else:

    def __getattr__(name: str) -> tuple[Family, ...]:
        if name == "FAMILIES":
            return tuple(family for operation in OPERATIONS.values() for family in operation.families)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def families_for(problem: Problem, device: Device, families: tuple[Family, ...] | None = None) -> tuple[Family, ...]:
    """Families that can solve `problem` on `device`, preferred ones first, out of `families` or the operation's.

    Raises BadArgument with each family's reason if there is none.
    """
    return able_families(Gate(problem, device), families)


def able_families(gate: Gate, families: tuple[Family, ...] | None = None) -> tuple[Family, ...]:
    """`families_for` with the problem and the device of a gate."""
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
    """Family of that name, if it solves `problem` on `device`.

    Raises BadArgument, in one line: for an unknown name with the names that solve it, for another family with its
    reason.
    """
    family = family_named(name)
    if family is None:
        able = ", ".join([AUTO, *(each.name for each in families_for(problem, device))])
        raise BadArgument(f"unknown method {name!r}; {problem.key()} is solved by {able}")
    if (why_not := Gate(problem, device).why_unable(family)) is not None:
        raise BadArgument(f"{name} does not solve {problem.key()}: {why_not}")
    return family


def likely(families: Iterable[FamilyT], problem: Problem, device: Device) -> list[FamilyT]:
    """Families that win most problems like this one, the one with the least expected time first."""
    gate = Gate(problem, device)
    expected = [(time_ns, family) for family in families if (time_ns := gate.likely_ns(family)) is not None]
    return [family for _, family in sorted(expected, key=lambda each: each[0])]


def likely_first(families: Iterable[FamilyT], problem: Problem, device: Device) -> list[FamilyT]:
    """All of `families`: the `likely` ones, then the others in their order."""
    listed = list(families)
    first = likely(listed, problem, device)
    return [*first, *(each for each in listed if each not in first)]


def answering(problem: Problem, device: Device) -> tuple[Family, Config]:
    """First of the `defaults`. Raises BadArgument, with the reasons, if there is none."""
    reasons: list[str] = []
    first = next(defaults(Gate(problem, device), reasons), None)
    if first is None:
        raise BadArgument(f"no kernel family answers {problem.key()} without a search: {'; '.join(reasons)}")
    return first


def defaults(
    gate: Gate, reasons: list[str], families: tuple[Family, ...] | None = None
) -> Iterator[tuple[Family, Config]]:
    """Legal defaults that may answer if nothing is stored, the best first.

    Those of likely families come in the order of their expected times, then the others. A default that takes the
    compiler long comes last.

    Args:
        gate: gate for the problem and the device.
        reasons: receives a line for each default that is not legal.
        families: families that may answer; None for those of the operation with `Family.may_answer`.

    Raises BadArgument if only families without `may_answer` solve the problem.
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
    """Family of an operation's simplest kernel; None for an operation that this version does not know."""
    return OPERATIONS[operation].simplest if operation in OPERATIONS else None


def family_named(name: str) -> Family | None:
    """Family of that name; None for a name that this version does not know."""
    found = (operation.listed.get(name) for operation in OPERATIONS.values())
    return next((family() for family in found if family is not None), None)


def is_simplest(family: str) -> bool:
    """True if that family is the one of an operation's simplest kernel."""
    return any(operation.simplest_name == family for operation in OPERATIONS.values())
