"""Convolution layers of given shapes. A plan or PyTorch computes each pass."""

from __future__ import annotations

import dataclasses
import warnings

from torch import Tensor

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.plans.match import MatchKind
from warpsmith.store.changes import OWN_WRITES
from warpsmith.torch.answers import Answer, HeldAnswer
from warpsmith.torch.layer_spec import MEMORY_FORMATS, LayerSpec, Numerics
from warpsmith.torch.remedy import tune_command
from warpsmith.torch.tensors import call, usable
from warpsmith.torch.words import Fallback, LeftToTorch, Source

Ends = tuple[bool, bool]
"""Whether a plan adds a bias, and whether it ends in a ReLU."""
PLAIN: Ends = (False, False)
FUSED: dict[Ends, tuple[Ends, ...]] = {
    (True, False): ((True, False), PLAIN),
    (False, True): ((False, True), PLAIN),
    (True, True): ((True, True), (True, False), PLAIN),
}
"""Plans that may compute a call, by its own bias and ReLU. Those that leave the least to PyTorch come first."""


class TorchLayer:
    """A layer as `bilinear.Bilinear` by PyTorch's own operations, which record derivatives themselves.

    Args:
        spec: the layer.
    """

    __slots__ = ("_spec", "memory_format")

    records_itself = True

    def __init__(self, spec: LayerSpec) -> None:
        self._spec = spec
        self.memory_format = MEMORY_FORMATS[spec.layout]

    @property
    def linear(self) -> TorchLayer:
        return self

    @property
    def by_torch(self) -> TorchLayer:
        return self

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        return self._spec.geometry.forward(x, w, b)

    def input_gradient(self, dy: Tensor, w: Tensor) -> Tensor:
        return self._spec.geometry.input_gradient(dy, w, self._spec.size)

    def weight_gradient(self, x: Tensor, dy: Tensor) -> Tensor:
        return self._spec.geometry.weight_gradient(x, dy, self._spec.weight)


class ConvLayer:
    """A layer for images of one shape, as `bilinear.Bilinear`. A plan or PyTorch computes each of its three passes.

    Args:
        spec: the layer.
        numerics: precision and error bounds that the caller requests.
        source: device, fallback and store of the plans; None on a device without plans.
    """

    records_itself = False

    __slots__ = ("_answers", "_left", "_left_at", "dtype", "is_told", "memory_format", "problem", "source", "spec")

    def __init__(self, spec: LayerSpec, numerics: Numerics, source: Source | None) -> None:
        self.spec, self.dtype = spec, spec.dtype
        self.memory_format = MEMORY_FORMATS[spec.layout]
        """Memory format of images and weights."""
        self.source = source or Source("host", Fallback.TORCH, None)
        self.problem: Conv2d | str
        """The forward pass, or the reason why no kernel family can compute it."""
        self.is_told = False
        """True once a warning has said that PyTorch computes a pass of this layer."""
        self._left: dict[tuple[tuple[Pass, ...], Ends], bool] = {}
        self._left_at = -1
        self._answers: dict[tuple[Pass, Ends], HeldAnswer] = {}
        try:
            if source is None:
                raise BadArgument("this version computes on CUDA GPUs and the CPU")
            self.problem = problem = spec.problem(numerics)
        except BadArgument as error:
            self.problem = str(error)
            return
        passes = {(pass_, PLAIN): dataclasses.replace(problem, pass_=pass_) for pass_ in Pass}
        for bias, relu in FUSED:
            passes[Pass.FPROP, (bias, relu)] = dataclasses.replace(problem, bias=bias, relu=relu)
        self._answers = {key: HeldAnswer(each, source) for key, each in passes.items()}

    @property
    def linear(self) -> ConvLayer:
        """This layer: without b it is linear."""
        return self

    @property
    def by_torch(self) -> TorchLayer:
        return TorchLayer(self.spec)

    def answer(self, pass_: Pass, bias: bool = False, relu: bool = False) -> Answer | None:
        """Answer for a pass; None if no kernel family can compute the layer.

        A plan may leave the bias and the ReLU to a later step. The first plan stored for exactly this size wins, else
        the first plan of any kind.
        """
        if not self._answers:
            return None
        if not bias and not relu:
            return self._answers[pass_, PLAIN].get()
        others: list[Answer] = []
        for ends in FUSED[bias, relu]:
            found = self._answers[pass_, ends].get()
            if found.plan is not None and found.plan.match.kind is MatchKind.EXACT:
                return found
            others.append(found)
        return next((each for each in others if each.plan is not None), others[0])

    def is_left_to_torch(self, passes: tuple[Pass, ...], bias: bool, relu: bool = False) -> bool:
        """True if PyTorch computes all of these passes."""
        if self._left_at != OWN_WRITES.count:
            self._left_at = OWN_WRITES.count
            self._left.clear()
        ends = bias, relu
        found = self._left.get((passes, ends))
        if found is None:
            answers = [self.answer(pass_, *(ends if pass_ is Pass.FPROP else PLAIN)) for pass_ in passes]
            found = self._left[passes, ends] = all(each is None or each.plan is None for each in answers)
        return found

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None, relu: bool = False) -> Tensor:
        """Computes y of x and w, adds b if there is one, and applies a ReLU if `relu` is set."""
        answer = self.answer(Pass.FPROP, b is not None, relu)
        if answer is None or answer.plan is None:
            self.warn(answer)
            y = self._dense(self.spec.geometry.forward(self._dense(x), self._dense(w), b))
            return y.relu_() if relu else y
        plan, x, w = answer.plan, self._usable(x), self._usable(w)
        problem: Conv2d = plan.problem  # type: ignore[assignment]  # a layer's problem is a Conv2d
        y = call(plan, x, w) if b is None or not problem.bias else call(plan, x, w, usable(b))
        if b is not None and not problem.bias:
            y.add_(b.detach().view(-1, 1, 1))
        return y.relu_() if relu and not problem.relu else y

    def input_gradient(self, dy: Tensor, w: Tensor) -> Tensor:
        answer = self.answer(Pass.DGRAD)
        if answer is None or answer.plan is None:
            self.warn(answer)
            return self._dense(self.spec.geometry.input_gradient(self._dense(dy), self._dense(w), self.spec.size))
        return call(answer.plan, self._usable(dy), self._usable(w))

    def weight_gradient(self, x: Tensor, dy: Tensor) -> Tensor:
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
        """Warns once that PyTorch computes a pass of the layer, and names the command that tunes it."""
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
