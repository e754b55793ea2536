"""Specification of a convolution call: shapes, element type, layout and geometry, the `Conv2d` problem they make, and
PyTorch's three computations.

Layouts follow PyTorch's own rule: if x or w is in `channels_last`, so are all results. PyTorch pads both sides of an
axis equally, with zeros. If the sides differ, or the padding repeats pixels, this module pads the images first and
folds a gradient of the image back with the adjoint of the padding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, ImageLayout, Precision
from warpsmith.generator.conv2d.layer.shapes import pads_of
from warpsmith.generator.conv2d.layer.words import DTYPES, PRECISIONS
from warpsmith.generator.padding import PaddingMode, Pads
from warpsmith.generator.problem import Accuracy, NonFinite, member
from warpsmith.torch.arguments import integer, pair

Pair = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Geometry:
    """How a filter moves over an image.

    Args:
        stride: input rows and columns from one output to the next.
        pads: rows above and below, columns left and right.
        dilation: input rows and columns from one tap to the next.
        groups: number of channel groups.
        mode: how padding pixels are made.
    """

    stride: Pair
    pads: tuple[Pads, Pads]
    dilation: Pair
    groups: int
    mode: PaddingMode

    @classmethod
    def of(
        cls, stride: Any, padding: Any, dilation: Any, groups: Any, mode: str, taps: Sequence[int]
    ) -> Geometry | None:
        """Reads the arguments of `torch.nn.functional.conv2d`; None for numbers that PyTorch refuses.

        Raises BadArgument for an unknown padding mode.
        """
        paddings = member(PaddingMode, mode, "padding_mode")
        steps, reach, count = pair(stride), pair(dilation), integer(groups)
        given = padding if isinstance(padding, str) else pair(padding)
        if steps is None or reach is None or count is None or given is None or min(count, *steps, *reach) < 1:
            return None
        try:
            pads = pads_of(given, steps, reach, taps)
        except BadArgument:
            return None
        return cls(steps, pads, reach, count, paddings)

    @property
    def words(self) -> tuple[list[int], list[int], list[int], int, str]:
        """Arguments of an operator: stride, rows above and below, columns left and right, dilation, groups, mode."""
        (above, below), (left, right) = self.pads
        return list(self.stride), [above, below, left, right], list(self.dilation), self.groups, str(self.mode)

    @classmethod
    def of_words(
        cls, stride: Sequence[int], pads: Sequence[int], dilation: Sequence[int], groups: int, mode: str
    ) -> Geometry:
        """Makes a geometry from the arguments of an operator; the inverse of `words`."""
        (rows, columns), (above, below, left, right), (down, across) = stride, pads, dilation
        return cls((rows, columns), ((above, below), (left, right)), (down, across), groups, PaddingMode(mode))

    @property
    def is_native(self) -> bool:
        """True if PyTorch's convolution can do this padding itself."""
        is_zeros = self.mode is PaddingMode.ZEROS or not any(map(sum, self.pads))
        return is_zeros and all(before == after for before, after in self.pads)

    def output_size(self, size: Sequence[Any], taps: Sequence[Any]) -> tuple[Any, Any]:
        """Rows and columns of the result. Sizes may be symbols."""
        rows, columns = (
            (n + sum(pads) - dilation * (count - 1) - 1) // stride + 1
            for n, count, pads, stride, dilation in zip(size, taps, self.pads, self.stride, self.dilation, strict=True)
        )
        return rows, columns

    def input_size(self, size: Sequence[Any], weight: Sequence[Any], output_padding: Any) -> tuple[Any, ...] | None:
        """Shape of a transposed convolution's result, which is the image of the corresponding convolution.

        Args:
            size: shape of the transposed convolution's input.
            weight: shape of w.
            output_padding: rows and columns added to the result, as in PyTorch.

        Returns: None if no convolution of such an image has results of that size.
        """
        more = pair(output_padding)
        if more is None:
            return None
        rows, columns = (
            (n - 1) * stride - sum(pads) + dilation * (count - 1) + 1 + extra
            for n, count, pads, stride, dilation, extra in zip(
                size[2:], weight[2:], self.pads, self.stride, self.dilation, more, strict=True
            )
        )
        found = size[0], weight[1] * self.groups, rows, columns
        fits = min(rows, columns, *more) >= 0 and self.output_size(found[2:], weight[2:]) == tuple(size[2:])
        return found if fits and 0 not in found else None

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        """Computes y by PyTorch."""
        return torch.ops.aten.convolution(self.padded(x), w, b, *self._numbers)  # type: ignore[no-any-return]

    def input_gradient(self, dy: Tensor, w: Tensor, size: Sequence[int]) -> Tensor:
        """Computes the gradient of x, whose shape is `size`, by PyTorch."""
        shape = size if self.is_native else self.padded_shape(size)
        x = dy.new_empty(1).expand(tuple(shape))
        back = torch.ops.aten.convolution_backward
        dx: Tensor = back(dy, x, w, None, *self._numbers, (True, False, False))[0]
        return dx if self.is_native else self._folded(dx, size)

    def weight_gradient(self, x: Tensor, dy: Tensor, size: Sequence[int]) -> Tensor:
        """Computes the gradient of w, whose shape is `size`, by PyTorch."""
        w = dy.new_empty(1).expand(tuple(size))
        back = torch.ops.aten.convolution_backward
        dw: Tensor = back(dy, self.padded(x), w, None, *self._numbers, (False, True, False))[1]
        return dw

    def padded(self, x: Tensor) -> Tensor:
        """x with the padding that PyTorch's convolution cannot do itself."""
        if self.is_native:
            return x
        (above, below), (left, right) = self.pads
        mode = "constant" if self.mode is PaddingMode.ZEROS else str(self.mode)
        return torch.nn.functional.pad(x, (left, right, above, below), mode)

    def padded_shape(self, size: Sequence[int]) -> tuple[int, ...]:
        """Shape of x with its padding."""
        return *size[:2], *(n + sum(pads) for n, pads in zip(size[2:], self.pads, strict=True))

    @property
    def _numbers(self) -> tuple[Any, ...]:
        """Arguments of `aten.convolution` after the operands."""
        padding = tuple(before for before, _ in self.pads) if self.is_native else (0, 0)
        return self.stride, padding, self.dilation, False, (0, 0), self.groups

    def _folded(self, dx: Tensor, size: Sequence[int]) -> Tensor:
        """Gradient of the image, from the gradient of the padded image."""
        (above, below), (left, right) = self.pads
        pads, x = [left, right, above, below], dx.new_empty(1).expand(tuple(size))
        match self.mode:
            case PaddingMode.ZEROS:
                return dx[:, :, above : above + size[2], left : left + size[3]].contiguous()
            case PaddingMode.REFLECT:
                return torch.ops.aten.reflection_pad2d_backward(dx, x, pads)  # type: ignore[no-any-return]
            case PaddingMode.REPLICATE:
                return torch.ops.aten.replication_pad2d_backward(dx, x, pads)  # type: ignore[no-any-return]
            case _:  # circular
                return _unrolled(_unrolled(dx, 2, above, size[2]), 3, left, size[3]).contiguous()


