"""Which plan computes a problem, or that PyTorch does; looked up once, and held for as long as the process lives.

`warpsmith.plan` remembers 64 plans; a network has three for each layer, and captured graphs need theirs alive. So
each operator's layers hold their own. What this process stores in the meantime is seen at once, by a count; what
another one stores is seen after `forget`.
"""

from __future__ import annotations

import dataclasses

from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.problem import AUTO, Problem
from warpsmith.plans.lookup import look_up
from warpsmith.plans.make import plan
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store.own_writes import OWN_WRITES
from warpsmith.torch.words import Fallback, Source

STORED = (MatchKind.EXACT, MatchKind.NEAR)
"""Answers that were measured: for this problem on this device, or for another size of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """How a problem is computed."""

    problem: Problem
    plan: Plan | None
    """None where PyTorch computes it."""
    match: Match | None
    """What is stored; None where no kernel family solves the problem."""

    @property
    def why_not(self) -> str:
        """Why PyTorch computes it, in one line."""
        return "no kernel family solves it" if self.match is None else "nothing is stored for it, or for a near size"


class HeldAnswer:
    """The answer for one problem, looked up when it is first asked for, and again when this process has stored more."""

    __slots__ = ("_answer", "_retired", "_writes", "problem", "source")

    def __init__(self, problem: Problem, source: Source) -> None:
        self.problem = problem
        self.source = source
        self._answer: Answer | None = None
        self._writes = -1
        self._retired: list[Plan] = []
        """Plans that others took the place of: a captured graph may still run them."""

    def get(self) -> Answer:
        """The answer. Raises the errors of `warpsmith.plan`, but for a problem that no family solves."""
        if self._answer is None or self._writes != OWN_WRITES.count:
            writes = OWN_WRITES.count  # before the look: what is written meanwhile is seen at the next call
            answer = answer_of(self.problem, self.source)
            before = None if self._answer is None else self._answer.plan
            if before is not None and answer.plan is not before:
                self._retired.append(before)
            self._answer, self._writes = answer, writes
        return self._answer


def answer_of(problem: Problem, source: Source) -> Answer:
    """The answer for a problem, compiled and loaded where there is a plan. Raises the errors of `warpsmith.plan`."""
    try:
        match = look_up(problem, DeviceRef.parse(source.device).device(), source.store)
    except BadArgument:
        return Answer(problem, None, None)
    if source.fallback is Fallback.TORCH and match.kind not in STORED:
        return Answer(problem, None, match)
    made = plan(problem, source.device, source.store, AUTO)
    return Answer(problem, made, made.match)
