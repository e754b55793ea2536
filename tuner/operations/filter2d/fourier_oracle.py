"""Float64 references of large filters by NumPy's Fourier transforms, where sums over taps would take minutes.

An image is padded by its border first, and transformed in strips of rows; only discarded rows wrap around. Errors are
some 1e-16 of the strip's largest pixel times the filter's gain, so the scale must be at least as large as that.

Source: the correlation theorem; overlap-save (Stockham 1966), in rows alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Accuracy
from warpsmith.tuner.operations.lengths import quick_length
from warpsmith.tuner.operations.strips import STRIP_BYTES, for_each_strip

Steps = tuple[NDArray[np.int64], NDArray[np.int64]]

_LARGE = 1 << 33
"""Multiply-adds over taps above which this way is faster: direct sums of so many take about two seconds on 16 cores."""
_LEAST_ROWS = 256
"""Least number of rows of a strip, including padding."""


def is_by_transforms(problem: Filter2d) -> bool:
    """True if the reference of a problem is computed here."""
    return problem.accuracy is Accuracy.IMAGEWISE and problem.flops // 2 > _LARGE


def correlate(
    padded: NDArray[Any],
    weights: NDArray[np.float64],
    steps: Steps,
    target: NDArray[np.float64],
    *,
    absolute: bool,
    room: int,
) -> None:
    """Writes to target[y, x] the sum over r, s of weights[r, s] * padded[y + steps[0][r], x + steps[1][s]].

    Args:
        padded: rows and elements of an image, including every pixel that a window can read.
        weights: the filter, R rows and S columns.
        steps: offset of each filter row downwards and of each filter column to the right, 0 or more.
        target: rows and elements of the result.
        absolute: use |weights| and |padded|, which gives the sum of |terms|.
        room: bytes that all threads may take together.
    """
    (rows, elements), (reach, beyond) = target.shape, (int(each.max()) for each in steps)
    size = (quick_length(max(_LEAST_ROWS, 4 * reach)), quick_length(elements + beyond))
    taps = np.zeros((reach + 1, beyond + 1))
    taps[np.ix_(*steps)] = np.abs(weights) if absolute else weights
    factor = np.fft.rfft2(taps, size).conj()
    step = size[0] - reach

    def strips(numbers: slice) -> None:
        for top in range(numbers.start * step, min(numbers.stop * step, rows), step):
            count = min(step, rows - top)
            window = padded[top : top + count + reach].astype(np.float64)
            found = np.fft.irfft2(np.fft.rfft2(np.abs(window) if absolute else window, size) * factor, size)
            target[top : top + count] = found[:count, :elements]

    # Bytes of a window and its magnitudes, its spectrum, the product, and the inverse transform.
    scratch = 5 * 8 * (size[0] + 2) * (size[1] + 2)
    for_each_strip(math.ceil(rows / step), STRIP_BYTES, strips, scratch_bytes=scratch, room=room)
