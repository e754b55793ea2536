"""Convolution layers of given shapes: which plan computes each pass, or that PyTorch does.

`problem_of` is the one place that says which tensors a `Conv2d` problem stands for.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, ImageLayout, Pass, Precision
from warpsmith.plans.match import MatchKind
from warpsmith.store.own_writes import OWN_WRITES
from warpsmith.torch.answers import Answer, HeldAnswer
from warpsmith.torch.geometry import Geometry
from warpsmith.torch.remedy import tune_command
from warpsmith.torch.tensors import call, usable
from warpsmith.torch.words import Fallback, LeftToTorch, Source

DTYPES = (torch.float32,)
"""Element types of convolution layers that have kernels."""
LAYOUTS = {torch.contiguous_format: ImageLayout.NCHW}
"""Memory formats that have kernels."""


def problem_of(
    size: Sequence[int],
    weight: Sequence[int],
    dtype: torch.dtype,
    form: torch.memory_format,
    geometry: Geometry,
    precision: str,
) -> Conv2d:
    """The forward pass of a layer.

    Args:
        size: shape of x.
        weight: shape of w.
        dtype: of all operands.
        form: memory format of x.
        geometry: how the filter moves.
        precision: of the arithmetic, a word of `Precision`.

    Raises BadArgument where this version has no kernels for such tensors; the message says why.
    """
    if dtype not in DTYPES:
        raise BadArgument(f"this version computes no {str(dtype).removeprefix('torch.')}")
    if form not in LAYOUTS:
        raise BadArgument(f"this version computes no {str(form).removeprefix('torch.')} tensors")
    (n, c, h, w), (k, own, r, s) = size, weight
    return Conv2d(
        (n, c, h, w),
        (k, own, r, s),
        stride=geometry.stride,
        padding=geometry.pads,
        dilation=geometry.dilation,
        groups=geometry.groups,
        precision=Precision(precision),
        layout=LAYOUTS[form],
        padding_mode=geometry.mode,
    )


def memory_format(x: Tensor) -> torch.memory_format:
    """`channels_last` where x lies so and not in row order too; else what is made contiguous at no loss."""
    if x.dim() == 4 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    return torch.contiguous_format


class ConvLayer:
    """A layer for images of one shape, as `bilinear.Bilinear`: its three passes, each by a plan or by PyTorch.

    Args:
        size: shape of x.
        weight: shape of w.
        geometry: how the filter moves.
        problem: the forward pass, or why no kernel family is asked for it.
        source: where plans come from.
    """

    __slots__ = (
        "_answers",
        "_form",
        "_geometry",
        "_left",
        "_left_at",
        "_size",
        "_told",
        "_weight",
        "problem",
        "source",
    )

    def __init__(
        self, size: Sequence[int], weight: Sequence[int], geometry: Geometry, problem: Conv2d | str, source: Source
    ) -> None:
        self._size, self._weight, self._geometry = tuple(size), tuple(weight), geometry
        self.problem, self.source = problem, source
        is_last = isinstance(problem, Conv2d) and problem.layout is ImageLayout.NHWC
        self._form = torch.channels_last if is_last else torch.contiguous_format
        self._told = False
        self._left: dict[tuple[tuple[Pass, ...], bool], bool] = {}
        self._left_at = -1
        self._answers: dict[tuple[Pass, bool], HeldAnswer] = {}
        if isinstance(problem, Conv2d):
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
            return self._geometry.forward(x, w, b)
        if b is None:
            return call(answer.plan, self._usable(x), self._usable(w))
        if answer.plan.problem.bias:  # type: ignore[attr-defined]  # its problem is a Conv2d
            return call(answer.plan, self._usable(x), self._usable(w), usable(b))
        return call(answer.plan, self._usable(x), self._usable(w)).add_(b.detach().view(-1, 1, 1))

    def input_gradient(self, dy: Tensor, w: Tensor) -> Tensor:
        """dx."""
        answer = self.answer(Pass.DGRAD)
        if answer is None or answer.plan is None:
            self.warn(answer)
            return self._geometry.input_gradient(dy, w, self._size)
        return call(answer.plan, self._usable(dy), self._usable(w))

    def weight_gradient(self, x: Tensor, dy: Tensor) -> Tensor:
        """dw."""
        answer = self.answer(Pass.WGRAD)
        if answer is None or answer.plan is None:
            self.warn(answer)
            return self._geometry.weight_gradient(x, dy, self._weight)
        return call(answer.plan, self._usable(x), self._usable(dy))

    def _usable(self, x: Tensor) -> Tensor:
        return usable(x, form=self._form)

    def warn(self, answer: Answer | None, stacklevel: int = 2) -> None:
        """Says once that PyTorch computes a pass of the layer, and what tunes it."""
        if self._told or 0 in self._size:
            return
        self._told = True
        if answer is None:
            told = f"a layer of x {self._size} and w {self._weight}: {self.problem}"
        else:
            told = f"{answer.problem.key()}: {answer.why_not}"
            if answer.match is not None and isinstance(answer.problem, Conv2d):
                told += f"; to tune it: {tune_command(answer.problem, self.source.device)}"
        text = f"PyTorch computes {told}"
        warnings.warn(text, LeftToTorch, stacklevel=stacklevel + 1)


def layer_of(
    size: Sequence[int],
    weight: Sequence[int],
    dtype: torch.dtype,
    form: torch.memory_format,
    geometry: Geometry,
    precision: str,
    source: Source | None,
) -> ConvLayer:
    """A layer; `problem_of` has the arguments. `source` is None on a device that has no plans."""
    problem: Conv2d | str
    try:
        if source is None:
            raise BadArgument("this version computes on CUDA GPUs and the CPU")
        problem = problem_of(size, weight, dtype, form, geometry, precision)
    except BadArgument as error:
        problem = str(error)
    return ConvLayer(size, weight, geometry, problem, source or Source("host", Fallback.TORCH, None))