def _unrolled(dx: Tensor, axis: int, before: int, size: int) -> Tensor:
    """Adjoint of circular padding along one axis: adds the gradients of both paddings to the pixels that they repeat.
    Each padding must be shorter than the axis.
    """
    inner = dx.narrow(axis, before, size).clone()
    after = dx.shape[axis] - before - size
    inner.narrow(axis, size - before, before).add_(dx.narrow(axis, 0, before))
    inner.narrow(axis, 0, after).add_(dx.narrow(axis, before + size, after))
    return inner


KERNEL_DTYPES = {getattr(torch, str(each)): each for each in DTYPES}
"""Element types that have convolution kernels, by PyTorch dtype."""
MEMORY_FORMATS = {ImageLayout.NCHW: torch.contiguous_format, ImageLayout.NHWC: torch.channels_last}
"""PyTorch's memory formats, by layout."""


@dataclasses.dataclass(frozen=True, slots=True)
class Numerics:
    """Precision and error bounds that the caller requests; the fields of `Conv2d` define each value."""

    precision: Precision = Precision.IEEE
    accuracy: Accuracy = Accuracy.NORMWISE
    nonfinite: NonFinite = NonFinite.ANY


@dataclasses.dataclass(frozen=True, slots=True)
class LayerSpec:
    """A layer of any element type and device.

    Args:
        size: shape of x; sizes may be symbols while PyTorch traces.
        weight: shape of w.
        dtype: dtype of all operands.
        layout: layout of all images and weights.
        geometry: stride, padding, dilation and groups.
    """

    size: tuple[Any, ...]
    weight: tuple[Any, ...]
    dtype: torch.dtype
    layout: ImageLayout
    geometry: Geometry

    @classmethod
    def of(
        cls, x: Tensor, w: Tensor, b: Tensor | None, words: tuple[Any, ...], transposed: tuple[Any] | None = None
    ) -> LayerSpec | None:
        """The layer of a call.

        Args:
            x: (N, C, H, W); for a transposed convolution, its input (N, K, P, Q).
            w: (K, C/groups, R, S).
            b: one number per channel of the result, or None.
            words: stride, padding, dilation, groups and padding mode as the caller gave them; further ones are ignored.
            transposed: the output padding of a transposed convolution, as the caller gave it; None for any other.

        Returns: None if the operands differ in dtype or device, and if they form no layer. PyTorch computes or refuses
        such calls.

        Raises BadArgument for an unknown padding mode.
        """
        given = (x, w) if b is None else (x, w, b)
        if any(each.layout is not torch.strided for each in given):
            return None
        dtype = computed_dtype(x)
        if any(each.device != x.device or computed_dtype(each) is not dtype for each in given):
            return None
        stride, padding, dilation, groups, mode, *_ = words
        if x.dim() != 4 or w.dim() != 4 or (transposed is not None and isinstance(padding, str)):
            return None
        geometry = Geometry.of(stride, padding, dilation, groups, mode, w.shape[2:])
        if geometry is None:
            return None
        (k, own), is_transposed = w.shape[:2], transposed is not None
        inputs, outputs = (k, own * geometry.groups) if is_transposed else (own * geometry.groups, k)
        if x.shape[1] != inputs or k % geometry.groups or (b is not None and tuple(b.shape) != (outputs,)):
            return None
        size = tuple(x.shape) if transposed is None else geometry.input_size(x.shape, w.shape, *transposed)
        return None if size is None else cls(size, tuple(w.shape), dtype, layout_of(x, w), geometry)

    @property
    def words(self) -> tuple[list[int], list[int], list[int], int, str, str]:
        """Arguments of an operator: those of the geometry, and the layout."""
        return *self.geometry.words, str(self.layout)

    def problem(self, numerics: Numerics) -> Conv2d:
        """The forward pass as a problem.

        A precision that exists for float32 only, such as `tf32`, becomes `ieee` for 16-bit data.

        Raises BadArgument if this version has no kernels for such a layer; the message says why.
        """
        dtype = KERNEL_DTYPES.get(self.dtype)
        if dtype is None:
            raise BadArgument(f"this version computes no {str(self.dtype).removeprefix('torch.')}")
        (n, c, h, w), (k, own, r, s), geometry = self.size, self.weight, self.geometry
        precision = numerics.precision
        return Conv2d(
            (n, c, h, w),
            (k, own, r, s),
            stride=geometry.stride,
            padding=geometry.pads,
            dilation=geometry.dilation,
            groups=geometry.groups,
            precision=precision if precision in PRECISIONS[dtype] else Precision.IEEE,
            layout=self.layout,
            accuracy=numerics.accuracy,
            padding_mode=geometry.mode,
            dtype=dtype,
            nonfinite=numerics.nonfinite,
        )


