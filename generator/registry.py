"""Operations that this version knows, one line each; nothing else lists them. A family's module is imported when the
family is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from warpsmith.errors import BadArgument
from warpsmith.generator.cgemm.operation import CGEMM
from warpsmith.generator.conv2d.operation import CONV2D
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.fft.operation import FFT
from warpsmith.generator.filter1d.operation import FILTER1D
from warpsmith.generator.filter2d.operation import FILTER2D
from warpsmith.generator.gate import Gate
from warpsmith.generator.operation import Operation
from warpsmith.generator.pins import why_none_inside
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.generator.selection import Selection

FamilyT = TypeVar("FamilyT", bound=Family)

OPERATIONS: Mapping[str, Operation] = {each.name: each for each in (FILTER2D, FILTER1D, FFT, CONV2D, CGEMM)}

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
    """`families_for` with the problem, the device and the pins of a gate."""
    if families is None:
        operation = OPERATIONS.get(gate.problem.operation)
        families = () if operation is None else operation.families
    reasons = {family.name: gate.why_unable(family) for family in families}
    able = tuple(family for family in families if reasons[family.name] is None)
    if not able and gate.pins:
        _refuse_pins(gate, families, reasons)
    if not able:
        listed = "; ".join(f"{name}: {why}" for name, why in reasons.items())
        raise BadArgument(f"no kernel family solves {gate.problem.key()}: {listed}")
    return able


def _refuse_pins(gate: Gate, families: tuple[Family, ...], reasons: Mapping[str, str | None]) -> None:
    """Raises BadArgument if the pins are why no family of `families` can solve the gate's problem."""
    unpinned = Gate(gate.problem, gate.device)
    spaces = {family.name: space for family in families if (space := unpinned.space_if_able(family)) is not None}
    if spaces:
        mine = {name: why or "" for name, why in reasons.items() if name in spaces}
        raise BadArgument(f"{gate.pins} for {gate.problem.key()}: {why_none_inside(gate.pins, mine, spaces)}")


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


def selected_family(selection: Selection, problem: Problem, device: Device) -> Family | None:
    """The only family of a selection; None for every family. Raises BadArgument as `named_family` does."""
    return None if selection.method == AUTO else named_family(problem, device, selection.method)


def selected_families(selection: Selection, gate: Gate) -> tuple[Family, ...]:
    """Families of a selection that solve the problem of a gate with its pins. Raises BadArgument if there is none."""
    family = selected_family(selection, gate.problem, gate.device)
    return able_families(gate, None if family is None else (family,))


def simplest_family(operation: str) -> Family | None:
    """Family of an operation's simplest kernel; None for an operation that this version does not know."""
    return OPERATIONS[operation].simplest if operation in OPERATIONS else None


def family_named(name: str) -> Family | None:
    """Family of that name; None for a name that this version does not know."""
    found = (operation.named(name) for operation in OPERATIONS.values())
    return next((family for family in found if family is not None), None)


def is_simplest(family: str) -> bool:
    """True if that family is the one of an operation's simplest kernel."""
    return any(operation.simplest_name == family for operation in OPERATIONS.values())


def may_win(family: str) -> bool:
    """True unless that family's kernels never win (`Family.may_win`)."""
    found = family_named(family)
    return found is None or found.may_win
