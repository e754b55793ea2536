"""Scales of the errors of results, by the problem's accuracy."""

from __future__ import annotations

from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.work import Work
from warpsmith.generator.bounds import PEAK
from warpsmith.generator.filter2d import Border, Filter2d
from warpsmith.generator.first_use.reference import Entry, Scale
from warpsmith.generator.problem import Problem
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
            return np.maximum(sums.magnitude, _gains(problem, kernels, work, data, samples))
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


def _gains(
    problem: Problem, kernels: ReferenceKernels, work: Work, data: Data, samples: Samples
) -> NDArray[np.float64]:
    """Largest gain of each sample's filter times the largest |pixel| of its plane, including the border's constant."""
    assert isinstance(problem, Filter2d)
    image, weights, result = problem.operands
    rows, columns = problem.image
    row_bytes = problem.pitch or columns * problem.channels * image.dtype.itemsize
    around = abs(problem.cval) if problem.border is Border.CONSTANT else 0.0
    pixels = np.empty(len(samples.index))
    for plane in np.unique(samples.group):
        target = data.inputs[image.name] + int(plane) * rows * row_bytes
        moments = kernels.moments(work, Entry.INPUT_MOMENTS, target, rows, columns * problem.channels, row_bytes)
        pixels[samples.group == plane] = max(moments.largest, around)
    if weights.name in data.known:
        taps = np.asarray(data.known[weights.name], np.float64)
    else:
        there = np.empty(weights.shape, np.float32)
        work.download(there, data.inputs[weights.name])
        taps = there.astype(np.float64)
    plane_results = result.size // (problem.planes * problem.filters)
    filters = samples.index // plane_results % problem.filters
    fineness = _FINE if problem.filter[0] * problem.filter[1] <= _SMALL else _COARSE
    grid = tuple(fineness * size for size in problem.filter)
    shaped = taps.reshape(problem.filters, *problem.filter)
    gains = {int(each): float(np.abs(np.fft.rfft2(shaped[each], grid)).max()) for each in np.unique(filters)}
    return np.array([gains[int(each)] for each in filters]) * pixels
