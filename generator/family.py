"""Kernel families: one Python file and one template each."""

from __future__ import annotations

import abc
from typing import ClassVar

from warpsmith.generator.device import Device
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Space
from warpsmith.generator.work import Work


class Family(abc.ABC):
    """One way of solving some problems: its search space, its constraints, its launch geometry, its template.

    A family is stateless. To add one, write a subclass beside its template and name it in `registry.py`.
    """

    name: ClassVar[str]
    """The family's name in stores and on the command line."""

    @abc.abstractmethod
    def why_not(self, problem: Problem, device: Device) -> str | None:
        """Why this family cannot solve `problem` on `device`, in one line; None where it can."""

    @abc.abstractmethod
    def space(self, problem: Problem, device: Device) -> Space:
        """What may be chosen for `problem` on `device`."""

    @abc.abstractmethod
    def default(self, problem: Problem, device: Device) -> Config:
        """A config of `space` that is good without any search; it is tried first."""

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

    def legal_program(self, problem: Problem, device: Device, config: Config) -> Program | None:
        """The program of a config from elsewhere, such as a store; None where it is not legal for `problem` here."""
        if self.why_not(problem, device) is not None or not self.space(problem, device).contains(config):
            return None
        return self.program(problem, config)
