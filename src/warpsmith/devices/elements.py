"""Element types as NumPy's, and errors of results beyond the rounding to their type."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.problem import DType


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """NumPy's dtype. The package ml_dtypes registers bfloat16 with NumPy when it is loaded."""
    if dtype is DType.BFLOAT16:
        importlib.import_module("ml_dtypes")
    return np.dtype(dtype.value)


def scaled_error(
    got: NDArray[Any], expected: NDArray[np.float64], scale: NDArray[np.float64], dtype: DType
) -> NDArray[np.float64]:
    """Errors divided by their scales, without the part that rounding to `dtype` explains. Infinite if a result is no
    number.
    """
    # A sum without terms (a filter of zeros) has scale 0: then only equality is right. Nothing is checked if the scale
    # is NaN, or if neither the scale nor the expected result is finite. A wrong kernel may have written a signalling
    # NaN.
    with np.errstate(divide="ignore", invalid="ignore"):
        error = _error(got, expected, dtype)
        scaled = np.where(error == 0, 0.0, error / scale)
    is_checked = ~np.isnan(scale) & (np.isfinite(scale) | np.isfinite(expected))
    return np.where(is_checked, np.where(np.isnan(scaled), np.inf, scaled), 0.0)


def _error(got: NDArray[Any], expected: NDArray[np.float64], dtype: DType) -> NDArray[np.float64]:
    """Part of the error that rounding to `dtype` does not explain."""
    if dtype is DType.FLOAT32:
        return np.abs(got.astype(np.float64) - expected)
    pattern = got.view(np.uint8 if dtype is DType.UINT8 else np.uint16)
    low, high = _rounding_limits(dtype)
    error: NDArray[np.float64] = np.maximum(low[pattern] - expected, expected - high[pattern])
    return np.maximum(error, 0.0)


@functools.cache
def _rounding_limits(dtype: DType) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest number that round to each bit pattern; a tie belongs to both neighbours."""
    if dtype is DType.UINT8:
        value = np.arange(256.0)
        return np.where(value == 0, -np.inf, value - 0.5), np.where(value == 255, np.inf, value + 0.5)
    if dtype is DType.INT16:
        value = np.arange(65536).astype(np.uint16).view(np.int16).astype(np.float64)
        return value - 0.5, value + 0.5
    kind = numpy_dtype(dtype)
    numbers = np.arange(65536, dtype=np.uint16).view(kind)
    lowest, highest = (np.asarray(end, kind) for end in (-np.inf, np.inf))
    # IEEE 754: overflow begins halfway between the largest number, such as 65504, and the next power of 2.
    beyond = 2.0 ** (128 if dtype is DType.BFLOAT16 else 16)
    with np.errstate(all="ignore"):  # numpy warns about the neighbours of the largest half and of a signalling NaN
        neighbours = (np.nextafter(numbers, lowest), numbers, np.nextafter(numbers, highest))
        below, value, above = (np.clip(each.astype(np.float64), -beyond, beyond) for each in neighbours)
        low, high = (below + value) / 2, (value + above) / 2
    return np.where(value == -beyond, -np.inf, low), np.where(value == beyond, np.inf, high)
