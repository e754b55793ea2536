"""Convolution layers of given shapes, cached by the calls that need them. A plan or PyTorch computes each pass."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, ImageLayout, Pass, Precision
from warpsmith.generator.conv2d.layer.problem import ACCURACIES
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import Accuracy, NonFinite, member
from warpsmith.plans.match import MatchKind
from warpsmith.store.changes import OWN_WRITES
from warpsmith.torch import arguments
from warpsmith.torch.answers import Answer, CachedAnswer, new_cache, tune_command
from warpsmith.torch.arguments import Fallback, LeftToTorch, Source, device_name
from warpsmith.torch.layer_spec import MEMORY_FORMATS, Geometry, LayerSpec, Numerics, autocast_dtype
from warpsmith.torch.tensors import call_as_they_lie as call

FORWARD = (Pass.FPROP, Pass.DGRAD, Pass.WGRAD)
"""The passes of a convolution: its result, the gradient of the input and the gradient of the weights."""
TRANSPOSED = (Pass.DGRAD, Pass.FPROP, Pass.WGRAD)
"""The same for a transposed convolution, whose result is the gradient of a convolution's input."""
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

    __slots__ = ("_answers", "_left", "_left_at", "dtype", "has_warned", "memory_format", "problem", "source", "spec")

    def __init__(self, spec: LayerSpec, numerics: Numerics, source: Source | None) -> None:
        self.spec, self.dtype = spec, spec.dtype
        self.memory_format = MEMORY_FORMATS[spec.layout]
        """Memory format of images and weights."""
        self.source = source or Source("host", Fallback.TORCH, None)
        self.problem: Conv2d | str
        """The forward pass, or the reason why no kernel family can compute it."""
        self.has_warned = False
        """True once a warning has said that PyTorch computes a pass of this layer."""
        self._left: dict[tuple[tuple[Pass, ...], Ends], bool] = {}
        self._left_at = -1
        self._answers: dict[tuple[Pass, Ends], CachedAnswer] = {}
        try:
            if source is None:
                raise BadArgument("this version computes on CUDA GPUs and the CPU")
            self.problem = problem = spec.problem(numerics)
        except BadArgument as error:
            self.problem = str(error)
            return
        passes = {(each, PLAIN): dataclasses.replace(problem, pass_=each) for each in Pass}
        for bias, relu in FUSED:
            passes[Pass.FPROP, (bias, relu)] = dataclasses.replace(problem, bias=bias, relu=relu)
        self._answers = {key: CachedAnswer(each, source) for key, each in passes.items()}

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

    def problems(self, pass_: Pass, bias: bool = False) -> tuple[Conv2d, ...]:
        """Problems whose answers `answer` asks for, at most."""
        ends = FUSED[bias, False] if bias else (PLAIN,)
        return tuple(dict.fromkeys(self._answers[pass_, each].problem for each in ends)) if self._answers else ()  # type: ignore[misc]

    def is_left_to_torch(self, passes: tuple[Pass, ...], bias: bool, relu: bool = False) -> bool:
        """True if PyTorch computes all of these passes."""
        if self._left_at != OWN_WRITES.count:
            self._left_at = OWN_WRITES.count
            self._left.clear()
        ends = bias, relu
        found = self._left.get((passes, ends))
        if found is None:
            answers = [self.answer(each, *(PLAIN if each.is_gradient else ends)) for each in passes]
            found = self._left[passes, ends] = all(each is None or each.plan is None for each in answers)
        return found

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None, relu: bool = False) -> Tensor:
        """Computes y of x and w, adds b if there is one, and applies a ReLU if `relu` is set."""
        answer = self.answer(Pass.FPROP, b is not None, relu)
        if answer is None or answer.plan is None:
            self.warn(answer)
            y = self._dense(self.spec.geometry.forward(self._dense(x), self._dense(w), b))
            return y.relu_() if relu else y
        plan = answer.plan
        if b is None and not relu:
            return call(plan, self.memory_format, x, w)
        problem: Conv2d = plan.problem  # type: ignore[assignment]  # a layer's problem is a Conv2d
        fused = (b,) if b is not None and problem.bias else ()
        y = call(plan, self.memory_format, x, w, *fused)
        if b is not None and not problem.bias:
            y.add_(b.detach().view(-1, 1, 1))
        return y.relu_() if relu and not problem.relu else y

    def input_gradient(self, dy: Tensor, w: Tensor) -> Tensor:
        answer = self.answer(Pass.DGRAD)
        if answer is None or answer.plan is None:
            self.warn(answer)
            return self._dense(self.spec.geometry.input_gradient(self._dense(dy), self._dense(w), self.spec.size))
        return call(answer.plan, self.memory_format, dy, w)

    def weight_gradient(self, x: Tensor, dy: Tensor) -> Tensor:
        answer = self.answer(Pass.WGRAD)
        if answer is None or answer.plan is None:
            self.warn(answer)
            return self._dense(self.spec.geometry.weight_gradient(self._dense(x), self._dense(dy), self.spec.weight))
        return call(answer.plan, self.memory_format, x, dy)

    def _dense(self, x: Tensor) -> Tensor:
        return x.contiguous(memory_format=self.memory_format)

    def warn(self, answer: Answer | None, stacklevel: int = 2) -> None:
        """Warns once that PyTorch computes a pass of the layer, and names the command that tunes it."""
        if self.has_warned or 0 in self.spec.size:
            return
        self.has_warned = True
        if answer is None:
            what = f"a layer of x {self.spec.size} and w {self.spec.weight}: {self.problem}"
        else:
            what = f"{answer.problem.key()}: {answer.why_not}"
            if answer.match is not None and isinstance(answer.problem, Conv2d):
                what += f"; to tune it: {tune_command(answer.problem, self.source.device)}"
        text = f"PyTorch computes {what}"
        warnings.warn(text, LeftToTorch, stacklevel=stacklevel + 1)


