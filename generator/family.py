"""Kernel families: one Python file and one template each."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, NamedTuple, get_args

from typing_extensions import TypeVar

from warpsmith.generator.device import Device
from warpsmith.generator.distances import between_devices
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Parameter, Space, Value


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Lower bound on a program's work, summed over all threads."""

    multiply_adds: int
    """float32 multiply-adds, counted once per thread."""
    loaded_bytes: int
    """Bytes that threads load from global memory, through any cache."""

    def least_ns(self, device: Device) -> float:
        """Nanoseconds below which no GPU of this kind can do the work."""
        rates = device.rates
        return max(self.multiply_adds / rates.multiply_adds_per_ns, self.loaded_bytes / rates.shared_bytes_per_ns)


MAX_UNROLLED = 3400
"""Most unrolled multiply-adds (`Family.unrolled`) of a default, which a compiler takes at most 2 s for
(docs/lab/tuning-notes.md)."""


P = TypeVar("P", bound=Problem, default=Any)


class Subject(NamedTuple, Generic[P]):
    """The problem and the device for which a config was found."""

    problem: P
    device: Device

    def distance(self, other: Subject) -> float | None:
        """Octaves of size that `other`'s winner is from fitting here; None if it says nothing here."""
        far: float | None = self.problem.distance(other.problem)
        if far is None or other.device.kind is not self.device.kind:
            return None
        return far + between_devices(self.device, other.device)


class Family(abc.ABC, Generic[P]):
    """One way to solve some problems: search space, constraints, launch geometry and template.

    A family is stateless. To add one, write a subclass of `Family[P]`, where `P` is the operation's class of problems,
    beside its template and name it in the operation's table (docs/guide/adding-a-family.md).
    """

    problem_type: ClassVar[type[Problem]] = Problem  # type: ignore[type-abstract]
    """The `P` of a subclass. No method is called with a problem of another class: a `Gate` refuses it first."""
    name: str
    """The family's name in stores and on the command line."""
    may_answer: bool = True
    """True if the family's default may answer when nothing is stored. It is False for a family whose library may be
    missing: only a search finds out that the library is there and wins."""
    may_win: bool = True
    """True if a kernel of the family may win a search. It is False for a family whose bits differ from run to run:
    a search by its name verifies and times it, and stores keep it beside winners alone."""
    default_reach: ClassVar[float] = math.inf
    """Octaves (`Problem.distance`) beyond which the default is likelier to be good than the config of the winner of a
    problem that differs in more than its size."""

    def __init_subclass__(cls) -> None:
        for base in cls.__dict__.get("__orig_bases__", ()):
            cls.problem_type = next(filter(_is_problem_type, get_args(base)), cls.problem_type)

    @abc.abstractmethod
    def why_not(self, problem: P, device: Device) -> str | None:
        """The reason why this family cannot solve `problem` on `device`, in one line; None if it can."""

    @abc.abstractmethod
    def space(self, problem: P, device: Device) -> Space:
        """The search space for `problem` on `device`."""

    @abc.abstractmethod
    def default(self, problem: P, device: Device) -> Config:
        """A config of `space` that is good without any search; it is tried first."""

    def is_likely(self, problem: P, device: Device) -> bool:
        """True if winners of similar problems are mostly of this family, which then answers when nothing is stored."""
        return False

    def expected_ns(self, problem: P, device: Device) -> float | None:
        """Nanoseconds that the default is expected to take on `device`; the fastest of several likely families answers.

        None if the family has no model; such families come before the others.
        """
        return None

    def unrolled(self, problem: P, config: Config) -> int:
        """Cost of compiling a config, in unrolled multiply-adds; 0 if it is small."""
        return 0

    def is_long(self, problem: P, config: Config) -> bool:
        """True if a compiler takes over 2 s for the config, so that nothing waits for it before a search."""
        return self.unrolled(problem, config) > MAX_UNROLLED

    def starts(self, problem: P, device: Device) -> tuple[Config, ...]:
        """Configs of `space`, besides the default, that a search tries first."""
        return ()

    @abc.abstractmethod
    def program(self, problem: P, config: Config) -> Program:
        """The CUDA source and launches of one config. Pure: the same arguments give the same bytes."""

    def work(self, problem: P, config: Config) -> Work | None:
        """Lower bound on the work of the program of `config`; None if it is no tighter than the problem's own.

        A config whose work alone takes longer than the best time so far is not even compiled.
        """
        return None

    def carried(self, config: Config, home: Subject[P], problem: P, device: Device) -> Config | None:
        """The config for `problem` on `device` that is most like `config`, which was found for `home`.

        It is `config` itself if that is legal here, unless a family overrides this method and knows better. Values
        without a meaning here, such as the radices of another number of points, are the default's. None if this family
        cannot solve the problem, or has none of the config's parameters.
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

    def scaled(self, config: Config, home: Subject[P], problem: P, device: Device) -> Config:
        """`config` with the values that follow from the sizes of `home` recomputed for `problem`, legal or not."""
        return config

    def is_legal(self, problem: P, device: Device, config: Config) -> bool:
        """True if a config from elsewhere, such as a store, is legal for `problem` on `device`."""
        return self.why_not(problem, device) is None and self.space(problem, device).contains(config)


def _kept(parameter: Parameter, wanted: Mapping[str, Value], usual: Mapping[str, Value]) -> Value:
    value = wanted.get(parameter.name, usual[parameter.name])
    return value if value in parameter.values or isinstance(value, int) else usual[parameter.name]


def _is_problem_type(argument: Any) -> bool:
    return isinstance(argument, type) and issubclass(argument, Problem)
