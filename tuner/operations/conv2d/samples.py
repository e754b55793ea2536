"""Single results of `conv2d` in float64, each by a direct sum over its own terms."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d
from warpsmith.tuner.operations.conv2d.padding import standing, window
from warpsmith.tuner.operations.reference import Operands, Samples

Terms = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Factors of one result's products, two arrays of one shape."""
Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


def samples(problem: Conv2d, operands: Operands, indices: NDArray[np.int64]) -> Samples:
    """Results with these indices, in C order of the output's shape."""
    terms_of = problem.pass_.select(_fprop, _dgrad, _wgrad)
    expected, scale = np.empty(len(indices)), np.empty(len(indices))
    for number, place in enumerate(zip(*np.unravel_index(indices, problem.output.shape), strict=True)):
        a, b = terms_of(problem, operands, *map(int, place))
        bias = float(operands["b"][place[1]]) if problem.bias else 0.0
        expected[number] = np.vdot(a, b) + bias
        scale[number] = np.vdot(np.abs(a), np.abs(b)) + abs(bias)
    if problem.relu:
        expected = np.maximum(expected, 0.0)
    return Samples(indices, expected, scale)


def _fprop(problem: Conv2d, operands: Operands, n: int, k: int, p: int, q: int) -> Terms:
    channels = _channels_of(problem, k)
    rows, columns = (_pixels(problem, axis, at) for axis, at in enumerate((p, q)))
    return window(operands["x"][n, channels], rows, columns, _wide), _wide(operands["w"][k])


def _dgrad(problem: Conv2d, operands: Operands, n: int, c: int, h: int, w: int) -> Terms:
    group = c // problem.group_channels
    filters = slice(group * problem.group_filters, (group + 1) * problem.group_filters)
    (ps, rs), (qs, ss) = (_meetings(problem, axis, at) for axis, at in enumerate((h, w)))
    gradients = operands["dy"][n, filters][:, ps[:, None], qs[None, :]]
    weights = operands["w"][filters, c % problem.group_channels][:, rs[:, None], ss[None, :]]
    return _wide(gradients), _wide(weights)


def _wgrad(problem: Conv2d, operands: Operands, k: int, c: int, r: int, s: int) -> Terms:
    channel = _channels_of(problem, k).start + c
    rows, columns = (
        standing(problem, axis)[at * dilation :][: (size - 1) * stride + 1 : stride]
        for axis, (at, dilation, stride, size) in enumerate(
            zip((r, s), problem.dilation, problem.stride, problem.output_size, strict=True)
        )
    )
    return window(operands["x"][:, channel], rows, columns, _wide), _wide(operands["dy"][:, k])


def _channels_of(problem: Conv2d, filter_: int) -> slice:
    group = filter_ // problem.group_filters
    return slice(group * problem.group_channels, (group + 1) * problem.group_channels)


def _wide(values: NDArray[Any]) -> NDArray[np.float64]:
    return values.astype(np.float64)


def _pixels(problem: Conv2d, axis: int, at: int) -> NDArray[np.int64]:
    """Rows or columns of x that the taps of a result read."""
    places = at * problem.stride[axis] + np.arange(problem.weight[2 + axis]) * problem.dilation[axis]
    return np.asarray(standing(problem, axis)[places])


def _meetings(problem: Conv2d, axis: int, at: int) -> Pairs:
    """Rows or columns of y that a pixel of x contributes to, each with the tap that it uses."""
    taps = np.arange(problem.weight[2 + axis])
    places = np.flatnonzero(standing(problem, axis) == at)
    steps = places[:, None] - taps[None, :] * problem.dilation[axis]
    there = steps // problem.stride[axis]
    meets = (steps % problem.stride[axis] == 0) & (steps >= 0) & (there < problem.output_size[axis])
    _, which = np.nonzero(meets)
    return there[meets], taps[which]
