"""Inputs of `conv2d` that are hard on rounding errors: very different magnitudes side by side, cancellation, equal
signs.

Normal deviates make all terms of a sum alike, so an error that is small against the whole sum looks small against each
term. The error bound applies to each result's own terms, and on these inputs too, within `stress_slack`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.devices.elements import numpy_dtype
from warpsmith.generator.conv2d import Conv2d
from warpsmith.generator.problem import Accuracy, DType, Operand
from warpsmith.tuner.operations.conv2d.oracle import terms
from warpsmith.tuner.operations.drawing import cancel, far_apart, hard_kinds
from warpsmith.tuner.operations.judge import FLOAT32_BOUND

_OCTAVES = 20
"""Magnitudes of images range from 2^-20 to 2^20."""
_HALF_OCTAVES = 5
"""Magnitudes of float16 images range from 2^-5 to 2^5, so that most sums of some thousand terms stay below 65504.
Larger ones are infinite in the reference too.
"""
_WEIGHT_OCTAVES = 6
"""Magnitudes of weights range from 2^-6 to 2^6: a small pixel with a large weight then stands beside a large pixel with
a small weight.
"""
_REGION = (7, 13)
"""Rows and columns of a region with its own kind of numbers; odd, so that regions begin at any position of a thread's
results.
"""
_CHARACTERS = 5
_DRAWN = (5, 67, 61, 127)
"""Images, channels, rows and columns that are drawn; larger operands repeat them. They are no powers of two, so that
repeats begin at any position of a thread's results.
"""
_APART_OCTAVES = 20
"""Binary logarithm of the factor by which one image of a batch is larger than the others: a million."""
_SLACK = 0.3
_LEAST_PARTS = 64
"""Number of parts in which a kernel adds up the terms of a weight gradient: the threads of the smallest block."""
_TRANSFORM_SLACK = 15.0
"""Factor on the error bound that a transform of planes may need, whatever the number of terms; see `stress_slack`."""


def stress_slack(problem: Conv2d) -> float:
    """Factor on the error bound that right kernels may need on these inputs.

    Sums of equal signs round the same way again and again. In float32, one multiply-add after the other was off by
    3.5e-7 of the sum of |terms| with 36 terms, by 1.5e-6 with 576, by 2.8e-6 with 4608, by 8.1e-6 with 25,600 and, for
    72,576 sums inside one region of equal signs, by 2.95e-5 with 15,484. That is up to 2.4e-7 times the root of the
    number of terms. A quarter more is allowed, if that exceeds the bound of 1e-6. For wgrad the terms are those of a
    thread's share: a single sum of all of them does not pass elementwise. Shares of 225 terms were off by 1.3e-7.

    If the bound is relative to an image's results, transforms are admitted, and few terms do not make them more
    accurate. Their errors are relative to the planes that they transform: 1.5e-7 to 1.8e-7 of a result in the L2 norm.
    These inputs have very different planes, and in a depthwise layer the largest plane of an image may dominate its
    root mean square. For depthwise layers of 9, 25, 49 and 81 terms, SciPy's float32 transforms, plane by plane, were
    off by up to 4.1e-6, 4.8e-6, 1.03e-5 and 2.3e-6 of the scale in 60 draws each, and by 9e-7 to 2e-6 in the median. On
    normal deviates they keep half of the bound. A weight gradient adds up over all planes, and those of one image may
    dominate: for 2x2 to 28x28 planes and 3x3 to 7x7 taps, SciPy's were off by up to 6.7e-6 in 40 draws each.

    If factors are rounded, all of this comes on top of the bound, which covers the rounding itself.
    """
    chain = terms(problem) / (_LEAST_PARTS if problem.pass_.sums_images else 1)
    is_by_planes = problem.accuracy is Accuracy.NORMWISE
    of_sums = max(_TRANSFORM_SLACK if is_by_planes else 1.0, _SLACK * math.sqrt(chain))
    bound = problem.error_bound
    return of_sums if bound == FLOAT32_BOUND else 1 + of_sums * FLOAT32_BOUND / bound


def stress_inputs(problem: Conv2d, generator: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Inputs by operand name, dense, rounded to the problem's element type.

    In fprop and dgrad, whose results belong to one image each, one image is a million times as large as the others and
    one holds a NaN and an infinity (`_set_apart`).

    Images and gradients have the same regions where both are given. Otherwise the largest values of one could meet
    those of the other only at distances outside the filter. The weight gradient would then be small against both, and
    the errors of a transform, which are relative to both, would be large against it: for 16x16 planes and 7x7 taps, 10
    times the bound, with cuFFT and cuBLAS as well. Real data do not do that except for a few images.
    """
    # The first input is an image in every pass.
    regions = _Regions.drawn(_drawn_shape(problem.inputs[0]), octaves_of(problem.dtype), generator)
    image = functools.partial(_image, regions)
    makers: dict[str, Callable[[Operand, np.random.Generator], NDArray[np.float32]]]
    makers = {"x": image, "dy": image, "w": _weights, "b": _bias}
    drawn = {operand.name: makers[operand.name](operand, generator) for operand in problem.inputs}
    if not problem.pass_.sums_images:
        _set_apart(problem, drawn[problem.inputs[0].name], generator)
    kind = numpy_dtype(problem.dtype)  # rounded before it is repeated, so that no large array exists twice
    return {each.name: _repeated(drawn[each.name].astype(kind, copy=False), each.shape) for each in problem.inputs}


