"""Splits a program in two: steps that depend on some inputs alone, such as the spectra of weights, and the other steps.

Several programs may also share the first part: one program keeps its workspaces, and the others read them.
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
class SplitProgram:
    """A program split for inputs `names`, which are bound for all calls."""

    names: frozenset[str]
    first: Program
    """Steps that read these inputs alone; they run once."""
    rest: Program
    """Other steps, which run in each call and read what `first` left in workspaces with lifetime KEPT."""

    @property
    def workspaces(self) -> tuple[Workspace, ...]:
        """Workspaces that `first` fills once."""
        return tuple(each for each in self.rest.workspaces if each.lifetime is Lifetime.KEPT)


@dataclasses.dataclass(frozen=True, slots=True)
class SharedWorkspace:
    """A workspace that several programs share."""

    name: str
    """Name of the workspace in all these programs."""
    made_of: tuple[str, ...] = ()
    """Inputs that alone determine the workspace's contents, as in `Workspace.holds`."""


def with_shared_workspaces(program: Program, shared: Mapping[str, SharedWorkspace]) -> Program:
    """Program with some workspaces that outlive a call, so that other programs may read them.

    Args:
        program: program as its family makes it.
        shared: the shared workspaces, by their names in `program`.
    """
    names = {old: new.name for old, new in shared.items()}
    holds = {new.name: new.made_of for new in shared.values()}
    renamed = (dataclasses.replace(each, name=names.get(each.name, each.name)) for each in program.workspaces)
    return dataclasses.replace(
        program,
        steps=tuple(_renamed(step, names) for step in program.steps),
        workspaces=tuple(
            dataclasses.replace(each, lifetime=Lifetime.KEPT, holds=holds[each.name]) if each.name in holds else each
            for each in renamed
        ),
    )


def split_program(program: Program, names: Collection[str]) -> SplitProgram | None:
    """Program split for the inputs `names`.

    None if no step depends on these inputs alone, or if the other steps still need the inputs' memory in each call.
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
    return SplitProgram(wanted, _part(program, first, kept), _part(program, rest, kept))


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
    """Buffers whose memory a step takes the address of."""
    return frozenset(each.buffer for each in step.arguments if isinstance(each, InMemory))


def _used(step: Step) -> frozenset[str]:
    """Operands and workspaces that a step uses."""
    values = {each.operand for each in step.arguments if isinstance(each, ByValue | Transformed)}
    constants: tuple[Constant, ...] = step.constants if isinstance(step, Launch) else ()
    return _pointed(step) | values | {each.operand for each in constants}
