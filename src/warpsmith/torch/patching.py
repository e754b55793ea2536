"""Replaces a model's convolution layers by warpsmith's, in place, reports which, and restores them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from warpsmith.generator.conv2d import Conv2d, ImageLayout, Pass
from warpsmith.generator.problem import DType
from warpsmith.plans.answers_ahead import answer_ahead
from warpsmith.plans.match import MatchKind
from warpsmith.torch.answers import Answer, tune_command
from warpsmith.torch.arguments import Fallback, device_name
from warpsmith.torch.layer_spec import KERNEL_DTYPES
from warpsmith.torch.layers import ConvLayer, found_layer
from warpsmith.torch.modules import OURS, Choice, output_padding

MOST_THREADS = 16
"""Most threads that make plans. Look-ups take turns (`plans/lookup.py`); where there are many, processes have made them
before (`plans/answers_ahead.py`).
"""


@dataclasses.dataclass(frozen=True, slots=True)
class PassReport:
    """How one pass of a layer is computed, for images of one shape."""

    problem: Conv2d
    kind: MatchKind | None
    """How well the best stored winner fits; None if no kernel family solves the problem."""
    family: str | None
    """The kernel family that computes the pass; None if PyTorch does."""

    @classmethod
    def of(cls, answer: Answer) -> PassReport:
        """Makes the report from an answer."""
        assert isinstance(answer.problem, Conv2d)
        kind = None if answer.match is None else answer.match.kind
        return cls(answer.problem, kind, None if answer.plan is None else answer.plan.match.program.family)

    @property
    def pass_(self) -> Pass:
        return self.problem.pass_

    def __str__(self) -> str:
        return f"{self.pass_} {self.family} ({self.kind})" if self.family else f"{self.pass_} PyTorch"


@dataclasses.dataclass(frozen=True, slots=True)
class ReplacedLayer:
    """A layer for which warpsmith computes at least one pass."""

    name: str
    """Name in `named_modules`."""
    passes: tuple[PassReport, ...]
    """Three passes for each image shape that the layer saw. Empty if no shape is known yet."""

    def __str__(self) -> str:
        passes = ", ".join(map(str, self.passes)) or "looked up at its first input"
        return f"{self.name}: {passes}{self._data}"

    @property
    def _data(self) -> str:
        """Element type and layout, if they are not float32 and NCHW."""
        seen = dict.fromkeys((each.problem.dtype, each.problem.layout) for each in self.passes)
        words = [_described(*each) for each in seen if each != (DType.FLOAT32, ImageLayout.NCHW)]
        return f"; {' and '.join(words)}" if words else ""


def _described(dtype: DType, layout: ImageLayout) -> str:
    return f"{dtype}, channels_last" if layout is ImageLayout.NHWC else str(dtype)


@dataclasses.dataclass(frozen=True, slots=True)
class LeftLayer:
    """A convolution that stays with PyTorch."""

    name: str
    """Name in `named_modules`."""
    reason: str
    """The reason, in one line."""
    passes: tuple[PassReport, ...] = ()
    """The passes to tune, if nothing is stored for the layer."""

    def __str__(self) -> str:
        return f"{self.name}: left to PyTorch, {self.reason}"


@dataclasses.dataclass(frozen=True, slots=True)
class PatchReport:
    """The convolution layers of a model: those that were replaced and those that were left."""

    replaced: tuple[ReplacedLayer, ...]
    left: tuple[LeftLayer, ...]
    device: str
    """Device of the model's layers: `host`, or `cuda:I`."""

    @property
    def missing(self) -> tuple[Conv2d, ...]:
        """Problems that PyTorch computes because nothing is stored for them. Pass them to `warpsmith.tune`."""
        passes = [each for layer in self.replaced for each in layer.passes]
        passes += [each for layer in self.left for each in layer.passes]
        return tuple(dict.fromkeys(each.problem for each in passes if not each.family))

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands that tune the missing problems."""
        return tuple(tune_command(problem, self.device) for problem in self.missing)

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.replaced, *self.left))) or "no convolution layers"


_Seen = tuple[ConvLayer, bool] | str
"""A layer and whether its forward pass has a bias, or the reason why there is no layer."""
_THEIRS = {ours: theirs for theirs, ours in OURS.items()}


def patch(
    model: nn.Module,
    example_inputs: Any = None,
    *,
    precision: str = "ieee",
    fallback: str = "torch",
    store: str | None = None,
    accuracy: str = "normwise",
    nonfinite: str = "any",
) -> PatchReport:
    """Lets warpsmith compute a model's `nn.Conv2d` and `nn.ConvTranspose2d` layers for which winners are stored.

    It works in place: the modules stay the same objects, with their parameters, hooks and names, and only their class
    changes. Optimizers and `state_dict` are not affected. A layer is replaced if a winner is stored for at least one of
    its passes; PyTorch computes the others. A model that was patched before is unpatched first.

    Args:
        model: a model on the device, and of the dtype, that it will be used with.
        example_inputs: arguments of the model: a tensor, a tuple, or a mapping by name. A layer's shape is known only
            when it sees an input, so the model runs once on these, in evaluation mode and without gradients, and
            nothing that is learned changes. None replaces all layers that have kernels, and each is looked up at its
            first input.
        precision: as for `warpsmith.torch.conv2d`.
        fallback: as for `warpsmith.torch.conv2d`; `default` also replaces layers for which nothing is stored.
        store: as for `warpsmith.plan`.
        accuracy: as for `warpsmith.torch.conv2d`; a stored winner that cannot meet it does not count.
        nonfinite: as for `warpsmith.torch.conv2d`; a stored winner that cannot meet it does not count.

    Returns:
        The layers that were replaced, with their kernels, those that were left, with the reason, and what tunes these.

    Raises:
        BadArgument: an unknown `precision`, `fallback`, `accuracy` or `nonfinite`.
        Exception: anything the model raises for the example inputs; no layer is replaced then.
    """
    unpatch(model)
    choice = Choice(precision, fallback, store, accuracy, nonfinite)  # type: ignore[arg-type]  # words, which it canonicalises
    reasons = {name: _why_not(module) for name, module in model.named_modules() if _is_convolution(module)}
    suitable = {name: model.get_submodule(name) for name, reason in reasons.items() if reason is None}
    seen = None if example_inputs is None else _seen(model, suitable, example_inputs, choice)
    replaced, left = [], [LeftLayer(name, reason) for name, reason in reasons.items() if reason is not None]
    for name, module in suitable.items():
        passes, why_not = ((), None) if seen is None else _reported(seen[name])
        if why_not is not None:
            left.append(LeftLayer(name, why_not, passes))
            continue
        module.__class__ = OURS[type(module)]
        vars(module)["choice"] = choice
        replaced.append(ReplacedLayer(name, passes))
    return PatchReport(tuple(replaced), tuple(left), _device(suitable.values()))


def unpatch(model: nn.Module) -> tuple[str, ...]:
    """Restores PyTorch's class of each layer that `patch` replaced, in place.

    A layer that was parametrized in the meantime, for example by `torch.nn.utils.parametrizations.weight_norm`, stays
    parametrized.

    Returns: names of the restored layers.

    Warns:
        UserWarning: a class was derived from warpsmith's in the meantime. The warning names the layer, which stays as
            it is.
    """
    names, kept = [], []
    for name, module in model.named_modules():
        if "choice" not in vars(module) or not isinstance(module, tuple(_THEIRS)):
            continue
        theirs = _class_without_us(module)
        if theirs is None:
            kept.append(f"{name} ({type(module).__qualname__})")
            continue
        del vars(module)["choice"]
        module.__class__ = theirs
        names.append(name)
    if kept:
        text = f"unpatch leaves {', '.join(kept)}: its class is derived from ours; undo that, then unpatch again"
        warnings.warn(text, stacklevel=2)
    return tuple(names)


def _class_without_us(module: Any) -> type[nn.Module] | None:
    """PyTorch's class for a replaced layer; None if code other than PyTorch's parametrization derived a class from
    ours.
    """
    own = type(module)
    if own in _THEIRS:
        return _THEIRS[own]
    theirs = _THEIRS.get(own.__bases__[0])
    if theirs is None or len(own.__bases__) > 1 or not parametrize.is_parametrized(module):
        return None
    made = {name: each for name, each in vars(own).items() if name not in ("__dict__", "__weakref__")}
    return type(own.__name__, (theirs,), made)  # a new class, because copies of the module share the old one


def _is_convolution(module: nn.Module) -> bool:
    return isinstance(module, tuple(OURS)) and type(module) not in _THEIRS


def _why_not(module: nn.Module) -> str | None:
    """Reason why a convolution is left to PyTorch for any input; None if it may be replaced."""
    if type(module) not in OURS:
        return f"its class {type(module).__qualname__} is derived from PyTorch's, and may compute something else"
    weight = module.weight
    if not isinstance(weight, Tensor) or isinstance(weight, nn.parameter.UninitializedParameter):
        return "its parameters are not made yet"
    if weight.dtype not in KERNEL_DTYPES:
        return f"its weights are {str(weight.dtype).removeprefix('torch.')}, for which this version has no kernels"
    if device_name(weight.device) is None:
        return f"it is on {weight.device.type}; warpsmith computes on CUDA GPUs and the CPU"
    return None


def _seen(model: nn.Module, layers: Mapping[str, nn.Module], inputs: Any, choice: Choice) -> dict[str, list[_Seen]]:
    """Layers of each module, one for each distinct input that it sees while the model runs once, with their plans."""
    found: dict[str, list[_Seen]] = {name: [] for name in layers}
    hooks = []
    for name, module in layers.items():

        def record_layer(module: nn.Module, given: tuple[Any, ...], options: Any, name: str = name) -> None:
            layer = _layer(module, given[0] if given else options["input"], (*given[1:], *options.values()), choice)
            if layer not in found[name]:
                found[name].append(layer)

        hooks.append(module.register_forward_pre_hook(record_layer, with_kwargs=True))
    try:
        with _evaluating(model), torch.no_grad():
            if isinstance(inputs, Mapping):
                model(**inputs)
            else:
                model(*(inputs if isinstance(inputs, tuple | list) else (inputs,)))
    finally:
        for hook in hooks:
            hook.remove()
    _make_plans(found)
    return found


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Puts every module into evaluation mode and restores its own mode afterwards, so that running statistics do not
    change.
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def _layer(module: Any, x: Tensor, others: tuple[Any, ...], choice: Choice) -> _Seen:
    """The layer of a module for one input.

    Args:
        module: a convolution.
        x: its input.
        others: further arguments of its call; for a transposed convolution, the size of the result.
        choice: options for the layers.
    """
    words = module.stride, module.padding, module.dilation, module.groups, module.padding_mode, *choice.words
    batch = x[None] if x.dim() == 3 else x
    more = None
    if isinstance(module, nn.ConvTranspose2d):
        size = next((each for each in others if isinstance(each, list | tuple)), None)
        more = (output_padding(module, x, size),)
    layer = found_layer(batch, module.weight, module.bias, words, more)
    if layer is None:
        return f"there are no kernels for its input, {str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}"
    return layer, module.bias is not None and more is None


def _make_plans(seen: Mapping[str, list[_Seen]]) -> None:
    """Makes the plans of all passes of some layers at the same time, because compiling them takes most of the time.

    Layers of equal shape share their plans. Raises the errors of `warpsmith.plan`.
    """
    layers = [each for own in seen.values() for each in own if not isinstance(each, str)]
    wanted = {(id(layer), bias, step): (layer, bias, step) for layer, bias in layers for step in Pass}

    def make(layer: ConvLayer, bias: bool, step: Pass) -> None:
        layer.answer(step, bias and not step.is_gradient)

    for source in {layer.source for layer, _, _ in wanted.values()}:  # one, unless devices share the model
        if source.fallback is Fallback.DEFAULT:
            own = (each for each in wanted.values() if each[0].source == source)
            asked = (layer.problems(step, bias and not step.is_gradient) for layer, bias, step in own)
            answer_ahead(itertools.chain.from_iterable(asked), source.device, source.store)
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        for made in [pool.submit(make, *each) for each in wanted.values()]:
            made.result()


def _reported(seen: list[_Seen]) -> tuple[tuple[PassReport, ...], str | None]:
    """Passes of a layer, and the reason why it is left to PyTorch; None if it is replaced."""
    if not seen:
        return (), "the example inputs do not reach it"
    passes: list[PassReport] = []
    reasons: list[str] = []
    for each in seen:
        if isinstance(each, str):
            reasons.append(each)
            continue
        layer, bias = each
        if isinstance(layer.problem, str):
            reasons.append(layer.problem)
        answers = [layer.answer(step, bias and not step.is_gradient) for step in Pass]
        passes += [PassReport.of(answer) for answer in answers if answer is not None]
    if any(each.family for each in passes):
        return tuple(passes), None
    return tuple(passes), reasons[0] if reasons else "nothing is stored for its passes, or for near sizes"


def _device(modules: Any) -> str:
    weights = (module.weight for module in modules)
    return next((device_name(weight.device) or "host" for weight in weights), "host")
