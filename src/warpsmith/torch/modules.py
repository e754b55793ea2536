"""Convolution layers as modules that call this package's operators. Parameters and `state_dict` are PyTorch's."""

# mypy: disable-error-code="attr-defined, arg-type"
# PyTorch's modules have these lines. torch.jit.script reads comments inside a function as types.
from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from warpsmith.generator.conv2d import Precision
from warpsmith.generator.conv2d.layer.problem import ACCURACIES
from warpsmith.generator.problem import Accuracy, NonFinite, member
from warpsmith.torch.arguments import Fallback
from warpsmith.torch.convolution import conv2d, conv_transpose2d


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """Options for the layers of a model; the arguments of `warpsmith.torch.conv2d`.

    Raises BadArgument for an unknown value.
    """

    precision: Precision = Precision.IEEE
    fallback: Fallback = Fallback.TORCH
    store: str | None = None
    accuracy: Accuracy = Accuracy.NORMWISE
    nonfinite: NonFinite = NonFinite.ANY
    words: tuple[str, str, str | None, str, str] = dataclasses.field(init=False, repr=False, compare=False)
    """Values of the arguments that `CHOICE` names. Each call of a module passes them on."""

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "precision", member(Precision, self.precision, "precision"))
        set_field(self, "fallback", member(Fallback, self.fallback, "fallback"))
        set_field(self, "accuracy", member(Accuracy, self.accuracy, "accuracy", ACCURACIES))
        set_field(self, "nonfinite", member(NonFinite, self.nonfinite, "nonfinite"))
        words = self.precision.value, self.fallback.value, self.store, self.accuracy.value, self.nonfinite.value
        set_field(self, "words", words)


class Conv2d(nn.Conv2d):
    """`torch.nn.Conv2d` whose forward pass is `warpsmith.torch.conv2d`. `patch` turns a model's own layers into
    these.
    """

    choice = Choice()
    """Options that were given to `patch`."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # noqa: A002
        if torch.jit.is_scripting():  # compiled alone: PyTorch's lines, because it knows no `super`
            if self.padding_mode != "zeros":
                padded = functional.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
                return functional.conv2d(padded, weight, bias, self.stride, (0, 0), self.dilation, self.groups)
            return functional.conv2d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        else:  # noqa: RET505 - torch.jit.script compiles what is behind the branch too
            precision, fallback, store, accuracy, nonfinite = self.choice.words
            return conv2d(
                input,
                weight,
                bias,
                self.stride,
                self.padding,
                self.dilation,
                self.groups,
                padding_mode=self.padding_mode,
                precision=precision,
                fallback=fallback,
                store=store,
                accuracy=accuracy,
                nonfinite=nonfinite,
            )


class ConvTranspose2d(nn.ConvTranspose2d):
    """`torch.nn.ConvTranspose2d` whose forward pass is `warpsmith.torch.conv_transpose2d`."""

    choice = Choice()
    """Options that were given to `patch`."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:  # noqa: A002
        if torch.jit.is_scripting():  # as in Conv2d
            padding = self._output_padding(
                input, output_size, self.stride, self.padding, self.kernel_size, 2, self.dilation
            )
            return functional.conv_transpose2d(
                input, self.weight, self.bias, self.stride, self.padding, padding, self.groups, self.dilation
            )
        else:  # noqa: RET505
            precision, fallback, store, accuracy, nonfinite = self.choice.words
            return conv_transpose2d(
                input,
                self.weight,
                self.bias,
                self.stride,
                self.padding,
                output_padding(self, input, output_size),
                self.groups,
                self.dilation,
                precision=precision,
                fallback=fallback,
                store=store,
                accuracy=accuracy,
                nonfinite=nonfinite,
            )


def output_padding(module: nn.ConvTranspose2d, x: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
    """Rows and columns added to the result of a transposed convolution, as PyTorch's module computes them.

    Raises ValueError for an output size that is impossible.
    """
    size = None if output_size is None else list(output_size)
    stride, padding, taps = list(module.stride), [int(each) for each in module.padding], list(module.kernel_size)
    return tuple(module._output_padding(x, size, stride, padding, taps, 2, list(module.dilation)))


OURS: dict[type[nn.Module], type[nn.Module]] = {nn.Conv2d: Conv2d, nn.ConvTranspose2d: ConvTranspose2d}
"""The replacement of each of PyTorch's modules. Classes that are derived from them have none."""
