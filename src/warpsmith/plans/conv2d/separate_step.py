"""A training step of three plans that share nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from warpsmith.devices.checked_calls import copied
from warpsmith.devices.tensors import version_of
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.plans.conv2d.training_step import Choice, TrainingStep, no_dy, no_fprop
from warpsmith.plans.plan import Plan
from warpsmith.plans.verified import Verification


class _SavedArray(NamedTuple):
    """An array that later passes read, with the contents that it had when it was passed."""

    name: str
    array: Any
    """The caller's own array if its version tells whether it was changed, else a copy."""
    version: int | None

    @classmethod
    def of(cls, name: str, array: Any, plan: Plan, stream: Any) -> _SavedArray:
        """Saves an array that a plan was just called with."""
        version = version_of(array)
        if version is None:
            operand = next(each for each in plan.problem.inputs if each.name == name)
            array = copied(array, operand, plan.runtime, stream)
        return cls(name, array, version)

    def unchanged(self, pass_: Pass) -> Any:
        """The array. Raises BadArgument if it was changed in place meanwhile."""
        if self.version is not None and version_of(self.array) != self.version:
            remedy = "change it behind the last pass that needs it, or give copies"
            raise BadArgument(f"{pass_}: {self.name} was changed in place since it was given; {remedy}")
        return self.array


class SeparateStep(TrainingStep):
    """Training step of three separate plans. Operands are saved until the next step begins.

    Args:
        problems: the three passes.
        plans: the plan of each pass.
        choice: the decision.
    """

    def __init__(self, problems: Mapping[Pass, Conv2d], plans: Mapping[Pass, Plan], choice: Choice) -> None:
        super().__init__(problems, {pass_: plan.match for pass_, plan in plans.items()}, choice)
        self._plans = plans
        self._saved: dict[str, _SavedArray] = {}

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
        self._saved = {name: _SavedArray.of(name, each, plan, stream) for name, each in (("x", x), ("w", w))}
        return y

    def _gradient(self, pass_: Pass, dy: Any, out: Any, stream: Any) -> Any:
        saved, plan = self._saved, self._plans[pass_]
        if not saved:
            raise BadArgument(no_fprop(pass_))
        if dy is None and "dy" not in saved:
            raise BadArgument(no_dy(pass_))
        arrays = {name: saved[name].unchanged(pass_) for name in plan.caller_inputs if name != "dy" or dy is None}
        arrays.setdefault("dy", dy)
        result = plan(*(arrays[name] for name in plan.caller_inputs), out=out, stream=stream)
        if dy is not None:
            self._saved = {**saved, "dy": _SavedArray.of("dy", dy, plan, stream)}
        return result
