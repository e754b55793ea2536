"""What answers for a layer that nobody tuned, beside the defaults of the other families, to judge the choice."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from conv2d_bench.lines import Row
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.device import Device
from warpsmith.generator.family import Family
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.registry import able_families, family_named, is_simplest
from warpsmith.generator.space import Config
from warpsmith.plans.lookup import look_up
from warpsmith.plans.match import MatchKind

FAR = 2.5
"""Factor over the least expected time above which a family's default is not tried."""
MOST_FAMILIES = 7
"""Families that are tried beside the answer's, those with the least expected times."""


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The answer of `warpsmith.plan` without a store of the user's, and what the families' models say."""

    family: str
    config: Config
    kind: MatchKind
    expected_ns: dict[str, float | None]
    """Each family that solves the layer, with the time its model expects of its default; None without a model."""
    likely: tuple[str, ...]

    @classmethod
    def of(cls, problem: Conv2d, device: Device) -> Choice:
        """Raises BadArgument if nothing answers."""
        match, gate = look_up(problem, device, None), Gate(problem, device)
        able = [each for each in able_families(gate) if each.may_answer]
        expected = {each.name: each.expected_ns(problem, device) for each in able}
        likely = tuple(each.name for each in able if gate.likely_ns(each) is not None)
        return cls(match.program.family, match.program.config, match.kind, expected, likely)

    def configs(self, problem: Conv2d, device: Device, starts: int) -> Iterator[tuple[Family, Config]]:
        """Yields the answer, the defaults of the families that may be faster, and `starts` starts of the answer's."""
        gate, given = Gate(problem, device), {(self.family, self.config): None}
        least_ns = min((ns for ns in self.expected_ns.values() if ns), default=math.inf)
        near = [name for name, ns in self.expected_ns.items() if (ns or 0.0) <= FAR * least_ns]
        near.sort(key=lambda name: (name not in self.likely, self.expected_ns[name] or 0.0))
        for name in near[:MOST_FAMILIES]:
            family = family_named(name)
            if family is None or is_simplest(name):
                continue
            try:
                given[name, gate.default(family)] = None
            except IllegalConfig:
                continue
        family = family_named(self.family)
        assert family is not None
        given.update(dict.fromkeys((self.family, config) for config in gate.starts(family)[: 1 + starts]))
        for name, config in given:
            found = family_named(name)
            assert found is not None
            if not found.is_long(problem, config) or name == self.family:
                yield found, config

    def row(self) -> Row:
        """The model's times in us."""
        expected = {name: None if ns is None else round(ns / 1e3, 2) for name, ns in self.expected_ns.items()}
        return {"match": str(self.kind), "expected_us": expected, "likely": list(self.likely)}
