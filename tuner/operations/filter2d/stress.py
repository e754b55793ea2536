"""Images and weights that are hard on rounding errors; see `Judge.stress_inputs`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import Accuracy, DType
from warpsmith.tuner.operations.drawing import cancel, far_apart, hard_kinds
from warpsmith.tuner.operations.judge import Operands

_OCTAVES = {DType.FLOAT32: 20, DType.FLOAT16: 10}
"""Binary logarithms of the largest magnitudes of images, by type; the least are their inverses. For float16, 2^10
leaves sums of 31 pixels finite.
"""
_WEIGHT_OCTAVES = 6
"""Magnitudes of weights range from 2^-6 to 2^6: a small pixel with a large weight then stands beside a large pixel with
a small weight.
"""
_REGION = (7, 13)
"""Rows and columns of a region with its own kind of numbers; odd, so that regions begin at any position of a thread's
outputs.
"""
_CHARACTERS = 5
_DRAWN = (1021, 1031)
"""Rows and columns that are drawn; larger images repeat them, since 2^27 pixels would take 20 s. They are primes, so
that repeats begin at any position of a thread's outputs.
"""
_SLACK = 0.3


def stress_slack(problem: Filter2d) -> float:
    """Factor on the error bound that right kernels may need on these inputs.

    Sums of constants and of equal signs round the same way again and again. In float32 the simplest kernel was off by
    5.2e-7 of the sum of |terms| with 25 taps, by 9.8e-7 with 81 and by 1.33e-6 with 225, the most of 262,144 results:
    about 1e-7 times the root of the number of taps. Three times that is allowed, if it exceeds the bound of 1e-6.
    Algorithms that form sums and differences of pixels are off by orders of magnitude more.

    If errors are relative to the whole image, a window that is brighter than most of the image lies in one region, so
    at most as many terms are alike as a region has. A transform needs no slack: in float32, on tiles of 32 to 160 rows,
    SciPy's is off by 1e-7 of the scale with 7x7 and 6e-8 with 65x65 taps, on these inputs as on normal deviates.
    """
    alike = math.prod(problem.filter)
    if problem.accuracy is Accuracy.IMAGEWISE:
        alike = min(alike, math.prod(_REGION))
    return max(1.0, _SLACK * math.sqrt(alike))


def stress_filter2d(problem: Filter2d, generator: np.random.Generator) -> Operands:
    """Image and weights of very different magnitudes, side by side."""
    image = problem.operands[0]
    return {"image": _image(problem, generator).reshape(image.shape), "weights": _weights(problem, generator)}


def _image(problem: Filter2d, generator: np.random.Generator) -> NDArray[np.generic]:
    """Image in regions of five kinds of numbers; see `hard_kinds`. If image or result are uint8, it uses five kinds of
    bytes.
    """
    drawn = _drawn_image(problem, generator).astype(str(problem.dtype))
    planes = np.empty((problem.planes, *problem.image, problem.channels), drawn.dtype)
    rows, columns = drawn.shape[:2]
    for top in range(0, problem.image[0], rows):
        for left in range(0, problem.image[1], columns):
            target = planes[:, top : top + rows, left : left + columns]
            target[...] = drawn[: target.shape[1], : target.shape[2]]
    return planes


def _drawn_image(problem: Filter2d, generator: np.random.Generator) -> NDArray[np.float32]:
    rows, columns = (min(sizes) for sizes in zip(problem.image, _DRAWN, strict=True))
    shape = (rows, columns, problem.channels)
    row, column = np.arange(rows)[:, None], np.arange(columns)
    across = math.ceil(columns / _REGION[1])
    region = row // _REGION[0] * across + column // _REGION[1]
    character = generator.integers(0, _CHARACTERS, int(region[-1, -1]) + 1)[region][..., None]
    sign = np.where((row + column) % 2 == 0, np.float32(1), np.float32(-1))[..., None]
    deviates = generator.standard_normal(shape, np.float32)
    uniform = generator.random(shape, np.float32)
    if DType.UINT8 in (problem.dtype, problem.output.dtype):
        extremes = np.where(uniform < 0.5, np.float32(0), np.float32(255))
        faint = np.where(uniform < 0.02, np.float32(255), np.floor(3 * uniform))
        kinds = (extremes, faint, np.floor(256 * uniform), np.full(shape, 255, np.float32), 127.5 + 127.5 * sign)
        return np.asarray(np.choose(character, [np.floor(kind) for kind in kinds]), np.float32)
    octaves = _OCTAVES[problem.dtype]
    level = generator.uniform(-octaves, octaves, int(region[-1, -1]) + 1).astype(np.float32)[region][..., None]
    return np.asarray(np.choose(character, hard_kinds(deviates, uniform, level, sign, octaves)), np.float32)


def _weights(problem: Filter2d, generator: np.random.Generator) -> NDArray[np.float32]:
    """Weights of very different magnitudes that sum to about zero; the largest is adjusted for this. A single tap
    stays.

    For a float16 result they are scaled so that no result overflows. For a uint8 result they are also shifted to a sum
    of a half, so that many results fall within its range.
    """
    shape = (problem.filters, math.prod(problem.filter))
    values = far_apart(generator, shape, _WEIGHT_OCTAVES)
    cancel(values)
    if problem.output.dtype is not DType.FLOAT32:
        values /= np.abs(values).sum(axis=1, keepdims=True)
        values += 0.5 / shape[1] if problem.output.dtype is DType.UINT8 else 0.0
    return values.astype(np.float32).reshape(problem.operands[1].shape)
