"""Verification of a result on the host, element by element, against float64."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.rounding import scaled_error
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.judge import FLOAT32_BOUND, Reference
from warpsmith.tuner.operations.strips import for_each_strip


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Comparison of a result with its reference."""

    max_error: float
    """Largest error / sum of |terms|; infinite if an element is not a number.

    The error of a float32 is |result - reference|. The error of a float16, bfloat16 or uint8 is the distance from the
    reference to the nearest number that rounds to the result, so it is zero if the result is the rounded reference.
    """
    wrong: int
    """Number of elements over the bound."""
    message: str
    """Message about the worst element, in one line; empty if the result is right."""

    @property
    def right(self) -> bool:
        return self.wrong == 0


def verify(result: NDArray[Any], reference: Reference, dtype: DType, bound: float = FLOAT32_BOUND) -> Verdict:
    """Compares `result`, of element type `dtype`, with its reference of the same shape, which holds complex parts
    separately.

    An element is wrong if its error exceeds `bound` times the reference's scale. If the scale is NaN, any value is
    right: nothing is promised for an image that holds a NaN or an infinity.

    An element that is not a number is wrong: outputs are filled with NaN before a candidate runs, so it was never
    written. uint8 has no NaN: a fill of 255 is right wherever the reference is saturated.
    """
    if dtype is DType.COMPLEX64:
        result, dtype = result[..., np.newaxis].view(np.float32), DType.FLOAT32
    got, expected, scale = result.reshape(-1), reference.expected.reshape(-1), reference.scale.reshape(-1)
    strips: list[tuple[float, int, int]] = []  # per strip: the largest error, minus its index, elements over the bound

    def strip(part: slice) -> None:
        error = scaled_error(got[part], expected[part], scale[part], dtype)
        worst = int(error.argmax())
        strips.append((float(error[worst]), -part.start - worst, int(np.count_nonzero(error > bound))))

    for_each_strip(got.size, 8, strip)
    max_error, place, _ = max(strips)
    total = sum(wrong for _, _, wrong in strips)
    if total == 0:
        return Verdict(max_error, 0, "")
    index = tuple(int(i) for i in np.unravel_index(-place, result.shape))
    message = wrong_message(total, result.size, index, float(got[-place]), float(expected[-place]))
    return Verdict(max_error, total, message)


def wrong_message(wrong: int, size: int, index: tuple[int, ...], got: float, expected: float) -> str:
    """Message for a result of `size` elements of which `wrong` are wrong; `index` is that of the worst one."""
    return f"{wrong} of {size} elements are wrong; the worst, at {index}, is {got:.9g} and should be {expected:.9g}"
