"""Scales of the errors of results, by the problem's accuracy."""

from __future__ import annotations

from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.runtime import Work
from warpsmith.generator.first_use.reference import Entry, Planes, Scale
from warpsmith.generator.problem import PEAK, Problem
from warpsmith.plans.first_use.data import Data
from warpsmith.plans.first_use.kernels import ReferenceKernels, Sums
from warpsmith.plans.first_use.samples import Samples

_FINE, _COARSE = 8, 2
"""Frequencies per tap at which a filter's gain is sampled, for small and for large filters."""
_SMALL = 1024
"""Largest number of taps of a small filter."""


def scales_of(
    problem: Problem, kernels: ReferenceKernels, work: Work, data: Data, samples: Samples, sums: Sums
) -> NDArray[np.float64]:
    """Scale that divides each sample's error."""
    match kernels.reference.scale:
        case Scale.TERMS:
            return sums.magnitude
        case Scale.WINDOW:
            return sums.magnitude * sums.largest
        case Scale.PLANE:
            return np.maximum(sums.magnitude, _gains(kernels, work, data, samples))
        case Scale.NORM:
            return np.maximum(sums.magnitude, PEAK * _rms(problem, kernels, work, data, samples, sums))
        case Scale.RMS:
            return PEAK * _rms(problem, kernels, work, data, samples, sums)


def _rms(
    problem: Problem, kernels: ReferenceKernels, work: Work, data: Data, samples: Samples, sums: Sums
) -> NDArray[np.float64]:
    """Root mean square of the real numbers of each sample's group, read from memory.

    A wrong result can raise it at most to its own size, so that it stays wrong. If the mean square is not finite, it is
    taken from the samples' expected values.
    """
    output, groups = problem.output, kernels.reference.groups
    numbers = output.components.size // groups
    nbytes = output.nbytes // groups
    found = np.empty(len(samples.group))
    parts = 1 if output == output.components else 2
    own = sqrt(float(np.square(sums.expected).sum()) / (parts * len(sums.expected)))
    for group in np.unique(samples.group):
        target = data.result + int(group) * nbytes
        moments = kernels.moments(work, Entry.RESULT_MOMENTS, target, 1, numbers, nbytes)
        found[samples.group == group] = sqrt(moments.mean_square) if isfinite(moments.mean_square) else own
    return found


def _gains(kernels: ReferenceKernels, work: Work, data: Data, samples: Samples) -> NDArray[np.float64]:
    """Largest gain of each sample's filter times the largest |pixel| of its plane, including the border's constant."""
    (image, weights, _), planes = kernels.reference.inputs, kernels.reference.planes
    assert planes is not None  # the scale is PLANE
    pixels = np.empty(len(samples.index))
    for plane in np.unique(samples.group):
        target = data.inputs[image] + int(plane) * planes.rows * planes.row_bytes
        moments = kernels.moments(work, Entry.INPUT_MOMENTS, target, planes.rows, planes.row_elements, planes.row_bytes)
        pixels[samples.group == plane] = max(moments.largest, planes.outside)
    filters = samples.index // planes.results % planes.filters
    fineness = _FINE if planes.filter[0] * planes.filter[1] <= _SMALL else _COARSE
    grid = tuple(fineness * size for size in planes.filter)
    shaped = _taps(weights, planes, work, data)
    gains = {int(each): float(np.abs(np.fft.rfft2(shaped[each], grid)).max()) for each in np.unique(filters)}
    return np.array([gains[int(each)] for each in filters]) * pixels


def _taps(weights: str, planes: Planes, work: Work, data: Data) -> NDArray[np.float64]:
    """The filters, of shape (filters, rows, columns)."""
    shape = planes.filters, *planes.filter
    if weights in data.known:
        return np.asarray(data.known[weights], np.float64).reshape(shape)
    taps = np.empty(shape, np.float32)
    work.download(taps, data.inputs[weights])
    return taps.astype(np.float64)