def _set_apart(problem: Conv2d, images: NDArray[np.float32], generator: np.random.Generator) -> None:
    """Makes one of several images large, unless float16 cannot hold it, and puts a NaN and an infinity into another
    one.

    With two images it does one or the other. A kernel must not let the other images be affected. The results of the
    spoilt image are not checked.
    """
    if len(images) < 2:
        return
    large, spoilt = generator.choice(len(images), 2, replace=False)
    is_large = problem.dtype is not DType.FLOAT16 and (len(images) > 2 or generator.random() < 0.5)
    if is_large:
        images[large] *= np.float32(2.0**_APART_OCTAVES)
    if len(images) > 2 or not is_large:
        at = generator.integers(0, images[spoilt].size, 2)
        images[spoilt].reshape(-1)[at] = np.nan, np.inf


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Regions:
    """Kind and magnitude of numbers in each region of the images, numbered down and across, image by image."""

    down: int
    across: int
    octaves: int
    character: NDArray[np.int64]
    level: NDArray[np.float32]

    @classmethod
    def drawn(cls, shape: tuple[int, ...], octaves: int, generator: np.random.Generator) -> _Regions:
        images, _, rows, columns = shape
        down, across = (math.ceil(size / part) for size, part in zip((rows, columns), _REGION, strict=True))
        character = generator.integers(0, _CHARACTERS, images * down * across)
        level = generator.uniform(-octaves, octaves, images * down * across).astype(np.float32)
        return cls(down, across, octaves, character, level)

    def numbers(self, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Region number of each pixel; larger images repeat the regions, smaller ones use a part."""
        images, _, rows, columns = shape
        image, row, column = np.ogrid[:images, :rows, :columns]
        down, across = row // _REGION[0] % self.down, column // _REGION[1] % self.across
        return np.asarray((image * self.down + down) * self.across + across)


def _drawn_shape(operand: Operand) -> tuple[int, ...]:
    return tuple(map(min, zip(operand.shape, _DRAWN, strict=True)))


def _image(regions: _Regions, operand: Operand, generator: np.random.Generator) -> NDArray[np.float32]:
    """Images in regions of five kinds of numbers (see `hard_kinds`), equal in all channels."""
    return _drawn_image(_drawn_shape(operand), regions, generator)


def _repeated(drawn: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    # The fastest axis is repeated first, so that most copies are long runs: 537M numbers one by one take 8 s.
    for axis in reversed(range(len(shape))):
        if drawn.shape[axis] != shape[axis]:
            drawn = drawn.take(np.arange(shape[axis]) % drawn.shape[axis], axis)
    return drawn


def _drawn_image(shape: tuple[int, ...], regions: _Regions, generator: np.random.Generator) -> NDArray[np.float32]:
    _, _, rows, columns = shape
    row, column = np.ogrid[:rows, :columns]
    number = regions.numbers(shape)
    character, level = regions.character[number][:, None], regions.level[number][:, None]
    sign = np.where((row + column) % 2 == 0, np.float32(1), np.float32(-1))
    deviates = generator.standard_normal(shape, np.float32)
    uniform = generator.random(shape, np.float32)
    kinds = hard_kinds(deviates, uniform, level, sign, regions.octaves)
    return np.asarray(np.choose(character, kinds), np.float32)


def _weights(operand: Operand, generator: np.random.Generator) -> NDArray[np.float32]:
    """Weights of very different magnitudes. Every other filter sums to about zero; the others have one sign each, so
    that nothing cancels where the image has one sign too.
    """
    filters, own = operand.shape[0], math.prod(operand.shape[1:])
    values = far_apart(generator, (filters, own), _WEIGHT_OCTAVES)
    cancel(values[::2])
    values[1::2] = np.abs(values[1::2])
    return values.astype(np.float32).reshape(operand.shape)


def _bias(operand: Operand, generator: np.random.Generator) -> NDArray[np.float32]:
    return far_apart(generator, operand.shape, octaves_of(operand.dtype)).astype(np.float32)


def octaves_of(dtype: DType) -> int:
    """Binary logarithm of the largest magnitude of images and biases."""
    return _HALF_OCTAVES if dtype is DType.FLOAT16 else _OCTAVES
