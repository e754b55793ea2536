"""Convolution layers of given shapes: which plan computes each pass, or that PyTorch does."""

from __future__ import annotations

import dataclasses
import warnings

from torch import Tensor

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass, Precision
from warpsmith.plans.match import MatchKind
from warpsmith.store.own_writes import OWN_WRITES
from warpsmith.torch.answers import Answer, HeldAnswer
from warpsmith.torch.layer_spec import MEMORY_FORMATS, LayerSpec
from warpsmith.torch.remedy import tune_command
from warpsmith.torch.tensors import call, usable
from warpsmith.torch.words import Fallback, LeftToTorch, Source


class ConvLayer:
    """A layer for images of one shape, as `bilinear.Bilinear`: its three passes, each by a plan or by PyTorch.

    Args:
        spec: what it computes.
        precision: of the arithmetic.
        source: where plans come from; None on a device that has none.
    """

    __slots__ = ("_answers", "_left", "_left_at", "dtype", "is_told", "memory_format", "problem", "source", "spec")

    def __init__(self, spec: LayerSpec, precision: Precision, source: Source | None) -> None:
        self.spec, self.dtype = spec, spec.dtype
        self.memory_format = MEMORY_FORMATS[spec.layout]
        """Memory format of images and weights."""
        self.source = source or Source("host", Fallback.TORCH, None)
        self.problem: Conv2d | str
        """The forward pass, or why no kernel family is asked for it."""
        self.is_told = False
        """Whether it was said that PyTorch computes a pass of it."""
        self._left: dict[tuple[tuple[Pass, ...], bool], bool] = {}
        self._left_at = -1
        self._answers: dict[tuple[Pass, bool], HeldAnswer] = {}
        try:
            if source is None:
                raise BadArgument("this version computes on CUDA GPUs and the CPU")
            self.problem = problem = spec.problem(precision)
        except BadArgument as error:
            self.problem = str(error)
            return
        passes = {(pass_, False): dataclasses.replace(problem, pass_=pass_) for pass_ in Pass}
        passes[Pass.FPROP, True] = dataclasses.replace(problem, bias=True)
        self._answers = {key: HeldAnswer(each, source) for key, each in passes.items()}

    @property
    def linear(self) -> ConvLayer:
        """Itself: without b it is linear."""
        return self

    def answer(self, pass_: Pass, bias: bool = False) -> Answer | None:
        """How a pass is computed; None where no kernel family is asked. A bias may be added behind the plan."""
        if not self._answers:
            return None
        plain = self._answers[pass_, False]
        if not bias:
            return plain.get()
        own = self._answers[pass_, True].get()
        if own.plan is not None and own.plan.match.kind is MatchKind.EXACT:
            return own
        without = plain.get()
        is_better = without.plan is not None and (own.plan is None or without.plan.match.kind is MatchKind.EXACT)
        return without if is_better else own

    def is_left_to_torch(self, passes: tuple[Pass, ...], bias: bool) -> bool:
        """Whether PyTorch computes all of these passes."""
        if self._left_at != OWN_WRITES.count:
            self._left_at = OWN_WRITES.count
            self._left.clear()
        found = self._left.get((passes, bias))
        if found is None:
            answers = [self.answer(pass_, bias and pass_ is Pass.FPROP) for pass_ in passes]
            found = self._left[passes, bias] = all(each is None or each.plan is None for each in answers)
        return found

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """y of x and w, and b where there is one."""
        answer = self.answer(Pass.FPROP, b is not None)
        if answer is None or answer.plan is None:
            self.warn(answer)
            return self._dense(self.spec.geometry.forward(self._dense(x), self._dense(w), b))
        plan, x, w = answer.plan, self._usable(x), self._usable(w)
        if b is None:
            return call(plan, x, w)
        if plan.problem.bias:  # type: ignore[attr-defined]  # its problem is a Conv2d
            return call(plan, x, w, usable(b))
        return call(plan, x, w).add_(b.detach().view(-1, 1, 1))

    def input_gradient(self, dy: Tensor, w: Tensor) -> Tensor:
        """dx."""
        answer = self.answer(Pass.DGRAD)
        if answer is None or answer.plan is None:
            self.warn(answer)
            return self._dense(self.spec.geometry.input_gradient(self._dense(dy), self._dense(w), self.spec.size))
        return call(answer.plan, self._usable(dy), self._usable(w))

    def weight_gradient(self, x: Tensor, dy: Tensor) -> Tensor:
        """dw."""
        answer = self.answer(Pass.WGRAD)
        if answer is None or answer.plan is None:
            self.warn(answer)
            return self._dense(self.spec.geometry.weight_gradient(self._dense(x), self._dense(dy), self.spec.weight))
        return call(answer.plan, self._usable(x), self._usable(dy))

    def _usable(self, x: Tensor) -> Tensor:
        return usable(x, memory_format=self.memory_format)

    def _dense(self, x: Tensor) -> Tensor:
        return x.contiguous(memory_format=self.memory_format)

    def warn(self, answer: Answer | None, stacklevel: int = 2) -> None:
        """Says once that PyTorch computes a pass of the layer, and what tunes it."""
        if self.is_told or 0 in self.spec.size:
            return
        self.is_told = True
        if answer is None:
            told = f"a layer of x {self.spec.size} and w {self.spec.weight}: {self.problem}"
        else:
            told = f"{answer.problem.key()}: {answer.why_not}"
            if answer.match is not None and isinstance(answer.problem, Conv2d):
                told += f"; to tune it: {tune_command(answer.problem, self.source.device)}"
        text = f"PyTorch computes {told}"
        warnings.warn(text, LeftToTorch, stacklevel=stacklevel + 1)
