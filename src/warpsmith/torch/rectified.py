"""A convolution followed by a ReLU: one launch forward; backward, a mask and then the convolution's own gradients.

PyTorch's kernel computes the gradient of the ReLU, because both gradients of the convolution read its result.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from warpsmith.torch import bilinear
from warpsmith.torch.bilinear import gradients_of, is_recorded
from warpsmith.torch.layers import ConvLayer
from warpsmith.torch.tensors import is_forward_mode


def forward(x: Tensor, w: Tensor, b: Tensor | None, layer: ConvLayer) -> Tensor:
    """Computes y where it is positive or NaN, else 0, and records gradients if they may be needed."""
    if is_forward_mode():
        return torch.nn.functional.relu(bilinear.forward(x, w, b, layer))
    if is_recorded(x, w, b):
        return _Rectified.apply(x, w, b, layer)  # type: ignore[no-any-return, no-untyped-call]
    return layer.forward(x, w, b, relu=True)


class _Rectified(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, layer: ConvLayer) -> Tensor:
        for_x, for_w, *_ = ctx.needs_input_grad
        y = layer.forward(x, w, b, relu=True)
        ctx.save_for_backward(x if for_w else None, w if for_x else None, y)
        ctx.layer = layer
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (dy,), (x, w, y) = gradients, ctx.saved_tensors
        masked = torch.ops.aten.threshold_backward(dy, y, 0)
        return *gradients_of(masked, x, w, ctx.layer, ctx.needs_input_grad), None
