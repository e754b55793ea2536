"""References of results: float64 values, and the scale of their errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Operands = Mapping[str, NDArray[Any]]
"""Input arrays of a problem by name."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """Expected float64 values of one result, and the scale that divides each element's error.

    The scale is the sum of the element's |terms| by default. A filter that is only accurate in norm takes the sum of
    its absolute weights times the window's largest absolute pixel, and a Fourier transform takes twice the root mean
    square of its result. Complex results are stored as real and imaginary parts, side by side in an additional
    dimension.
    """

    expected: NDArray[np.float64]
    scale: NDArray[np.float64]


References = Mapping[str, Reference]
"""References of a problem's results by operand name."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Single results of a problem, each by a direct float64 sum."""

    indices: NDArray[np.int64]
    """Indices in C order; for complex results, indices of real and imaginary parts."""
    expected: NDArray[np.float64]
    least_scale: NDArray[np.float64]
    """Lower bound of each result's scale: the sum of its |terms| for most operations, 0 for Fourier transforms."""
