"""Every config that may answer without a search is legal: defaults, starts, configs carried over, and drawn ones.

No compiler runs. A case is one problem on one device and one family, so that a failure names all three.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

from problems import DEVICES, Question, random_problem
from warpsmith.errors import BadArgument
from warpsmith.generator.family import Family, Subject
from warpsmith.generator.ranking import default_answer
from warpsmith.generator.registry import OPERATIONS, family_named
from warpsmith.generator.space import Config, Space

DRAWS = 2
"""Configs drawn from each space."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A family whose default, starts and configs are checked for one question."""

    question: Question
    home: Question
    """The question whose default is carried over."""
    family: Family | None
    """None for the answer of all families together."""

    def __str__(self) -> str:
        return f"{'all' if self.family is None else self.family.name} {self.question} carried from {self.home}"


def cases(seed: int, count: int) -> Iterator[Case]:
    """`count` cases, those of one question one after the other."""
    rng = random.Random(seed)
    homes: dict[str, Question] = {}
    made = 0
    while True:
        problem = random_problem(rng)
        question = Question(problem, rng.choice(DEVICES))
        home = homes.get(problem.operation, question)  # the one before it, whose default is known already
        homes[problem.operation] = question
        for family in (None, *OPERATIONS[problem.operation].families):
            if made == count:
                return
            made += 1
            yield Case(question, home, family)


def check(case: Case) -> str | None:
    """The reason why the first illegal config is illegal, in one line; None if all are legal."""
    problem, device = case.question.problem, case.question.device
    if case.family is None:
        try:
            family, config = default_answer(problem, device)
        except BadArgument as refused:  # a transform of a prime size has no family that answers
            is_solved = OPERATIONS[problem.operation].simplest.why_not(problem, device) is None
            return f"nothing answers: {refused}" if is_solved else None
        return _told(family, family.space(problem, device), config, "answer")
    if case.family.why_not(problem, device) is not None:
        return None
    space = case.family.space(problem, device)
    if (empty := space.why_empty) is not None:
        return f"{case.family.name} solves this by an empty space: {empty}"
    rng = random.Random(str(case))
    answers = [("default", case.family.default(problem, device))]
    answers += [("start", config) for config in case.family.starts(problem, device)]
    answers += [("draw", config) for _ in range(DRAWS) if (config := space.drawn(rng)) is not None]
    if case.family.why_not(case.home.problem, case.home.device) is None:
        home = Subject(case.home.problem, case.home.device)
        config = case.family.carried(case.family.default(*home), home, problem, device)
        answers += [] if config is None else [("carried", config)]
    told = (_told(case.family, space, config, kind) for kind, config in answers)
    return next((each for each in told if each is not None), None)


def parse(text: str) -> Case:
    """The case that `str` wrote."""
    name, _, rest = text.partition(" ")
    question, _, home = rest.partition(" carried from ")
    return Case(Question.parse(question), Question.parse(home), None if name == "all" else family_named(name))


def _told(family: Family, space: Space, config: Config, kind: str) -> str | None:
    why = space.why_not(config)
    return None if why is None else f"{kind} of {family.name} is illegal: {why}: {config}"
