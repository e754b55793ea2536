"""Is a result right? Element by element, against float64."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.problem import DType
from warpsmith.tuner.oracle import Reference, for_each_strip

ERROR_BOUND = {DType.FLOAT32: 1e-6}
"""Largest |result - reference| over the sum of |terms|. Sums of up to 5000 float32 products stay under 2.3e-7."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """How a result compares with its reference."""

    max_error: float
    """Largest |result - reference| / sum of |terms|; infinite where an element is not a number."""
    wrong: int
    """Elements over the bound."""
    message: str
    """The worst element, in one line; empty where the result is right."""

    @property
    def right(self) -> bool:
        return self.wrong == 0


def verify(result: NDArray[Any], reference: Reference, dtype: DType) -> Verdict:
    """Compares `result` with its reference, both of one shape.

    An element that is not a number is wrong: outputs are filled with NaN before a candidate runs, so it was
    never written.
    """
    bound = ERROR_BOUND[dtype]
    rows = result.shape[-2] * (result.shape[0] if result.ndim > 2 else 1)
    got = result.reshape(rows, -1)
    expected = reference.expected.reshape(rows, -1)
    scale = reference.scale.reshape(rows, -1)
    worst = np.zeros(rows)  # of each row
    wrong = np.zeros(rows, dtype=np.int64)

    def strip(part: slice) -> None:
        error = _scaled_error(got[part], expected[part], scale[part])
        worst[part] = error.max(axis=1)
        wrong[part] = np.count_nonzero(error > bound, axis=1)

    for_each_strip(rows, got.shape[1] * 8, strip)
    total = int(wrong.sum())
    if total == 0:
        return Verdict(float(worst.max()), 0, "")
    row = int(worst.argmax())
    column = int(_scaled_error(got[row], expected[row], scale[row]).argmax())
    index = tuple(int(i) for i in np.unravel_index(row * got.shape[1] + column, result.shape))
    message = (
        f"{total} of {result.size} elements are wrong; the worst, at {index}, "
        f"is {got[row, column]:.9g} and should be {expected[row, column]:.9g}"
    )
    return Verdict(float(worst[row]), total, message)


def _scaled_error(got: NDArray[Any], expected: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    difference = np.abs(got.astype(np.float64) - expected)
    # A sum without terms (a filter of zeros) has scale 0: then only equality is right.
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(difference == 0, 0.0, difference / scale)
    return np.where(np.isnan(error), np.inf, error)
