"""Specification of a convolution call: shapes, element type, layout and geometry, and the `Conv2d` problem they make.

Layouts follow PyTorch's own rule: if x or w is in `channels_last`, so are all results.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

from warpsmith.errors import BadArgument
from warpsmith.generator.conv2d import Conv2d, ImageLayout, Precision
from warpsmith.generator.conv2d.layer.words import DTYPES, PRECISIONS
from warpsmith.generator.problem import Accuracy, NonFinite
from warpsmith.torch.geometry import Geometry

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
