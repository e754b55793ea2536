"""A training step of three plans that share nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from warpsmith.devices.checked_calls import copied
from warpsmith.devices.tensors import version_of
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.plans.plan import Plan
from warpsmith.plans.training.step import Choice, TrainingStep, no_dy, no_fprop
from warpsmith.plans.verified import Verification


class _Given(NamedTuple):
    """An array that later passes read, as it was when it was given."""

    name: str
    array: Any
    """The caller's own, where its version tells whether it was changed; else a copy."""
    version: int | None

    @classmethod
    def of(cls, name: str, array: Any, plan: Plan, stream: Any) -> _Given:
        """One that a plan was just called with."""
        version = version_of(array)
        if version is None:
            operand = next(each for each in plan.problem.inputs if each.name == name)
            array = copied(array, operand, plan.runtime, stream)
        return cls(name, array, version)

    def unchanged(self, pass_: Pass) -> Any:
        """The array. Raises BadArgument where it was changed in place since."""
        if self.version is not None and version_of(self.array) != self.version:
            remedy = "change it behind the last pass that needs it, or give copies"
            raise BadArgument(f"{pass_}: {self.name} was changed in place since it was given; {remedy}")
        return self.array


class UsualStep(TrainingStep):
    """Each pass is a plan of its own, which reads its operands anew; they are kept until the next step begins.

    Args:
        problems: the three passes.
        plans: of each.
        choice: why.
    """

    def __init__(self, problems: Mapping[Pass, Conv2d], plans: Mapping[Pass, Plan], choice: Choice) -> None:
        super().__init__(problems, {pass_: plan.match for pass_, plan in plans.items()}, choice)
        self._plans = plans
        self._given: dict[str, _Given] = {}

    @property
    def workspace_bytes(self) -> int:
        return max(plan.workspace_bytes for plan in self._plans.values())

    @property
    def verified(self) -> Mapping[Pass, Verification]:
        return {pass_: plan.verified for pass_, plan in self._plans.items()}

    def fprop(self, x: Any, w: Any, b: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        arrays = (x, w) if b is None else (x, w, b)
        plan = self._plans[Pass.FPROP]
        y = plan(*arrays, out=out, stream=stream)
        self._given = {name: _Given.of(name, each, plan, stream) for name, each in (("x", x), ("w", w))}
        return y

    def dgrad(self, dy: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        return self._gradient(Pass.DGRAD, dy, out, stream)

    def wgrad(self, dy: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        return self._gradient(Pass.WGRAD, dy, out, stream)

    def _gradient(self, pass_: Pass, dy: Any, out: Any, stream: Any) -> Any:
        given, plan = self._given, self._plans[pass_]
        if not given:
            raise BadArgument(no_fprop(pass_))
        if dy is None and "dy" not in given:
            raise BadArgument(no_dy(pass_))
        arrays = {name: given[name].unchanged(pass_) for name in plan.caller_inputs if name != "dy" or dy is None}
        arrays.setdefault("dy", dy)
        result = plan(*(arrays[name] for name in plan.caller_inputs), out=out, stream=stream)
        if dy is not None:
            self._given = {**given, "dy": _Given.of("dy", dy, plan, stream)}
        return result
