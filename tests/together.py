"""Joins kernels of many problems into one program. For a small kernel, g++ spends most of its time on the headers."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

import exhaustive
from builders import program
from guarded import Guarded
from warpsmith.devices.compiler import Compiler
from warpsmith.devices.runtime import Runtime
from warpsmith.generator.family import Family
from warpsmith.generator.problem import DType, Operand, Role
from warpsmith.generator.program import Program
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


def can_be_together(given: Program) -> bool:
    """Whether a program has a single unnamed unit, and no steps but launches."""
    return [each.name for each in given.units] == [""] and given.steps == given.launches


def together(programs: Sequence[Program]) -> tuple[Program, tuple[Program, ...]]:
    """One program with the kernels of all, and each given program with the launches that it has in there.

    Each text gets a namespace of its own. Kernels and constant memory variables, which are looked up by name, get the
    number of their text as a suffix.
    """
    texts: list[str] = []
    placed: list[Program] = []
    for number, each in enumerate(programs):
        source = each.source
        entries = {launch.entry: f"{launch.entry}_{number}" for launch in each.launches}
        for entry, name in entries.items():
            source, count = re.subn(rf"\b{entry}\(", f"{name}(", source)
            assert count == 1, f"{entry} is named {count} times"
        symbols = {one.symbol: f"{one.symbol}_{number}" for launch in each.launches for one in launch.constants}
        for symbol, name in symbols.items():
            source = re.sub(rf"\b{symbol}\b", name, source)
        used = "".join(f"using case_{number}::{name};\n" for name in (*entries.values(), *symbols.values()))
        shown = "".join(f"using ::{name};\n" for name in dict.fromkeys(OF_THE_HOST.findall(source)))
        texts.append(f"namespace case_{number} {{\n{shown}{source}}}\n{used}")
        launches = tuple(
            dataclasses.replace(
                launch,
                entry=entries[launch.entry],
                constants=tuple(dataclasses.replace(one, symbol=symbols[one.symbol]) for one in launch.constants),
            )
            for launch in each.launches
        )
        placed.append(dataclasses.replace(each, steps=launches))
    whole = program("\n".join(texts), *(launch for each in placed for launch in each.launches), family="together")
    return whole, tuple(placed)


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
