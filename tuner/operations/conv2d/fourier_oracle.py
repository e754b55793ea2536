"""Large layers in float64 by NumPy's Fourier transforms, where sums over taps would take minutes.

Images are padded first and nothing wraps around, unlike in the kernels that are judged by it. Errors
are some 1e-16 of the whole result's root mean square: good for a scale that is at least as large as that, and for no
other.

Source: the correlation and the convolution theorem.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.conv2d import Conv2d, Pass
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.conv2d.padding import folded, padded
from warpsmith.tuner.operations.lengths import quick_length
from warpsmith.tuner.operations.strips import STRIP_BYTES, for_each_strip

Values = NDArray[np.float64]
Spectra = NDArray[np.complex128]
Numbers = Callable[[NDArray[Any]], Values]

_LARGE = 1 << 31
"""Multiply-adds over taps from which on this is quicker: those take about two seconds on 16 cores."""
_TOGETHER = 8
"""Images of one product of matrices."""


def is_by_transforms(problem: Conv2d) -> bool:
    """Whether the reference of a problem is made here."""
    taps = math.prod(problem.weight[2:])
    is_plain = problem.stride == problem.dilation == (1, 1) and problem.groups == 1
    return is_plain and problem.accuracy is Accuracy.NORMWISE and taps > 1 and problem.flops // 2 > _LARGE


def by_transforms(problem: Conv2d, operands: Mapping[str, NDArray[Any]], of: Numbers) -> Values:
    """The result of a pass, with `of` applied to all inputs."""
    given = {name: of(values) for name, values in operands.items()}
    work = {Pass.FPROP: _fprop, Pass.DGRAD: _dgrad, Pass.WGRAD: _wgrad}[problem.pass_]
    return work(problem, _Plane.of(problem), given)


class _Plane:
    """Transforms of planes of one size, and back."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size

    @classmethod
    def of(cls, problem: Conv2d) -> _Plane:
        """Large enough for a padded image, and so for what a gradient and a filter make."""
        rows, columns = map(quick_length, problem.padded_size)
        return cls((rows, columns))

    def spectra(self, planes: Values) -> Spectra:
        """(frequencies, *planes) of (*planes, rows, columns)."""
        found = np.fft.rfft2(planes, s=self.size)
        return np.ascontiguousarray(np.moveaxis(found.reshape(*found.shape[:-2], -1), -1, 0))

    def planes(self, spectra: Spectra) -> Values:
        """The way back."""
        half = (self.size[0], self.size[1] // 2 + 1)
        found = np.moveaxis(spectra, 0, -1).reshape(*spectra.shape[1:], *half)
        return np.fft.irfft2(found, s=self.size)


def _fprop(problem: Conv2d, plane: _Plane, given: Mapping[str, Values]) -> Values:
    weights = plane.spectra(given["w"]).conj()  # (frequencies, filters, channels)
    rows, columns = problem.output_size
    result = np.empty(problem.output.shape)

    def images(part: slice) -> None:
        x = plane.spectra(padded(problem, given["x"][part]))
        result[part] = plane.planes(x @ weights.swapaxes(1, 2))[..., :rows, :columns]
        if problem.bias:
            result[part] += given["b"][:, None, None]

    _each_part(problem, images)
    return result


def _dgrad(problem: Conv2d, plane: _Plane, given: Mapping[str, Values]) -> Values:
    weights = plane.spectra(given["w"])
    rows, columns = problem.padded_size
    result = np.empty(problem.output.shape)

    def images(part: slice) -> None:
        gradients = plane.planes(plane.spectra(given["dy"][part]) @ weights)[..., :rows, :columns]
        result[part] = folded(problem, gradients)
        if problem.bias:
            result[part] += given["b"][:, None, None]

    _each_part(problem, images)
    return result


def _wgrad(problem: Conv2d, plane: _Plane, given: Mapping[str, Values]) -> Values:
    rows, columns = problem.weight[2:]
    total = np.zeros((plane.size[0] * (plane.size[1] // 2 + 1), *problem.weight[:2]), np.complex128)
    lock = threading.Lock()

    def images(part: slice) -> None:
        x = plane.spectra(padded(problem, given["x"][part]))
        product = plane.spectra(given["dy"][part]).conj().swapaxes(1, 2) @ x
        with lock:
            np.add(total, product, out=total)

    _each_part(problem, images)
    return np.ascontiguousarray(plane.planes(total)[..., :rows, :columns])


def _each_part(problem: Conv2d, work: Callable[[slice], None]) -> None:
    """Some images at a time, on many cores."""

    def parts(numbers: slice) -> None:
        for number in range(numbers.start, numbers.stop):
            work(slice(number * _TOGETHER, (number + 1) * _TOGETHER))

    for_each_strip(math.ceil(problem.input[0] / _TOGETHER), STRIP_BYTES, parts)
