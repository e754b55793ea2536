"""Is a result right? Element by element, against float64."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.problem import DType
from warpsmith.tuner.operations.judge import FLOAT32_BOUND
from warpsmith.tuner.operations.reference import Reference
from warpsmith.tuner.operations.strips import for_each_strip


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """How a result compares with its reference."""

    max_error: float
    """Largest error / sum of |terms|; infinite where an element is not a number.

    The error of a float32 is |result - reference|. That of a float16, bfloat16 or uint8 is the distance from the
    reference to the nearest number that rounds to the result: none where the result is the reference rounded.
    """
    wrong: int
    """Elements over the bound."""
    message: str
    """The worst element, in one line; empty where the result is right."""

    @property
    def right(self) -> bool:
        return self.wrong == 0


def verify(result: NDArray[Any], reference: Reference, dtype: DType, bound: float = FLOAT32_BOUND) -> Verdict:
    """Compares `result`, of element type `dtype`, with its reference, both of one shape but for complex parts.

    An error is wrong where it is over `bound` times the reference's scale. Where the scale is NaN, anything is
    right: nothing is promised of an image that holds a NaN or an infinity.

    An element that is not a number is wrong: outputs are filled with NaN before a candidate runs, so it was
    never written. uint8 has none: there a fill of 255 is right where the reference is saturated.
    """
    if dtype is DType.COMPLEX64:
        result, dtype = result[..., np.newaxis].view(np.float32), DType.FLOAT32
    got, expected, scale = result.reshape(-1), reference.expected.reshape(-1), reference.scale.reshape(-1)
    strips: list[tuple[float, int, int]] = []  # the largest error of each, minus its index, elements over the bound

    def strip(part: slice) -> None:
        error = _scaled_error(got[part], expected[part], scale[part], dtype)
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
    """One line for a result of `size` elements of which some are wrong; `index` is the worst one's."""
    return f"{wrong} of {size} elements are wrong; the worst, at {index}, is {got:.9g} and should be {expected:.9g}"


def _scaled_error(
    got: NDArray[Any], expected: NDArray[np.float64], scale: NDArray[np.float64], dtype: DType
) -> NDArray[np.float64]:
    # A sum without terms (a filter of zeros) has scale 0: then only equality is right. Where the scale is not finite,
    # anything is. And a wrong kernel may have written a signalling NaN.
    with np.errstate(divide="ignore", invalid="ignore"):
        error = _error(got, expected, dtype)
        scaled = np.where(error == 0, 0.0, error / scale)
    return np.where(np.isfinite(scale), np.where(np.isnan(scaled), np.inf, scaled), 0.0)


def _error(got: NDArray[Any], expected: NDArray[np.float64], dtype: DType) -> NDArray[np.float64]:
    """What rounding to `dtype` does not explain."""
    if dtype is DType.FLOAT32:
        return np.abs(got.astype(np.float64) - expected)
    pattern = got.view(np.uint8 if dtype is DType.UINT8 else np.uint16)
    low, high = _rounding_limits(dtype)
    error: NDArray[np.float64] = np.maximum(low[pattern] - expected, expected - high[pattern])
    return np.maximum(error, 0.0)


@functools.cache
def _rounding_limits(dtype: DType) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For each bit pattern, the least and the largest number that round to it; at a tie both neighbours are right."""
    if dtype is DType.UINT8:
        value = np.arange(256.0)
        return np.where(value == 0, -np.inf, value - 0.5), np.where(value == 255, np.inf, value + 0.5)
    kind = numpy_dtype(dtype)
    halves = np.arange(65536, dtype=np.uint16).view(kind)
    lowest, highest = (np.asarray(end, kind) for end in (-np.inf, np.inf))
    # IEEE 754: overflow begins halfway from the largest, such as 65504, to this power of 2, which would be the next.
    beyond = 2.0 ** (128 if dtype is DType.BFLOAT16 else 16)
    with np.errstate(all="ignore"):  # the neighbours of the largest half and of a signalling NaN are told of
        neighbours = (np.nextafter(halves, lowest), halves, np.nextafter(halves, highest))
        below, value, above = (np.clip(each.astype(np.float64), -beyond, beyond) for each in neighbours)
        low, high = (below + value) / 2, (value + above) / 2
    return np.where(value == -beyond, -np.inf, low), np.where(value == beyond, np.inf, high)
