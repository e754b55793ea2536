"""Inputs that are hard on rounding errors: magnitudes far apart side by side, cancellation, alternating signs, tones.

Normal deviates leave the terms of a sum alike, so that an error that is small against all of them looks small against
each. What a problem promises is measured against each result's own terms (`Accuracy.ELEMENTWISE`), the window's largest
pixel (`NORMWISE`), or the root mean square of a transform's whole result: these inputs meet the same bounds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from warpsmith.generator.fft import Fft
from warpsmith.generator.filter2d import Filter2d
from warpsmith.generator.problem import DType, Operand, Problem
from warpsmith.tuner.operations.fft.oracle import by_transform, make_hermitian
from warpsmith.tuner.operations.oracle import Operands

MAX_STRESS_TERMS = 1 << 27
"""Terms of all results, past which only finalists meet these inputs: NumPy takes about 1 s on two cores for the
reference of so many (1 s for a 3840x2160 image and a 4x4 filter), for which a search need not wait."""

_OCTAVES = {DType.FLOAT32: 20, DType.FLOAT16: 10}
"""Magnitudes are 2 to the power of minus so many up to so many. Of a float16 2^10 leaves sums of 31 pixels finite."""
_WEIGHT_OCTAVES = 6
"""Likewise of weights: a small pixel then meets a large weight beside a large pixel with a small weight."""
_REGION = (7, 13)
"""Rows and columns of a region with a character of its own: odd, so that they lie anywhere in a thread's outputs."""
_CHARACTERS = 5
_DRAWN = (1021, 1031)
"""Rows and columns that are drawn; larger images repeat them, since 2^27 pixels would take 20 s. Primes, so that they
begin anywhere in a thread's outputs."""
_SLACK = 0.3
_DRAWN_POINTS = 1 << 20
"""Of transforms, likewise."""
_PEAK = 4.0
"""Largest frequency over the root mean square of a transform: a float32 cannot hold a higher peak to 1e-6 of twice the
root mean square of a result, which is what is promised."""


def terms(problem: Problem) -> int:
    """Terms of a result that the oracle adds up: taps of a filter; a transform's stage takes as long as eight."""
    if isinstance(problem, Filter2d):
        return math.prod(problem.filter)
    if isinstance(problem, Fft):
        return 8 * max(1, math.ceil(math.log2(problem.points)))
    raise TypeError(f"no oracle for {problem.operation}")


def stress_slack(problem: Problem) -> float:
    """How many times the error bound right kernels may be off on these inputs.

    Sums of constants and of equal signs round the same way again and again: in float32 the simplest kernel was off by
    5.2e-7 of the sum of |terms| with 25 taps, by 9.8e-7 with 81 and by 1.33e-6 with 225, the most of 262,144 results:
    about 1e-7 times the root of the number of taps. Three times that is allowed, where it is more than the bound of
    1e-6; what forms sums and differences of pixels is off by orders of magnitude more.
    """
    return max(1.0, _SLACK * math.sqrt(math.prod(problem.filter))) if isinstance(problem, Filter2d) else 1.0


def stress_operands(problem: Problem, seed: int) -> Operands:
    """Inputs for `problem`: the values that it knows where it does, else such as are hard on rounding errors.

    Raises TypeError for an operation without an oracle.
    """
    generator = np.random.default_rng((seed, 1))
    if isinstance(problem, Filter2d):
        image, weights, _ = problem.operands
        taps = np.array(problem.weights, np.float32).reshape(weights.shape) if problem.weights else None
        return {
            "image": _image(problem, generator).reshape(image.shape),
            "weights": _weights(problem, generator) if taps is None else taps,
        }
    if isinstance(problem, Fft):
        operand = problem.inputs[0]
        return {operand.name: _signals(problem, operand, generator)}
    raise TypeError(f"no oracle for {problem.operation}")


