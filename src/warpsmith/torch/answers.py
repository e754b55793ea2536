"""Finds the plan that computes a problem, or decides that PyTorch computes it and names the command that tunes it.
Answers are cached per process.

`warpsmith.plan` caches 64 plans. That is too few here: a network has three plans for each layer, and captured CUDA
graphs need their plans alive. So each operator's layers keep their own plans. A write to the store by this process
changes a counter, and the next call looks up again. Writes of other processes are seen only after `forget`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from typing import Any

from warpsmith.devices.select import DeviceRef
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, ImageLayout, PaddingMode, Precision
from warpsmith.generator.conv2d.layer.shapes import pads_of
from warpsmith.generator.problem import AUTO, Accuracy, DType, NonFinite, Problem
from warpsmith.plans.lookup import look_up
from warpsmith.plans.make import plan
from warpsmith.plans.match import Match, MatchKind
from warpsmith.plans.plan import Plan
from warpsmith.store.changes import OWN_WRITES
from warpsmith.torch.arguments import Fallback, Source

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


class CachedAnswer:
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
        if source.fallback is Fallback.TORCH:
            match = look_up(problem, DeviceRef.parse(source.device).device(), source.store)
            if match.kind not in STORED:
                return Answer(problem, None, match)
        made = plan(problem, source.device, source.store, AUTO)
    except BadArgument:
        return Answer(problem, None, None)
    return Answer(problem, made, made.match)


_USUAL = Conv2d((1, 1, 1, 1), (1, 1, 1, 1))
"""Layer with all defaults; `tune_command` prints only what differs from it."""


def tune_command(layer: Conv2d, device: str) -> str:
    """Command that tunes a layer's pass on a device. It is Python code if the command line lacks the padding."""
    padding = _padding(layer)
    if padding is None:
        usual = _USUAL.spec()
        text = ", ".join(f"{name}={value!r}" for name, value in layer.spec().items() if usual.get(name) != value)
        return f"warpsmith.tune(warpsmith.Conv2d({text}), {device!r})"
    options = {
        "--input": _by_commas(layer.input),
        "--weight": _by_commas(layer.weight),
        "--stride": None if layer.stride == (1, 1) else _by_commas(layer.stride),
        "--padding": padding or None,
        "--padding-mode": None if layer.padding_mode is PaddingMode.ZEROS else str(layer.padding_mode),
        "--dilation": None if layer.dilation == (1, 1) else _by_commas(layer.dilation),
        "--groups": None if layer.groups == 1 else str(layer.groups),
        "--pass": str(layer.pass_) if layer.pass_.is_gradient else None,
        "--precision": None if layer.precision is Precision.IEEE else str(layer.precision),
        "--dtype": None if layer.dtype is DType.FLOAT32 else str(layer.dtype),
        "--layout": None if layer.layout is ImageLayout.NCHW else str(layer.layout),
        "--accuracy": None if layer.accuracy is Accuracy.NORMWISE else str(layer.accuracy),
        "--nonfinite": None if layer.nonfinite is NonFinite.ANY else str(layer.nonfinite),
        "--device": device,
    }
    text = " ".join(f"{name} {value}" for name, value in options.items() if value is not None)
    ends = f"{' --bias' if layer.bias else ''}{' --relu' if layer.relu else ''}"
    return f"warpsmith tune conv2d {text}{ends}"


def _padding(layer: Conv2d) -> str | None:
    """The value of `--padding`; empty for no padding, None if the option cannot express these sides."""
    (above, below), (left, right) = layer.padding
    if (above, left) == (below, right):
        return _by_commas((above, left)) if above or left else ""
    is_same = layer.stride == (1, 1) and layer.padding == pads_of("same", (1, 1), layer.dilation, layer.weight[2:])
    return "same" if is_same else None


def _by_commas(numbers: Iterable[int]) -> str:
    numbers = tuple(numbers)
    return str(numbers[0]) if len(set(numbers)) == 1 and len(numbers) == 2 else ",".join(map(str, numbers))


def forget() -> None:
    """Drops all plans of the operators, so that the next calls see what other processes have stored since.

    Writes of this process are seen without it. Captured graphs need the plans that they were captured with, so call it
    only if no such graph will run again.
    """
    for cache in _CACHES:
        cache.clear()


_CACHES: list[dict[Any, Any]] = []


def new_cache() -> dict[Any, Any]:
    """A new dictionary that `forget` clears. A forked child starts with an empty one, because it has no GPU."""
    cache: dict[Any, Any] = {}
    _CACHES.append(cache)
    return cache


os.register_at_fork(after_in_child=forget)
