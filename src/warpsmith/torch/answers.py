"""Finds the plan that computes a problem, or decides that PyTorch computes it. The answer is cached per process.

`warpsmith.plan` caches 64 plans. That is too few here: a network has three plans for each layer, and captured CUDA
graphs need their plans alive. So each operator's layers keep their own plans. A write to the store by this process
changes a counter, and the next call looks up again. Writes of other processes are seen only after `forget`.
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
from warpsmith.store.changes import OWN_WRITES
from warpsmith.torch.words import Fallback, Source

STORED = (MatchKind.EXACT, MatchKind.NEAR)
"""Kinds of match that were measured: for this problem on this device, or for another size of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Plan that computes a problem, or the reason why PyTorch computes it."""

    problem: Problem
    plan: Plan | None
    """None if PyTorch computes the problem."""
    match: Match | None
    """Best stored match. None if no kernel family solves the problem."""

    @property
    def why_not(self) -> str:
        """Reason why PyTorch computes the problem, in one line."""
        return "no kernel family solves it" if self.match is None else "nothing is stored for it, or for a near size"


class HeldAnswer:
    """Cached answer for one problem. It is looked up at the first `get`, and again after this process has written to
    the store.
    """

    __slots__ = ("_answer", "_retired", "_writes", "problem", "source")

    def __init__(self, problem: Problem, source: Source) -> None:
        self.problem = problem
        self.source = source
        self._answer: Answer | None = None
        self._writes = -1
        self._retired: list[Plan] = []
        """Plans that were replaced by newer ones. They stay alive because a captured graph may still run them."""

    def get(self) -> Answer:
        """Returns the answer. Raises the errors of `warpsmith.plan`, but not for a problem that no family solves."""
        if self._answer is None or self._writes != OWN_WRITES.count:
            writes = OWN_WRITES.count  # read before the look-up, so that a write during it is seen at the next call
            answer = answer_of(self.problem, self.source)
            before = None if self._answer is None else self._answer.plan
            if before is not None and answer.plan is not before:
                self._retired.append(before)
            self._answer, self._writes = answer, writes
        return self._answer


def answer_of(problem: Problem, source: Source) -> Answer:
    """Looks up the answer for a problem and compiles and loads its plan. Raises the errors of `warpsmith.plan`."""
    try:
        match = look_up(problem, DeviceRef.parse(source.device).device(), source.store)
    except BadArgument:
        return Answer(problem, None, None)
    if source.fallback is Fallback.TORCH and match.kind not in STORED:
        return Answer(problem, None, match)
    made = plan(problem, source.device, source.store, AUTO)
    return Answer(problem, made, made.match)
