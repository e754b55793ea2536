"""Single results of `fft` in float64, each by a direct sum."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.fft import Fft, Layout, Tiling
from warpsmith.tuner.operations.fft.oracle import by_transform, reordered, signal_part, with_border
from warpsmith.tuner.operations.reference import Operands, Samples

Complex = NDArray[np.complex128]


def samples(problem: Fft, operands: Operands, indices: NDArray[np.int64]) -> Samples:
    """Results with these indices of real numbers; complex results have real and imaginary parts side by side. The scale
    of a transform does not depend on a result's own terms, so the least scale is 0.
    """
    find = _point if problem.inverse else _frequency
    parts = problem.output.components != problem.output
    expected = np.empty(len(indices))
    for number, index in enumerate(indices):
        element, part = divmod(int(index), 2) if parts else (int(index), 0)
        total = find(problem, operands, tuple(map(int, np.unravel_index(element, problem.output.shape))))
        expected[number] = total.imag if part else total.real
    return Samples(indices, expected, np.zeros(len(indices)))


def _frequency(problem: Fft, operands: Operands, place: tuple[int, ...]) -> complex:
    transform, *at = _spectrum_place(problem, place)
    signal = operands[problem.inputs[0].name]
    own = signal[transform][None] if problem.tiling is None else _tile(problem, problem.tiling, signal, transform)[None]
    whole = np.zeros((1, *problem.size), np.complex128)
    whole[signal_part(problem)] = with_border(problem, own, range(len(problem.size)))
    frequency = [_natural(problem, axis, number) for axis, number in enumerate(at)]
    return problem.scale * complex((whole[0] * _wave(problem, tuple(frequency), -1)).sum())


def _tile(problem: Fft, tiling: Tiling, planes: NDArray[Any], transform: int) -> NDArray[Any]:
    """Signal of one transform. `tiles_of` would go through all tiles of a plane, which takes 4 ms for 270 of them."""
    found = np.zeros(problem.signal_size, planes.dtype)
    outer, rest = divmod(transform, tiling.tiles * tiling.inner)
    tile, inner = divmod(rest, tiling.inner)
    begins = [
        int(number) * step + origin
        for number, step, origin in zip(np.unravel_index(tile, tiling.count), tiling.step, tiling.origin, strict=True)
    ]
    firsts = [max(0, -begin) for begin in begins]
    ends = [min(size, whole - begin) for size, whole, begin in zip(found.shape, tiling.plane, begins, strict=True)]
    if all(first < end for first, end in zip(firsts, ends, strict=True)):
        inside = tuple(slice(first, end) for first, end in zip(firsts, ends, strict=True))
        there = tuple(slice(b + first, b + end) for b, first, end in zip(begins, firsts, ends, strict=True))
        found[inside] = planes[outer * tiling.inner + inner][there]
    return found


def _point(problem: Fft, operands: Operands, place: tuple[int, ...]) -> complex:
    transform, at = _signal_place(problem, place)
    spectra = by_transform(problem, operands[problem.inputs[0].name])[transform : transform + 1]
    spectrum = reordered(problem, spectra)[0].astype(np.complex128)
    wave = _wave(problem, at, 1)
    if not problem.is_real:
        return problem.scale * complex((spectrum * wave).sum())
    columns = np.arange(problem.spectrum_size[-1])
    once = (columns == 0) | (2 * columns == problem.size[-1])
    terms = spectrum * wave[..., : len(columns)]
    return problem.scale * float((terms.real * np.where(once, 1.0, 2.0)).sum())


def _wave(problem: Fft, at: tuple[int, ...], sign: int) -> Complex:
    """The wave exp(sign 2 pi i j k / n) over all points of a transform."""
    axes = [
        np.exp(sign * 2j * np.pi * (np.arange(points) * number % points) / points)
        for points, number in zip(problem.size, at, strict=True)
    ]
    return np.asarray(functools.reduce(np.multiply.outer, axes))


def _spectrum_place(problem: Fft, place: tuple[int, ...]) -> tuple[int, ...]:
    """Transform, row and column of an element of a spectrum."""
    match problem.layout:
        case Layout.FREQUENCY:
            return (place[-1], *place[:-1])
        case Layout.TRANSPOSED:
            return (place[0], *place[:0:-1])
        case _:
            return place


def _natural(problem: Fft, axis: int, place: int) -> int:
    """Frequency at a position of an axis."""
    shape = (1, *problem.spectrum_size)
    line = np.arange(shape[1 + axis]).reshape([-1 if each == axis + 1 else 1 for each in range(len(shape))])
    found = np.moveaxis(reordered(problem, np.broadcast_to(line, shape)), axis + 1, -1)
    return int(found.reshape(-1, shape[axis + 1])[0, place])


def _signal_place(problem: Fft, place: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Transform, and point along each axis, of an element of a signal."""
    transform, at, tiling = place[0], place[1:], problem.tiling
    if tiling is not None:
        tile = 0
        for number, step, count in zip(at, tiling.step, tiling.count, strict=True):
            tile = tile * count + number // step
        outer, inner = divmod(transform, tiling.inner)
        transform = (outer * tiling.tiles + tile) * tiling.inner + inner
        at = tuple(number % step for number, step in zip(at, tiling.step, strict=True))
    start = problem.start or (0,) * len(at)
    points = zip(at, start, problem.size, strict=True)
    return transform, tuple((number + first) % size for number, first, size in points)
