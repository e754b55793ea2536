"""Kernel families: one Python file and one template each."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Parameter, Space, Value
from warpsmith.generator.work import Work

MAX_UNROLLED = 3400
"""Multiply-adds written out, up to which a compiler takes 2 s at the most (docs/lab/tuning-notes.md): what an answer
that nobody searched for may have."""


class Subject(NamedTuple):
    """What a config was found for."""

    problem: Problem
    device: Device


class Family(abc.ABC):
    """One way of solving some problems: its search space, its constraints, its launch geometry, its template.

    A family is stateless. To add one, write a subclass beside its template and name it in `registry.py`.
    """

    name: ClassVar[str]
    """The family's name in stores and on the command line."""
    may_answer: ClassVar[bool] = True
    """Whether its default may answer where nothing is stored. Not where it needs a library that may be missing: a
    search alone finds out that it is there and wins."""
    default_reach: ClassVar[float] = math.inf
    """Octaves (`Problem.distance`) beyond which the default is likelier to be good than the config of the winner of a
    problem that differs in more than its size."""

    @abc.abstractmethod
    def why_not(self, problem: Problem, device: Device) -> str | None:
        """Why this family cannot solve `problem` on `device`, in one line; None where it can."""

    @abc.abstractmethod
    def space(self, problem: Problem, device: Device) -> Space:
        """What may be chosen for `problem` on `device`."""

    @abc.abstractmethod
    def default(self, problem: Problem, device: Device) -> Config:
        """A config of `space` that is good without any search; it is tried first."""

    def is_likely(self, problem: Problem, device: Device) -> bool:  # noqa: ARG002 - for those who know
        """Whether winners of like problems are mostly of this family, which then answers where nothing is stored."""
        return False

    def expected_ns(self, problem: Problem, device: Device) -> float | None:  # noqa: ARG002 - for those who know
        """The time in ns that its default is expected to take on `device`: of several likely families the fastest
        answers. None where it has no model of that; such families come before the others.
        """
        return None

    def unrolled(self, problem: Problem, config: Config) -> int:  # noqa: ARG002 - for those whose code may be long
        """How much the compiler has to do, in multiply-adds that it writes out; 0 where that is little."""
        return 0

    def starts(self, problem: Problem, device: Device) -> tuple[Config, ...]:  # noqa: ARG002 - for those who know
        """Configs of `space` that are worth trying before a search knows anything; the default aside."""
        return ()

    @abc.abstractmethod
    def program(self, problem: Problem, config: Config) -> Program:
        """The CUDA source and launches of one config. Pure: the same arguments give the same bytes."""

    def work(self, problem: Problem, config: Config) -> Work | None:  # noqa: ARG002 - for those who know
        """What the program of `config` has to do at the least; None where that says no more than the problem does.

        A config whose work alone takes longer than the best time so far is not even compiled.
        """
        return None

    def carried(self, config: Config, home: Subject, problem: Problem, device: Device) -> Config | None:
        """The config for `problem` on `device` that is most like `config`, which was found for `home`.

        It is `config` itself where that is legal here, and the family knows no better. Values that mean nothing here,
        such as the radices of another number of points, are the default's. None where this family cannot solve the
        problem, or has none of the config's parameters.
        """
        if self.why_not(problem, device) is not None:
            return None
        space = self.space(problem, device)
        if config.values().keys().isdisjoint(each.name for each in space.parameters):
            return None
        if space.contains(config):
            return config
        wanted, usual = self.scaled(config, home, problem, device).values(), self.default(problem, device).values()
        return space.like({each.name: _kept(each, wanted, usual) for each in space.parameters})

    def scaled(self, config: Config, home: Subject, problem: Problem, device: Device) -> Config:  # noqa: ARG002
        """`config` with what follows from the sizes of `home` as it follows from those here, legal or not."""
        return config

    def is_legal(self, problem: Problem, device: Device, config: Config) -> bool:
        """Whether a config from elsewhere, such as a store, is one for `problem` on `device`."""
        return self.why_not(problem, device) is None and self.space(problem, device).contains(config)


def _kept(parameter: Parameter, wanted: Mapping[str, Value], usual: Mapping[str, Value]) -> Value:
    value = wanted.get(parameter.name, usual[parameter.name])
    return value if value in parameter.values or isinstance(value, int) else usual[parameter.name]
