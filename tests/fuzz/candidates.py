"""Random candidates: a problem, a device, a family that solves it, and one of its configs."""

from __future__ import annotations

import dataclasses
import json
import math
import random
from collections.abc import Iterator, Sequence

from problems import Question, Scale, random_problem
from warpsmith.generator.device import Device
from warpsmith.generator.family import MAX_UNROLLED, Family
from warpsmith.generator.gate import Gate, IllegalConfig
from warpsmith.generator.pipeline import Pipeline
from warpsmith.generator.program import Program
from warpsmith.generator.registry import FAMILIES, OPERATIONS, family_named
from warpsmith.generator.space import Config

REDRAWS = 60
"""Most problems drawn for a family until it solves one."""
EMULATED = ("mma", "warpgroup", "slices", "tensor")
"""Ends of names of kernels whose matrix instructions the host device emulates."""
MOST_EMULATED = 16
"""Blocks of such a kernel: 500 blocks of one warp, or 40 of four, take several seconds without optimisation."""


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A config of a family for a problem on a device. `Candidate.parse` makes it again from its text."""

    question: Question
    family: Family
    config: Config

    @property
    def program(self) -> Program:
        return self.family.program(self.question.problem, self.config)

    def __str__(self) -> str:
        return f"{self.family.name} {json.dumps(self.config.values())} of {self.question}"

    @classmethod
    def parse(cls, text: str) -> Candidate:
        name, _, rest = text.partition(" ")
        values, _, question = rest.partition(" of ")
        family = family_named(name)
        if family is None:
            raise ValueError(f"there is no family {name!r}")
        return cls(Question.parse(question), family, Config.of(json.loads(values)))


def candidates(
    rng: random.Random, count: int, scale: Scale, devices: Sequence[Device], families: Sequence[Family] = FAMILIES
) -> Iterator[Candidate]:
    """`count` candidates, about as many of each family: its default, one of its starts, or a config that is drawn.

    Pipelines are a third as often: each takes four or five compilations, of stages that are drawn by themselves too.
    Those that take a compiler long are left out, and illegal ones, which the loop `legality` looks for.
    """
    weights = [1 / 3 if isinstance(family, Pipeline) else 1.0 for family in families]
    made = 0
    while made < count:
        (family,) = rng.choices(families, weights)
        question = _solved_by(family, rng, scale, devices)
        if question is None:
            continue
        config = _chosen(family, Gate(question.problem, question.device), rng)
        if config is None or family.unrolled(question.problem, config) > MAX_UNROLLED:
            continue
        made += 1
        yield Candidate(question, family, config)


def is_quick(case: Candidate) -> bool:
    """True if the host device runs the candidate in about a second or less."""
    products = (each for each in case.program.launches if each.entry.endswith(EMULATED))
    return all(math.prod(each.grid) <= MOST_EMULATED for each in products)


def _solved_by(family: Family, rng: random.Random, scale: Scale, devices: Sequence[Device]) -> Question | None:
    operation = next(each.name for each in OPERATIONS.values() if family in each.families)
    for _ in range(REDRAWS):
        question = Question(random_problem(rng, scale, operation), rng.choice(devices))
        if Gate(question.problem, question.device).why_unable(family) is None:
            return question
    return None


def _chosen(family: Family, gate: Gate, rng: random.Random) -> Config | None:
    """A legal config; None if there is none, or none is found at once."""
    try:
        match rng.randrange(4):
            case 0:
                return gate.default(family)
            case 1 if starts := family.starts(gate.problem, gate.device):
                config = rng.choice(starts)
            case _:
                config = gate.space(family).drawn(rng)
    except IllegalConfig:
        return None
    return config if config is not None and gate.why_not(family, config) is None else None
