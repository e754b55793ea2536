"""Interface of a training step, and the step of three plans that share nothing."""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

from warpsmith.devices.checked_calls import copied
from warpsmith.devices.tensors import version_of
from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.plans.loaded import Verification
from warpsmith.plans.match import Match
from warpsmith.plans.plan import Plan


class ChosenBy(enum.StrEnum):
    """Grounds for sharing spectra between the passes of a training step, or not."""

    CALLER = "caller"
    """`reuse` was given."""
    STORED = "stored"
    """Stored times of all three passes, both ways."""
    MODEL = "model"
    """Expected times, because not all times are stored."""
    KERNELS = "kernels"
    """The kernels: both ways run the same ones except for the transforms that are left out, or no times are known."""
    NECESSITY = "necessity"
    """Spectra cannot be kept: no family of the layer shares spectra, or the workspace is too small."""


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """Decision whether the passes of a training step share spectra."""

    reuse: bool
    by: ChosenBy
    reason: str
    """One line, with the times that were compared."""


class TrainingStep(abc.ABC):
    """The forward pass of a layer and both gradients, called one after the other; `warpsmith.training_step` makes it.

    `y = step.fprop(x, w)`, then `dx = step.dgrad(dy)` and `dw = step.wgrad()`, in either order, one of them or both.
    No array is passed twice: the gradients use x and w of the latest `fprop`, and a gradient without dy uses the dy
    that the other gradient got. A dy that is passed is always read.

    A step that keeps spectra (`choice.reuse`) needs no array after the call that it was passed to. Changing the array
    afterwards has no effect. A step that keeps none holds x, w and dy until the next step begins: PyTorch's tensors
    themselves, and copies of other arrays. Like autograd, a pass refuses a tensor that was changed in place meanwhile.

    Arrays, streams and graphs are those of plans. The passes of one step follow each other on one stream, or within
    one capture of a graph: kept spectra belong to it, and a gradient anywhere else raises BadArgument. Threads that
    call one step at the same time need different streams. Two steps share nothing.
    """

    def __init__(self, problems: Mapping[Pass, Conv2d], matches: Mapping[Pass, Match], choice: Choice) -> None:
        self.problems = problems
        """The three passes."""
        self.matches = matches
        """How the answer for each pass was found, with the stored record if there is one."""
        self.choice = choice
        """Decision whether spectra are kept."""

    @property
    @abc.abstractmethod
    def workspace_bytes(self) -> int:
        """Bytes that the step takes on each stream for kept spectra and for scratch memory of a call, without copies of
        arrays. It is at most the layer's `workspace`.
        """

    @property
    @abc.abstractmethod
    def verified(self) -> Mapping[Pass, Verification]:
        """Whether results of each pass were compared with float64 sums on this device, and the largest error found."""

    @abc.abstractmethod
    def fprop(self, x: Any, w: Any, b: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        """y of shape (N, K, P, Q). Arrays, options and errors are those of `Plan.__call__`.

        Args:
            x: (N, C, H, W).
            w: (K, C, R, S).
            b: (K,), if the layer has a bias.
            out: array to write to; None for a new one.
            stream: CUDA stream to launch on; None for the caller's current one.
        """

    def dgrad(self, dy: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        """dx of shape (N, C, H, W), for w of the latest `fprop`.

        Args:
            dy: (N, K, P, Q); None for the dy that the other gradient got since that `fprop`.
            out: as for `fprop`.
            stream: as for `fprop`.

        Raises:
            BadArgument: `fprop` was not called before, or no gradient got a dy since; and as `Plan.__call__`.
        """
        return self._gradient(Pass.DGRAD, dy, out, stream)

    def wgrad(self, dy: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        """dw of shape (K, C, R, S), for x of the latest `fprop`. Arguments and errors are those of `dgrad`."""
        return self._gradient(Pass.WGRAD, dy, out, stream)

    @abc.abstractmethod
    def _gradient(self, pass_: Pass, dy: Any, out: Any, stream: Any) -> Any:
        """Computes dx or dw."""


def no_fprop(pass_: Pass) -> str:
    """Error message of a gradient that is called before the forward pass."""
    return f"{pass_}: call fprop first, on the same stream, and within the same capture of a graph"


def no_dy(pass_: Pass) -> str:
    """Error message of a gradient that is called without dy if no gradient got one before."""
    return f"{pass_}: give dy, which no gradient was given since fprop on this stream, or in this capture of a graph"


class TooLittleWorkspace(BadArgument):
    """The layer's workspace is too small for the spectra that a training step keeps."""


def too_little(needed: int, allowed: int) -> str:
    """Message for a workspace that is too small for the spectra, in one line."""
    return (
        f"needs {needed} bytes of workspace for the spectra of x, w and dy and one call beside them; "
        f"the layer allows {allowed}"
    )


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

    def dgrad(self, dy: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        return self._gradient(Pass.DGRAD, dy, out, stream)

    def wgrad(self, dy: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        return self._gradient(Pass.WGRAD, dy, out, stream)

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
