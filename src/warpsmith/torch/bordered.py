"""Image filters by PyTorch's own operations: an index per axis makes the border, then a convolution follows.

This module computes the gradients that no `Filter2d` problem covers, and filters that are left to PyTorch.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from warpsmith.generator.filter2d import Border, Filter2d

_CONVOLUTION = (1, 1), (0, 0), (1, 1), False, (0, 0), 1
"""Stride, padding, dilation, transposed, output padding and groups of `aten.convolution`."""


class Bordered:
    """The three computations of a filter, for images (P, H, W), weights (F, R, S) and results (P, F, rows, columns).

    It is a `bilinear.Bilinear` whose operations record derivatives themselves.

    Args:
        problem: the filter.
    """

    memory_format = torch.contiguous_format
    records_itself = True

    def __init__(self, problem: Filter2d) -> None:
        self._problem = problem
        rows, columns = problem.image
        if problem.border in (Border.VALID, Border.CONSTANT):
            self._sources = None
            return
        self._sources = tuple(
            sources(problem.border, size, before, taps)
            for size, before, taps in zip((rows, columns), problem.before, problem.filter, strict=True)
        )

    @property
    def linear(self) -> Bordered:
        """The same filter with zeros outside the image, if the border is another constant."""
        return Bordered(dataclasses.replace(self._problem, cval=0.0)) if self._problem.cval else self

    @property
    def by_torch(self) -> Bordered:
        return self

    def forward(self, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:  # noqa: ARG002 - filters have no bias
        """Computes the filtered images."""
        w = w.to(x.device)
        padded, turned = self._padded(x)[:, None], self._turned(w)
        return torch.ops.aten.convolution(padded, turned, None, *_CONVOLUTION)  # type: ignore[no-any-return]

    def input_gradient(self, dy: Tensor, w: Tensor) -> Tensor:
        """Computes the gradient of the image."""
        w = w.to(dy.device)
        x = dy.new_empty(1).expand(dy.shape[0], 1, *self._padded_size)
        back = torch.ops.aten.convolution_backward
        dx: Tensor = back(dy, x, self._turned(w), None, *_CONVOLUTION, (True, False, False))[0][:, 0]
        (above, left), (rows, columns) = self._problem.before, self._problem.image
        if self._problem.border is Border.VALID:
            return dx.contiguous()
        if self._sources is None:
            return dx[:, above : above + rows, left : left + columns].contiguous()
        for axis, own in enumerate(self._sources, 1):
            shape = list(dx.shape)
            shape[axis] = self._problem.image[axis - 1]
            dx = dx.new_zeros(shape).index_add_(axis, torch.tensor(own, device=dx.device), dx)
        return dx

    def weight_gradient(self, x: Tensor, dy: Tensor) -> Tensor:
        """Computes the gradient of the weights."""
        w = dy.new_empty(1).expand(dy.shape[1], 1, *self._problem.filter)
        back = torch.ops.aten.convolution_backward
        dw: Tensor = back(dy, self._padded(x)[:, None], w, None, *_CONVOLUTION, (False, True, False))[1]
        return self._turned(dw[:, 0])[:, 0].contiguous()

    @property
    def _padded_size(self) -> tuple[int, int]:
        if self._problem.border is Border.VALID:
            return self._problem.image
        rows, columns = (n + taps - 1 for n, taps in zip(self._problem.image, self._problem.filter, strict=True))
        return rows, columns

    def _padded(self, x: Tensor) -> Tensor:
        if self._problem.border is Border.VALID:
            return x
        if self._sources is None:
            (above, left), (r, s) = self._problem.before, self._problem.filter
            pads = (left, s - 1 - left, above, r - 1 - above)
            return torch.nn.functional.pad(x, pads, value=self._problem.cval)
        for axis, own in enumerate(self._sources, 1):
            x = x.index_select(axis, torch.tensor(own, device=x.device))
        return x

    def _turned(self, w: Tensor) -> Tensor:
        """Weights in the layout of a convolution layer, rotated by 180 degrees if the filter convolves. It is its own
        adjoint.
        """
        return (w.flip(-2, -1) if self._problem.convolve else w)[:, None]


def sources(border: Border, size: int, before: int, taps: int) -> tuple[int, ...]:
    """Index of the image element at each position of a padded axis.

    Args:
        border: a border that repeats pixels of the image.
        size: elements of the axis.
        before: positions of padding in front of the image.
        taps: taps of the filter; the padding has taps - 1 positions in total.
    """
    return tuple(_source(border, size, place) for place in range(-before, size + taps - 1 - before))


def _source(border: Border, size: int, place: int) -> int:
    match border:
        case Border.WRAP:
            return place % size
        case Border.REFLECT:
            turned = place % (2 * size)
            return min(turned, 2 * size - 1 - turned)
        case Border.MIRROR:
            period = max(2 * (size - 1), 1)
            turned = place % period
            return min(turned, period - turned) if size > 1 else 0
        case _:
            return min(max(place, 0), size - 1)
