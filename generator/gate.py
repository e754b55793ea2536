"""The gate between configs and programs: a program is made of a config that is legal for its problem and device.

Defaults, starts, configs carried over from another problem, guesses and stored winners all pass it. A search verifies
each candidate before it is believed; an answer without a search has this check alone before its kernel is compiled.
An exception inside a family is that family's refusal, so that another one may answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from warpsmith.errors import BadArgument, one_line
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Space


class IllegalConfig(BadArgument):
    """A config that its family's space does not contain, or of which the family makes no program."""


class Gate:
    """Tells which configs of which families are legal for one problem on one device. Not thread-safe.

    Args:
        problem: what is to be computed.
        device: where.
    """

    def __init__(self, problem: Problem, device: Device) -> None:
        self.problem = problem
        self.device = device
        self._failures: dict[str, Exception] = {}
        self._reasons: dict[str, str | None] = {}
        self._spaces: dict[str, Space] = {}

    @property
    def failures(self) -> Mapping[str, Exception]:
        """The first exception of each family that raised one here, by the family's name."""
        return self._failures

    def why_unable(self, family: Family) -> str | None:
        """The reason why a family cannot solve the problem, in one line; None where it can."""
        if family.name not in self._reasons:
            try:
                with self._contained(family):
                    self._reasons[family.name] = family.why_not(self.problem, self.device)
            except IllegalConfig as failed:
                self._reasons[family.name] = str(failed)
        return self._reasons[family.name]

    def space(self, family: Family) -> Space:
        """The space of a family that can solve the problem, made once. Raises IllegalConfig where that fails."""
        if family.name not in self._spaces:
            with self._contained(family):
                self._spaces[family.name] = family.space(self.problem, self.device)
        return self._spaces[family.name]

    def space_if_able(self, family: Family) -> Space | None:
        """The space of a family; None where it cannot solve the problem, or has none."""
        try:
            return self.space(family) if self.why_unable(family) is None else None
        except IllegalConfig:
            return None

    def why_not(self, family: Family, config: Config) -> str | None:
        """The reason why `config` is not legal, in one line; None where it is."""
        if (why := self.why_unable(family)) is not None:
            return why
        try:
            space = self.space(family)
            with self._contained(family):
                return space.why_not(config)
        except IllegalConfig as failed:
            return str(failed)

    def likely_ns(self, family: Family) -> float | None:
        """The time in ns that is expected of a likely family, 0 where it has no model; None where it is not likely, or
        where its model fails.
        """
        try:
            with self._contained(family):
                if family.is_likely(self.problem, self.device):
                    return family.expected_ns(self.problem, self.device) or 0.0
        except IllegalConfig:
            pass
        return None

    def default(self, family: Family) -> Config:
        """The family's default. Raises IllegalConfig, in one line, where that is not legal or cannot be made."""
        with self._contained(family):
            config = family.default(self.problem, self.device)
        self._require(family, config, "the default")
        return config

    def starts(self, family: Family) -> tuple[Config, ...]:
        """The legal ones of the configs that a search of the family begins with, the default first."""
        found: list[Config] = []
        with suppress(IllegalConfig):
            found.append(self.default(family))
        with suppress(IllegalConfig), self._contained(family):
            starts = family.starts(self.problem, self.device)
            found += [config for config in starts if self.why_not(family, config) is None]
        return tuple(dict.fromkeys(found))

    def carried(self, family: Family, config: Config, home: Subject) -> Config | None:
        """The legal config here that is most like `config` of `home`; None where the family has none."""
        try:
            with self._contained(family):
                carried = family.carried(config, home, self.problem, self.device)
        except IllegalConfig:
            return None
        return carried if carried is not None and self.why_not(family, carried) is None else None

    def program(self, family: Family, config: Config) -> Program:
        """The program of a legal config. Raises IllegalConfig for any other, in one line."""
        self._require(family, config, "the config")
        with self._contained(family):
            return family.program(self.problem, config)

    def program_if_legal(self, family: Family, config: Config) -> Program | None:
        """The program of a config from elsewhere, such as a store; None where it is not legal here."""
        try:
            return self.program(family, config)
        except IllegalConfig:
            return None

    def _require(self, family: Family, config: Config, what: str) -> None:
        if (why := self.why_not(family, config)) is not None:
            raise IllegalConfig(f"{what} of {family.name} is not legal for {self.problem.key()}: {why}")

    @contextmanager
    def _contained(self, family: Family) -> Iterator[None]:
        """Turns whatever a family raises into its refusal: one family's fault must not end a look-up or a search."""
        try:
            yield
        except IllegalConfig:
            raise
        except Exception as failed:
            self._failures.setdefault(family.name, failed)
            told = f"{family.name} failed: {type(failed).__name__}: {one_line(failed)}"
            raise IllegalConfig(told) from failed
