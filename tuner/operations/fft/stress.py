"""Signals and spectra that are hard on rounding errors; see `Judge.stress_inputs`."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.fft import Fft, Tiling
from warpsmith.generator.problem import DType, Operand
from warpsmith.tuner.operations.fft.oracle import by_transform, make_hermitian, with_border
from warpsmith.tuner.operations.judge import Operands

_OCTAVES = 20
"""Magnitudes range from 2^-20 to 2^20."""
_DRAWN_POINTS = 1 << 20
"""Number of points that are drawn; larger batches repeat them."""
_PEAK = 4.0
"""Largest frequency over the root mean square of a transform. The error bound is 1e-6 of twice the root mean square of
a result, and a float32 cannot hold a higher peak to that.
"""


def stress_fft(problem: Fft, generator: np.random.Generator) -> Operands:
    """Signals, or spectra for an inverse transform. In a product one factor is hard, and the other only rotates it in
    phase.
    """
    operand, *others = problem.inputs
    hard = _signals(problem, operand.shape, operand.dtype is DType.COMPLEX64, generator)
    return {operand.name: hard, **{each.name: _beside(problem, each, generator) for each in others}}


def _beside(problem: Fft, operand: Operand, generator: np.random.Generator) -> NDArray[np.generic]:
    """Second factor of a product, or its offset, which is small against the results."""
    if operand.dtype is DType.COMPLEX64:
        return _turns(problem, operand.shape, generator)
    return generator.random(operand.shape, np.float32) / np.float32(problem.points)


def _turns(problem: Fft, shape: tuple[int, ...], generator: np.random.Generator) -> NDArray[np.complex64]:
    """Complex numbers of magnitude 1, so that a product has the energy of its other factor."""
    turns: NDArray[np.complex64] = np.exp(2j * np.pi * generator.random(shape, np.float32)).astype(np.complex64)
    make_hermitian(problem, turns)
    return turns


def _signals(
    problem: Fft, shape: tuple[int, ...], is_complex: bool, generator: np.random.Generator
) -> NDArray[np.generic]:
    """Transforms of four kinds in turns: very different magnitudes, an impulse over faint noise, a large mean, and a
    tone.

    Mean and tone are as high as a float32 result can hold. All transforms have the same energy, since errors are
    relative to the whole result. An element that also appears in a border is divided by its number of positions:
    otherwise an impulse would be a higher peak. Planes of tiles consist of signals of the size of a tile's step: if all
    energy of a 512x512 plane were in one pixel, one of its 270 tiles would hold it all.
    """
    signal = np.zeros(shape, np.complex64 if is_complex else np.float32)
    if problem.tiling is not None and not problem.inverse:
        _fill_planes(problem.tiling, signal, is_complex, generator)
        return signal
    parts = by_transform(problem, signal) if problem.inverse else signal  # (batch, ...) in every layout
    inner = parts.shape[1:]
    drawn: NDArray[Any] = _drawn_signals(
        inner, min(len(parts), max(5, _DRAWN_POINTS // math.prod(inner) | 1)), is_complex, generator
    )
    parts[...] = drawn[np.arange(len(parts)) % len(drawn)] / _places(problem)
    if is_complex:
        make_hermitian(problem, signal)
    if problem.together is not None and problem.product is None:
        _set_apart(parts.reshape(problem.batch // problem.together, -1, *inner), generator)
    return signal


def _set_apart(groups: NDArray[Any], generator: np.random.Generator) -> None:
    """Makes one group of related signals a million times as large as the others, and puts a NaN into another one: no
    transform may let the other groups be affected. With two groups it does one or the other.
    """
    large, spoilt = generator.choice(len(groups), 2, replace=False)
    is_large = len(groups) > 2 or generator.random() < 0.5
    if is_large:
        groups[large] *= np.float32(2.0**_OCTAVES)
    if len(groups) > 2 or not is_large:
        at = tuple(generator.integers(0, size) for size in groups.shape[1:])
        groups[(spoilt, *at)] = np.nan


def _fill_planes(tiling: Tiling, planes: NDArray[Any], is_complex: bool, generator: np.random.Generator) -> None:
    """Fills planes with signals of the size of a tile's step, side by side."""
    count = [math.ceil(points / step) for points, step in zip(tiling.plane, tiling.step, strict=True)]
    most = max(5, _DRAWN_POINTS // math.prod(tiling.step) | 1)
    drawn = _drawn_signals(tiling.step, min(len(planes) * math.prod(count), most), is_complex, generator)
    for number, at in enumerate(np.ndindex(*count)):
        there = tuple(slice(n * step, (n + 1) * step) for n, step in zip(at, tiling.step, strict=True))
        target = planes[(slice(None), *there)]
        chosen = (np.arange(len(planes)) * math.prod(count) + number) % len(drawn)
        target[...] = drawn[chosen][(slice(None), *map(slice, target.shape[1:]))]


def _places(problem: Fft) -> NDArray[np.float32]:
    """Number of points at which each element of a signal appears."""
    if problem.border is None:
        return np.ones((), np.float32)
    axes = (
        np.bincount(with_border(problem, np.arange(there), (axis,))) for axis, there in enumerate(problem.signal_size)
    )
    return functools.reduce(np.multiply.outer, axes).astype(np.float32)


def _drawn_signals(
    inner: tuple[int, ...], count: int, is_complex: bool, generator: np.random.Generator
) -> NDArray[np.generic]:
    """`count` signals of shape `inner`."""
    points = math.prod(inner)
    deviates = generator.standard_normal((count, *inner, 2), np.float32)
    noise = deviates.view(np.complex64)[..., 0] if is_complex else deviates[..., 0]
    uniform = generator.random((count, *inner), np.float32)
    batch = np.arange(count)
    turn = batch % 4
    wide = noise * np.exp2((2 * uniform - 1) * _OCTAVES)
    impulse = noise * np.float32(2.0**-20)
    at = np.unravel_index(generator.integers(0, points, count), inner)
    impulse[(batch, *at)] = 1
    # The mean's frequency is `height * points`, over a root mean square of sqrt(points) * sqrt(1 + height^2).
    height = np.float32(_PEAK / math.sqrt(max(points - _PEAK**2, 1.0)) if points > _PEAK**2 else 1.0)
    phase = sum(
        (2 * np.pi * generator.integers(0, size, count).reshape(-1, *(1,) * len(inner)) / size)
        * np.arange(size).reshape([-1 if axis == i else 1 for i in range(len(inner))])
        for axis, size in enumerate(inner)
    )
    tone = noise + height * (np.exp(1j * phase) if is_complex else np.sqrt(2) * np.cos(phase))
    dtype = np.complex64 if is_complex else np.float32
    choices = [kind.astype(dtype) for kind in (wide, impulse, noise + height, tone)]
    drawn = np.choose(turn.reshape(-1, *(1,) * len(inner)), choices)
    energy = np.sqrt((np.abs(drawn.astype(np.complex128)) ** 2).mean(axis=tuple(range(1, drawn.ndim)), keepdims=True))
    return np.asarray(drawn / energy, dtype)
