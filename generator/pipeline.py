"""Pipelines: families that solve a problem in stages, each of which is a problem of its own."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping

from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, P, Work
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Space
from warpsmith.generator.steps import (
    Argument,
    Constant,
    Launch,
    LibraryCall,
    Pointer,
    Step,
    TensorMap,
    Texture,
    Unit,
    Workspace,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a pipeline: a problem that is also tuned alone, and the family that solves it here."""

    name: str
    """Name of the stage: prefix of its units and workspaces, and of its parameters, before the dot."""
    problem: Problem
    family: Family
    memory: Mapping[str, str]
    """Buffer of each operand of `problem`: an operand of the whole problem, or a workspace."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One execution of a stage, on a part of its memory."""

    stage: Stage
    offsets: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Bytes from the start of an operand's memory to the part, for operands whose part begins elsewhere."""


class Pipeline(Family[P]):
    """A family made of stages that are problems of their own.

    A config joins the configs of all stages. Trials of the stages' problems tell the search of the whole where to begin
    and which configs are likely.
    """

    def alternatives(self, problem: P) -> tuple[Pipeline[P], ...]:  # noqa: ARG002 - most families have one
        """The likely pipelines of a family whose stages depend on its config, the likeliest first; else itself.

        A config of one of them is a config of this family.
        """
        return (self,)

    def of(self, config: Config) -> Pipeline[P]:  # noqa: ARG002 - likewise
        """The pipeline that makes the program of a legal config, whose stages do not depend on it."""
        return self

    @abc.abstractmethod
    def stages(self, problem: P) -> tuple[Stage, ...]:
        """Stages for a problem that this family solves, in order; all problems have the same stage names."""

    def runs(self, problem: P) -> tuple[Run, ...]:
        """Executions of stages, in order: every stage once, unless a family takes its work in parts."""
        return tuple(map(Run, self.stages(problem)))

    @abc.abstractmethod
    def workspaces(self, problem: P) -> tuple[Workspace, ...]:
        """Workspaces between the stages; each stage's program has its own besides."""

    def unsolved_stage(self, problem: P, device: Device) -> str | None:
        """First stage that its family cannot solve, with the reason; None if all stages can be solved."""
        for stage in self.stages(problem):
            if (why := stage.family.why_not(stage.problem, device)) is not None:
                return f"{stage.name} ({stage.problem.key()}): {why}"
        return None

    def space(self, problem: P, device: Device) -> Space:
        return Space.joined(self.spaces(problem, device))

    def spaces(self, problem: P, device: Device) -> dict[str, Space]:
        """Space of each stage, by the stage's name."""
        return {stage.name: stage.family.space(stage.problem, device) for stage in self.stages(problem)}

    def joined(self, stages: Mapping[str, Config]) -> Config:
        """Config of this family with these configs of all stages, by the stage's name."""
        return Config.joined(stages)

    def default(self, problem: P, device: Device) -> Config:
        return self.joined({stage.name: stage.family.default(stage.problem, device) for stage in self.stages(problem)})

    def starts(self, problem: P, device: Device) -> tuple[Config, ...]:
        """Starts of all stages joined by rank: the first of each, then the second, until the longest list ends."""
        starts = {
            stage.name: (
                *stage.family.starts(stage.problem, device),
                stage.family.default(stage.problem, device),
            )
            for stage in self.stages(problem)
        }
        longest = max(map(len, starts.values()))
        joined = (
            self.joined({name: configs[min(number, len(configs) - 1)] for name, configs in starts.items()})
            for number in range(longest)
        )
        return tuple(dict.fromkeys(joined))

    def unrolled(self, problem: P, config: Config) -> int:
        return max(stage.family.unrolled(stage.problem, config.of_stage(stage.name)) for stage in self.stages(problem))

    def work(self, problem: P, config: Config) -> Work | None:
        """Sum over the stages that know their work; None if no stage does."""
        known = [
            work
            for stage in self.stages(problem)
            if (work := stage.family.work(stage.problem, config.of_stage(stage.name))) is not None
        ]
        return (
            Work(sum(each.multiply_adds for each in known), sum(each.loaded_bytes for each in known)) if known else None
        )

    def program(self, problem: P, config: Config) -> Program:
        units: list[Unit] = []
        workspaces = list(self.workspaces(problem))
        programs: dict[str, Program] = {}
        for stage in self.stages(problem):
            program = stage.family.program(stage.problem, config.of_stage(stage.name))
            programs[stage.name] = program
            moved = _Moved.of(Run(stage), program)
            units += [dataclasses.replace(unit, name=moved.unit(unit.name)) for unit in program.units]
            workspaces += map(moved.workspace, program.workspaces)
        steps: list[Step] = []
        for run in self.runs(problem):
            program = programs[run.stage.name]
            steps += map(_Moved.of(run, program).step, program.steps)
        return Program(self.name, config, tuple(units), tuple(steps), tuple(workspaces))


@dataclasses.dataclass(frozen=True, slots=True)
class _Moved:
    """Names of a stage's units and buffers within the whole program."""

    run: Run
    own: frozenset[str]
    """Workspaces of the stage's program."""

    @classmethod
    def of(cls, run: Run, program: Program) -> _Moved:
        return cls(run, frozenset(workspace.name for workspace in program.workspaces))

    def unit(self, name: str) -> str:
        return f"{self.run.stage.name}_{name}" if name else self.run.stage.name

    def buffer(self, name: str) -> str:
        return f"{self.run.stage.name}_{name}" if name in self.own else self.run.stage.memory[name]

    def workspace(self, workspace: Workspace) -> Workspace:
        holds = tuple(self.run.stage.memory[name] for name in workspace.holds)
        return dataclasses.replace(workspace, name=self.buffer(workspace.name), holds=holds)

    def step(self, step: Step) -> Step:
        match step:
            case Launch():
                return dataclasses.replace(
                    step,
                    unit=self.unit(step.unit),
                    arguments=tuple(map(self.argument, step.arguments)),
                    constants=tuple(Constant(each.symbol, self.whole(each.operand)) for each in step.constants),
                )
            case LibraryCall():
                return dataclasses.replace(step, arguments=tuple(map(self.pointer, step.arguments)))

    def argument(self, argument: Argument) -> Argument:
        match argument:
            case Pointer():
                return self.pointer(argument)
            case Texture() | TensorMap():
                return dataclasses.replace(argument, buffer=self.whole(argument.buffer))
            case _:
                return dataclasses.replace(argument, operand=self.whole(argument.operand))

    def pointer(self, pointer: Pointer) -> Pointer:
        return Pointer(self.buffer(pointer.buffer), self.run.offsets.get(pointer.buffer, 0) + pointer.offset)

    def whole(self, name: str) -> str:
        """Name of a buffer that is used from its start. Raises ValueError if the run has a part of it."""
        if self.run.offsets.get(name):
            raise ValueError(f"{self.run.stage.name} reads {name} by value, as a texture or by a map: it has no parts")
        return self.buffer(name)