def layout_of(x: Tensor, w: Tensor) -> ImageLayout:
    """Layout of a convolution's results, by PyTorch's rule. It depends on strides: some shapes are dense in both
    layouts.
    """
    is_last = torch.channels_last in (suggest_memory_format(x), suggest_memory_format(w))
    return ImageLayout.NHWC if is_last else ImageLayout.NCHW


def computed_dtype(x: Tensor) -> torch.dtype:
    """The dtype to which `torch.autocast` casts an operand of a convolution; its own dtype if it casts none."""
    cast = autocast_dtype(x.device.type)
    return x.dtype if cast is None or not x.is_floating_point() or x.dtype is torch.float64 else cast


def cast(dtype: torch.dtype, x: Tensor, w: Tensor, b: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """The operands in that dtype, with gradients. An operand that has it already is returned unchanged."""
    if x.dtype is w.dtype is dtype and (b is None or b.dtype is dtype):
        return x, w, b
    return x.to(dtype), w.to(dtype), None if b is None else b.to(dtype)


def autocast_dtype(device: str) -> torch.dtype | None:
    """The dtype of `torch.autocast` on a type of device; None if autocast is off."""
    if device not in ("cpu", "cuda") or not torch.is_autocast_enabled(device):  # only these have plans
        return None
    return torch.get_autocast_dtype(device)