def _image(problem: Filter2d, generator: np.random.Generator) -> NDArray[np.generic]:
    """An image in regions of five characters: magnitudes of the whole range pixel by pixel, log-normal ones, deviates
    of one magnitude a region, a constant, and signs that alternate. Where bytes are about, of as many kinds of bytes.
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
    kinds = (
        np.copysign(np.exp2((2 * uniform - 1) * octaves), deviates),
        np.copysign(np.exp2(np.clip(octaves / 4 * deviates, -octaves, octaves)), uniform - np.float32(0.5)),
        deviates * np.exp2(np.clip(level, -octaves, octaves - 2)),
        np.ones(shape, np.float32),
        sign * np.exp2(np.float32(octaves / 2)),
    )
    return np.asarray(np.choose(character, kinds), np.float32)


def _weights(problem: Filter2d, generator: np.random.Generator) -> NDArray[np.float32]:
    """Weights of magnitudes far apart that sum to about zero: their largest takes the rest back. A single tap does not.

    Where the result is a float16 they are scaled so that no result overflows; where it is a uint8, and then to a sum of
    a half, so that many fall within its range.
    """
    shape = (problem.filters, math.prod(problem.filter))
    octaves = generator.uniform(-_WEIGHT_OCTAVES, _WEIGHT_OCTAVES, shape)
    values = np.copysign(np.exp2(octaves), generator.uniform(-1, 1, shape))
    if shape[1] > 1:
        largest = np.abs(values).argmax(axis=1)
        values[np.arange(len(values)), largest] -= values.sum(axis=1)
    if problem.output.dtype is not DType.FLOAT32:
        values /= np.abs(values).sum(axis=1, keepdims=True)
        values += 0.5 / shape[1] if problem.output.dtype is DType.UINT8 else 0.0
    return values.astype(np.float32).reshape(problem.operands[1].shape)


def _signals(problem: Fft, operand: Operand, generator: np.random.Generator) -> NDArray[np.generic]:
    """Transforms of four characters in turns: magnitudes far apart, an impulse over a faint noise, a large mean, and a
    tone, both as high as a float32 result bears. All of one energy, since errors are small against the whole result.
    """
    is_complex = operand.dtype is DType.COMPLEX64
    signal = np.zeros(operand.shape, np.complex64 if is_complex else np.float32)
    parts = by_transform(problem, signal) if problem.inverse else signal  # (batch, ...) whatever the layout
    inner = parts.shape[1:]
    drawn = _drawn_signals(inner, min(len(parts), max(5, _DRAWN_POINTS // math.prod(inner) | 1)), is_complex, generator)
    parts[...] = drawn[np.arange(len(parts)) % len(drawn)]
    if is_complex:
        make_hermitian(problem, signal)
    return signal


def _drawn_signals(
    inner: tuple[int, ...], count: int, is_complex: bool, generator: np.random.Generator
) -> NDArray[np.generic]:
    """`count` signals of that shape."""
    points = math.prod(inner)
    deviates = generator.standard_normal((count, *inner, 2), np.float32)
    noise = deviates.view(np.complex64)[..., 0] if is_complex else deviates[..., 0]
    uniform = generator.random((count, *inner), np.float32)
    batch = np.arange(count)
    turn = batch % 4
    wide = noise * np.exp2((2 * uniform - 1) * _OCTAVES[DType.FLOAT32])
    impulse = noise * np.float32(2.0**-20)
    at = np.unravel_index(generator.integers(0, points, count), inner)
    impulse[(batch, *at)] = 1
    # The mean's frequency is `height * points`, over a root mean square of sqrt(points) * sqrt(1 + height^2).
    height = np.float32(_PEAK / math.sqrt(max(points - _PEAK**2, 1.0)) if points > _PEAK**2 else 1.0)
    phase = sum(
        (2 * np.pi * generator.integers(0, size, count).reshape(-1, *(1,) * len(inner)) / size)
        * np.arange(size).reshape([-1 if axis == i else 1 for i in range(len(inner))])
        for axis, size in enumerate(inner)
    )
    tone = noise + height * (np.exp(1j * phase) if is_complex else np.sqrt(2) * np.cos(phase))
    dtype = np.complex64 if is_complex else np.float32
    choices = [kind.astype(dtype) for kind in (wide, impulse, noise + height, tone)]
    drawn = np.choose(turn.reshape(-1, *(1,) * len(inner)), choices)
    energy = np.sqrt((np.abs(drawn.astype(np.complex128)) ** 2).mean(axis=tuple(range(1, drawn.ndim)), keepdims=True))
    return np.asarray(drawn / energy, dtype)
