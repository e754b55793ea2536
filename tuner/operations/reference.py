"""What results are held against: float64 values, and what their errors are relative to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Operands = Mapping[str, NDArray[Any]]
"""The input arrays of a problem by name."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What one result must be: float64 values, and for each what its error is measured against.

    That is the sum of its |terms| where nothing else is said: a filter that is accurate in norm only takes the sum of
    |weights| times the window's largest |pixel|, a Fourier transform twice the root mean square of its result. Complex
    results are real and imaginary parts, side by side in one dimension more.
    """

    expected: NDArray[np.float64]
    scale: NDArray[np.float64]


References = Mapping[str, Reference]
"""One for each result of a problem, by its operand's name."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Some results of a problem by direct float64 sums, one by one."""

    indices: NDArray[np.int64]
    """Their numbers in C order; of complex results those of real and imaginary parts."""
    expected: NDArray[np.float64]
    least_scale: NDArray[np.float64]
    """The sum of each one's |terms|: its scale, or less."""
