"""Judge of image filters, and the random images and weights that it draws."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.device import DeviceKind
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import DType, Operand
from warpsmith.generator.reference.filter2d import Filter2dReference
from warpsmith.tuner.operations.drawing import deviates, drawn, fractions, random_bytes
from warpsmith.tuner.operations.filter2d.oracle import reference_filter2d, samples
from warpsmith.tuner.operations.filter2d.peers import gpu_makers, scipy_makers
from warpsmith.tuner.operations.filter2d.stress import stress_filter2d, stress_slack
from warpsmith.tuner.operations.judge import Judge, Operands, References, Samples
from warpsmith.tuner.operations.peer import PeerMaker

_BEYOND = 32
"""Rows and columns by which a small problem's image exceeds the filter."""


class Filter2dJudge(Judge[Filter2d]):
    """Compares with float64 products with band matrices; peers are cuDNN, CuPy, NPP and SciPy."""

    def inputs(self, problem: Filter2d, generator: np.random.Generator) -> Operands:
        return random_filter2d(problem, generator)

    def stress_inputs(self, problem: Filter2d, generator: np.random.Generator) -> Operands:
        return stress_filter2d(problem, generator)

    def stress_slack(self, problem: Filter2d) -> float:
        return stress_slack(problem)

    def terms(self, problem: Filter2d) -> int:
        return math.prod(problem.filter)

    def references(self, problem: Filter2d, operands: Operands) -> References:
        return {problem.output.name: reference_filter2d(problem, operands["image"], operands["weights"])}

    def kernels(self, problem: Filter2d) -> Filter2dReference:  # noqa: ARG002 - there is one
        return Filter2dReference()

    def samples(self, problem: Filter2d, operands: Operands, indices: NDArray[np.int64]) -> Samples:
        return samples(problem, operands, indices)

    def smaller(self, problem: Filter2d) -> Filter2d:
        # A filter of 255x255 at four times its size would take 4e10 multiply-adds for each algorithm that cuDNN
        # tries.
        sizes = zip(problem.image, problem.filter, strict=True)
        rows, columns = (min(size, 4 * taps, taps + _BEYOND) for size, taps in sizes)
        return dataclasses.replace(problem, image=(rows, columns), pitch=None, result_pitch=None)

    def peers(self, problem: Filter2d, operands: Operands, kind: DeviceKind, sets: int) -> tuple[PeerMaker, ...]:
        return (scipy_makers if kind is DeviceKind.HOST else gpu_makers)(problem, operands, sets)


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
