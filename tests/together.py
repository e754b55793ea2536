"""Joins kernels of many problems into one program. For a small kernel, g++ spends most of its time on the headers."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

import exhaustive
from builders import program
from guarded import Guarded
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.host.compiler import cooperates, dynamic_shared, without_comments
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.family import Family
from warpsmith.generator.problem import DType, Operand, Role
from warpsmith.generator.program import Launch, Program
from warpsmith.generator.space import Config

AT_ONCE = 24
"""Most kernels of one program."""
OF_THE_HOST = re.compile(r"^__device__ __forceinline__ void (multiply)\(", re.MULTILINE)
"""Functions of a text that share a name with one of the host device. In a namespace they would hide that one."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One kernel: a problem, solved by one config of a family."""

    problem: Any
    family: Family
    config: Config

    def __str__(self) -> str:
        return f"{self.problem.key()} | {self.family.name} {self.config}"

    @property
    def features(self) -> exhaustive.Features:
        return exhaustive.features_of(self.problem, self.family.name, self.config)

    @property
    def program(self) -> Program:
        return self.family.program(self.problem, self.config)


@dataclasses.dataclass(frozen=True)
class Placed:
    """Unit of a program in a text of many: the text with names of its own, and these names by those before."""

    text: str
    entries: Mapping[str, str]
    symbols: Mapping[str, str]

    def launch(self, launch: Launch) -> Launch:
        """The launch of the same kernel in there."""
        constants = tuple(dataclasses.replace(one, symbol=self.symbols[one.symbol]) for one in launch.constants)
        return dataclasses.replace(launch, entry=self.entries[launch.entry], constants=constants, unit="")


def can_be_together(given: Program) -> bool:
    """Whether a program has units, and no steps but launches."""
    return bool(given.units) and given.steps == given.launches


def together(programs: Sequence[Program]) -> tuple[Program, tuple[Program, ...]]:
    """One program with the kernels of all, and each given program with the launches that it has in there.

    Each unit gets a namespace of its own; equal units share one. Kernels, constant memory variables, which are looked
    up by name, and arrays in dynamic shared memory, which the host device declares at global scope, get the number of
    their unit as a suffix.
    """
    placed: dict[Hashable, Placed] = {}
    steps: list[tuple[Launch, ...]] = []
    for each in programs:
        units: dict[str, Placed] = {}
        for unit in each.units:
            launches = [launch for launch in each.launches if launch.unit == unit.name]
            entries = tuple(dict.fromkeys(launch.entry for launch in launches))
            symbols = tuple(dict.fromkeys(one.symbol for launch in launches for one in launch.constants))
            # Programs write to the constant memory of a kernel, so they share none that has some.
            key = (unit.source, entries, len(placed) if symbols else None)
            if key not in placed:
                placed[key] = _placed(len(placed), unit.source, entries, symbols)
            units[unit.name] = placed[key]
        steps.append(tuple(units[launch.unit].launch(launch) for launch in each.launches))
    text = "\n".join(each.text for each in placed.values())
    whole = program(text, *itertools.chain.from_iterable(steps), family="together")
    return whole, tuple(
        dataclasses.replace(each, units=whole.units, steps=launches)
        for each, launches in zip(programs, steps, strict=True)
    )


def at_once(programs: Sequence[Program]) -> list[list[int]]:
    """Numbers of the programs to compile as one text each. A block whose threads do not cooperate runs in a way of its
    own, so such programs share no text with others.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, each in enumerate(programs):
        if can_be_together(each):
            groups[cooperates(without_comments(each.source))].append(number)
        else:
            groups["alone", number].append(number)
    return [group[start : start + AT_ONCE] for group in groups.values() for start in range(0, len(group), AT_ONCE)]


def _placed(number: int, source: str, entries: Iterable[str], symbols: Iterable[str]) -> Placed:
    renamed = {entry: f"{entry}_{number}" for entry in entries}
    for entry, name in renamed.items():
        source, count = re.subn(rf"\b{entry}\(", f"{name}(", source)
        assert count == 1, f"{entry} is named {count} times"
    variables = {symbol: f"{symbol}_{number}" for symbol in symbols}
    arrays = {name: f"{name}_{number}" for name in dynamic_shared(without_comments(source))}
    for before, name in (variables | arrays).items():
        source = re.sub(rf"\b{before}\b", name, source)
    used = "".join(f"using case_{number}::{name};\n" for name in (*renamed.values(), *variables.values()))
    shown = "".join(f"using ::{name};\n" for name in dict.fromkeys(OF_THE_HOST.findall(source)))
    return Placed(f"namespace case_{number} {{\n{shown}{source}}}\n{used}", renamed, variables)


def chosen(cases: Iterable[Case]) -> list[Case]:
    """Cases that have every feature of any of `cases`."""
    return exhaustive.chosen(cases, lambda case: case.features)


Values = NDArray[Any]


def results(
    cases: Sequence[Case],
    compiler: Compiler,
    runtime: Runtime,
    make: Callable[[Any], Mapping[str, Values]],
) -> Iterator[tuple[Case, Values, Mapping[str, Values]]]:
    """Yields each case with its result on the host and the inputs that `make` gives for its problem.

    Up to AT_ONCE kernels are compiled as one text. Fails if a kernel writes around an operand or a workspace.
    """
    for start in range(0, len(cases), AT_ONCE):
        part = cases[start : start + AT_ONCE]
        whole, placed = together([case.program for case in part])
        module = runtime.load(compiler.compile(whole.compilation()))
        for case, each in zip(part, placed, strict=True):
            given = make(case.problem)
            memory = {operand.name: Guarded(operand) for operand in case.problem.operands}
            for space in each.workspaces:
                memory[space.name] = Guarded(Operand(space.name, Role.OUTPUT, (space.nbytes // 4,), DType.FLOAT32))
            for name, values in given.items():
                memory[name].elements[...] = values
            for launch in each.launches:
                module.bind(launch, {name: every.address for name, every in memory.items()}, {})(None)
            assert all(every.is_intact() for every in memory.values()), case
            yield case, memory[case.problem.output.name].elements, given
        module.close()
