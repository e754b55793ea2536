"""The gate between configs and programs: a program is made only from a config that is legal for its problem and device.

Defaults, starts, configs carried over from another problem, guesses and stored winners all pass it. A search verifies
each candidate before it counts; an answer without a search has only this check before its kernel is compiled. An
exception inside a family counts as that family's refusal, so that another one may answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from warpsmith.errors import BadArgument, one_line
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.pins import NO_PINS, Pins
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Program
from warpsmith.generator.space import Config, Space


class IllegalConfig(BadArgument):
    """A config that its family's space does not contain, or from which the family makes no program."""


class Gate:
    """Decides which configs of which families are legal for one problem on one device. Not thread-safe.

    Args:
        problem: the problem to solve.
        device: the device to solve it on.
        pins: values of parameters that legal configs must have.
    """

    def __init__(self, problem: Problem, device: Device, pins: Pins = NO_PINS) -> None:
        self.problem = problem
        self.device = device
        self.pins = pins
        self._failures: dict[str, Exception] = {}
        self._reasons: dict[str, str | None] = {}
        self._spaces: dict[str, Space] = {}

    @property
    def failures(self) -> Mapping[str, Exception]:
        """The first exception of each family that raised one here, by the family's name."""
        return self._failures

    def why_unable(self, family: Family) -> str | None:
        """Reason why a family cannot solve the problem, in one line; None if it can."""
        if family.name not in self._reasons:
            try:
                with self._contained(family):
                    self._reasons[family.name] = self._why_unable(family)
            except IllegalConfig as failed:
                self._reasons[family.name] = str(failed)
        return self._reasons[family.name]

    def _why_unable(self, family: Family) -> str | None:
        if not isinstance(self.problem, family.problem_type):
            return f"solves {family.problem_type.operation} only"
        if (why := family.why_not(self.problem, self.device)) is not None or not self.pins:
            return why
        whole = family.space(self.problem, self.device)
        if (why := self.pins.why_not(whole)) is None:
            self._spaces[family.name] = self.pins.narrowed(whole)  # which `space` would make from the same
        return why

    def space(self, family: Family) -> Space:
        """Space of a family that can solve the problem, made once: the part of it that is pinned.

        Raises IllegalConfig if the family fails.
        """
        if family.name not in self._spaces:
            with self._contained(family):
                self._spaces[family.name] = self.pins.narrowed(family.space(self.problem, self.device))
        return self._spaces[family.name]

    def space_if_able(self, family: Family) -> Space | None:
        """Space of a family; None if the family cannot solve the problem, or fails."""
        try:
            return self.space(family) if self.why_unable(family) is None else None
        except IllegalConfig:
            return None

    def why_not(self, family: Family, config: Config) -> str | None:
        """Reason why `config` is not legal, in one line; None if it is."""
        if (why := self.why_unable(family)) is not None:
            return why
        try:
            space = self.space(family)
            with self._contained(family):
                return space.why_not(config)
        except IllegalConfig as failed:
            return str(failed)

    def likely_ns(self, family: Family) -> float | None:
        """Nanoseconds that a likely family is expected to take, 0 without a model.

        None if the family is not likely or its model fails.
        """
        try:
            with self._contained(family):
                if family.is_likely(self.problem, self.device):
                    return family.expected_ns(self.problem, self.device) or 0.0
        except IllegalConfig:
            pass
        return None

    def default(self, family: Family) -> Config:
        """The family's default, or the config most like it that is pinned.

        Raises IllegalConfig, in one line, if it is not legal or cannot be made.
        """
        with self._contained(family):
            config = self._inside(family, family.default(self.problem, self.device))
        self._require(family, config, "the default")
        return config

    def starts(self, family: Family) -> tuple[Config, ...]:
        """Legal configs that a search of the family begins with, the default first."""
        found: list[Config] = []
        with suppress(IllegalConfig):
            found.append(self.default(family))
        with suppress(IllegalConfig), self._contained(family):
            starts = [self._inside(family, each) for each in family.starts(self.problem, self.device)]
            found += [config for config in starts if self.why_not(family, config) is None]
        return tuple(dict.fromkeys(found))

    def carried(self, family: Family, config: Config, home: Subject) -> Config | None:
        """Legal config here that is most like `config` of `home`; None if the family has none."""
        try:
            with self._contained(family):
                carried = family.carried(config, home, self.problem, self.device)
                carried = None if carried is None else self._inside(family, carried)
        except IllegalConfig:
            return None
        return carried if carried is not None and self.why_not(family, carried) is None else None

    def program(self, family: Family, config: Config) -> Program:
        """Program of a legal config. Raises IllegalConfig for any other, in one line."""
        self._require(family, config, "the config")
        with self._contained(family):
            return family.program(self.problem, config)

    def program_if_legal(self, family: Family, config: Config) -> Program | None:
        """Program of a config from elsewhere, such as a store; None if the config is not legal here."""
        try:
            return self.program(family, config)
        except IllegalConfig:
            return None

    def _inside(self, family: Family, config: Config) -> Config:
        """The config most like `config` that is pinned; `config` itself without pins, or if there is none."""
        if not self.pins or self.why_unable(family) is not None:
            return config
        return self.space(family).like(config.values()) or config

    def _require(self, family: Family, config: Config, what: str) -> None:
        if (why := self.why_not(family, config)) is not None:
            raise IllegalConfig(f"{what} of {family.name} is not legal for {self.problem.key()}: {why}")

    @contextmanager
    def _contained(self, family: Family) -> Iterator[None]:
        """Turns any exception of a family into its refusal: one family's fault must not end a look-up or a search."""
        try:
            yield
        except IllegalConfig:
            raise
        except Exception as failed:
            self._failures.setdefault(family.name, failed)
            message = f"{family.name} failed: {type(failed).__name__}: {one_line(failed)}"
            raise IllegalConfig(message) from failed
