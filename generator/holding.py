"""Programs in two parts: what depends on some inputs alone, such as the spectra of weights, and the rest.

And programs that have such a part in common: one keeps what it has made for the others to read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from warpsmith.generator.program import Program
from warpsmith.generator.steps import (
    Argument,
    ByValue,
    Constant,
    InMemory,
    Launch,
    LibraryCall,
    Lifetime,
    Pointer,
    Step,
    TensorMap,
    Texture,
    Transformed,
    Workspace,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """A program whose inputs `names` stay the same from call to call."""

    names: frozenset[str]
    first: Program
    """The steps that read these inputs alone, to be done once."""
    rest: Program
    """The other steps, to be done in each call; what `first` has made is there, in workspaces that are KEPT."""

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """Those that are made once."""
        return tuple(each for each in self.rest.workspaces if each.lifetime is Lifetime.KEPT)


@dataclasses.dataclass(frozen=True, slots=True)
class KeptAs:
    """What a workspace is to several programs."""

    name: str
    """By which all of them know it."""
    made_of: tuple[str, ...] = ()
    """The inputs that it is made of alone, as `Workspace.holds` has them."""


def keeping(program: Program, kept: Mapping[str, KeptAs]) -> Program:
    """A program some of whose workspaces outlive a call, so that other programs may read them; `held` takes it apart.

    Args:
        program: as its family has it.
        kept: by the name that a workspace has in it.
    """
    names = {old: new.name for old, new in kept.items()}
    holds = {new.name: new.made_of for new in kept.values()}
    renamed = (dataclasses.replace(each, name=names.get(each.name, each.name)) for each in program.workspaces)
    return dataclasses.replace(
        program,
        steps=tuple(_renamed(step, names) for step in program.steps),
        workspaces=tuple(
            dataclasses.replace(each, lifetime=Lifetime.KEPT, holds=holds[each.name]) if each.name in holds else each
            for each in renamed
        ),
    )


def held(program: Program, names: Collection[str]) -> Held | None:
    """A program in two parts; None where nothing of it depends on these inputs alone, or where each call wants their
    memory all the same.
    """
    wanted = frozenset(names)
    made = {each.name for each in program.workspaces if each.holds and wanted >= set(each.holds)}
    first = tuple(step for step in program.steps if (used := _used(step)) & made and used <= made | wanted)
    rest = tuple(step for step in program.steps if step not in first)
    if not first or any(wanted & _pointed(step) for step in rest):
        return None
    read = frozenset().union(*map(_used, rest)) & made
    kept = tuple(
        dataclasses.replace(each, lifetime=Lifetime.KEPT) if each.name in read else each for each in program.workspaces
    )
    return Held(wanted, _part(program, first, kept), _part(program, rest, kept))


def _part(program: Program, steps: tuple[Step, ...], workspaces: tuple[Workspace, ...]) -> Program:
    units = {step.unit for step in steps if isinstance(step, Launch)}
    used = frozenset().union(*map(_used, steps))
    return dataclasses.replace(
        program,
        units=tuple(unit for unit in program.units if unit.name in units),
        steps=steps,
        workspaces=tuple(each for each in workspaces if each.name in used),
    )


def _renamed(step: Step, names: Mapping[str, str]) -> Step:
    def of(argument: Argument) -> Argument:
        match argument:
            case Pointer(buffer, offset):
                return Pointer(names.get(buffer, buffer), offset)
            case Texture() | TensorMap():
                return dataclasses.replace(argument, buffer=names.get(argument.buffer, argument.buffer))
            case _:
                return argument

    match step:
        case Launch():
            return dataclasses.replace(step, arguments=tuple(map(of, step.arguments)))
        case LibraryCall():
            pointers = (Pointer(names.get(each.buffer, each.buffer), each.offset) for each in step.arguments)
            return dataclasses.replace(step, arguments=tuple(pointers))


def _pointed(step: Step) -> frozenset[str]:
    """The memory that a step takes the address of."""
    return frozenset(each.buffer for each in step.arguments if isinstance(each, InMemory))


def _used(step: Step) -> frozenset[str]:
    """Operands and workspaces."""
    values = {each.operand for each in step.arguments if isinstance(each, ByValue | Transformed)}
    constants: tuple[Constant, ...] = step.constants if isinstance(step, Launch) else ()
    return _pointed(step) | values | {each.operand for each in constants}
