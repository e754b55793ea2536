"""Random images and weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import DType, Operand
from warpsmith.tuner.operations.drawing import deviates, drawn, fractions, random_bytes
from warpsmith.tuner.operations.reference import Operands


def random_filter2d(problem: Filter2d, generator: np.random.Generator) -> Operands:
    """Random image and weights.

    Pixels are normal deviates. If the image or the result is uint8, pixels spread over 0 to 255 and, for a uint8
    result, filters sum to 1.1, so that most results fall inside that range, and some on either side.
    """
    image, weights, result = problem.operands
    is_bytes = DType.UINT8 in (image.dtype, result.dtype)
    pixels = _pixels(image, generator) if is_bytes else drawn(image.shape, np.float32, generator, deviates)
    taps = generator.standard_normal(weights.shape, dtype=np.float32)
    return {
        image.name: pixels.astype(str(image.dtype), copy=False),
        weights.name: _spreading(taps) if result.dtype is DType.UINT8 else taps,
    }


def _pixels(operand: Operand, generator: np.random.Generator) -> NDArray[Any]:
    """Pixels uniform over the range of uint8, with fractions if the image is not uint8."""
    if operand.dtype is DType.UINT8:
        return drawn(operand.shape, np.uint8, generator, random_bytes)
    return drawn(operand.shape, np.float32, generator, fractions)


def _spreading(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scales normal deviates to filters that sum to 1.1 and keep the spread of uniform pixels.

    A result is then 140 on average with a standard deviation of 74: 3% are under 0 and 6% above 255. Each filter is
    scaled by itself: four deviates may lie so close together that nothing would leave the range.
    """
    taps = weights.shape[-2] * weights.shape[-1]
    around = weights - weights.mean(axis=(-2, -1), keepdims=True)
    norm = np.linalg.norm(around, axis=(-2, -1), keepdims=True)  # zero for a single tap
    return np.asarray(around / np.where(norm > 0, norm, 1) + np.float32(1.1 / taps), dtype=np.float32)