_LAYERS: dict[Any, ConvLayer] = new_cache()
"""Layers by specification, source and numerics."""
_CALLS: dict[Any, ConvLayer | None] = new_cache()
"""Layers by the arguments of a call, the cheapest look-up."""


def found_layer(
    x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], transposed: tuple[Any] | None = None
) -> ConvLayer | None:
    """The layer of a call. The arguments are those of `LayerSpec.of`.

    Args:
        x: the image, or the input of a transposed convolution.
        w: the weights.
        b: the bias, or None.
        words: stride, padding, dilation, groups, padding mode and the arguments that `CHOICE` names, as the caller gave
            them.
        transposed: the output padding of a transposed convolution; None for any other.

    Returns: None if the operands differ in dtype or device, are empty, or lie on a device without plans, and if an
    argument is no integer. PyTorch computes or refuses such calls.

    Raises BadArgument for an unknown value of an argument.
    """
    try:
        return _CALLS[_key(x, w, b, words, transposed)]
    except (KeyError, ValueError):  # ValueError: an argument whose type `marshal` does not know
        return _looked_up(x, w, b, words, transposed)
    except (AttributeError, RuntimeError):  # no tensor, or a tensor without strides, such as a sparse one
        return None


def _key(x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], transposed: tuple[Any] | None) -> Any:
    device = x.device
    cast = autocast_dtype(device.type) if _casts() else None
    own = None if b is None else (b.shape, b.dtype, b.device)
    typed = arguments.typed_key((words, transposed))
    layout = x.layout  # the strides of a sparse tensor may equal those of a dense one
    return x.shape, x.stride(), x.dtype, device, layout, w.shape, w.stride(), w.dtype, w.device, own, cast, typed


_casts = torch._C._is_any_autocast_enabled


def _looked_up(
    x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], transposed: tuple[Any] | None
) -> ConvLayer | None:
    """The layer of a call that is not cached, or whose arguments are of types such as NumPy's integers."""
    given, mode = words[:4], words[4]
    choice = str(member(PaddingMode, mode, "padding_mode")), *words_of(words)
    more = () if transposed is None else transposed
    numbers = tuple(map(_canonical, (*given, *more)))
    if None in numbers:
        return None
    canonical = *numbers[:4], *choice
    whole = None if transposed is None else (numbers[4],)
    key = _key(x, w, b, canonical, whole)
    if key not in _CALLS:
        spec = LayerSpec.of(x, w, b, canonical, whole)
        has_plans = spec is not None and device_name(x.device) is not None and 0 not in spec.size + spec.weight
        _CALLS[key] = _layer(spec, x.device, *choice[1:]) if spec is not None and has_plans else None
    if all(map(arguments.is_plain, (*given, *more))):
        spelt = mode if type(mode) is str else choice[0]
        _CALLS[_key(x, w, b, (*given, spelt, *choice[1:]), transposed)] = _CALLS[key]
    return _CALLS[key]


def _canonical(word: Any) -> int | tuple[int, ...] | str | None:
    """Converts an argument to a Python int, a tuple of them or a string; None for anything else."""
    if isinstance(word, str):
        return str(word)
    one = arguments.integer(word)
    return arguments.integers(word) if one is None else one


def found_by_operator(
    size: Sequence[int],
    weight: Sequence[int],
    x: Tensor,
    stride: Sequence[int],
    pads: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    *words: Any,
) -> ConvLayer:
    """The layer of a call of the dispatcher's operator."""
    dtype, device = x.dtype, x.device
    key = (tuple(size), tuple(weight), dtype, device, tuple(stride), tuple(pads), tuple(dilation), groups, *words)
    found = _CALLS.get(key)
    if found is None:
        mode, layout, *choice = words
        geometry = Geometry.of_words(stride, pads, dilation, groups, mode)
        spec = LayerSpec(tuple(size), tuple(weight), dtype, ImageLayout(layout), geometry)
        found = _CALLS[key] = _layer(spec, device, *choice)
    return found


def words_of(words: tuple[Any, ...]) -> tuple[str, str, str | None, str, str]:
    """Values of the last five arguments of a call, those that `CHOICE` names, as arguments of an operator. Raises
    BadArgument.
    """
    precision, fallback, store, accuracy, nonfinite = words[-5:]
    location = None if store is None else str(os.fspath(store))
    return (
        str(member(Precision, precision, "precision")),
        str(member(Fallback, fallback, "fallback")),
        location,
        str(member(Accuracy, accuracy, "accuracy", ACCURACIES)),
        str(member(NonFinite, nonfinite, "nonfinite")),
    )


def _layer(
    spec: LayerSpec,
    device: torch.device,
    precision: str,
    fallback: str,
    store: str | None,
    accuracy: str = Accuracy.NORMWISE.value,  # PyTorch does not pass on arguments that have their default
    nonfinite: str = NonFinite.ANY.value,
) -> ConvLayer:
    numerics = Numerics(Precision(precision), Accuracy(accuracy), NonFinite(nonfinite))
    source = Source.of(device, fallback, store)
    key = (spec, source, numerics)
    found = _LAYERS.get(key)
    if found is None:
        found = _LAYERS[key] = ConvLayer(spec, numerics, source)
    return found
