"""Large random arrays, drawn strip by strip on all cores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsmith.tuner.operations.strips import STRIP_BYTES, for_each_strip


def noise(nbytes: int, seed: int) -> NDArray[np.uint8]:
    return drawn((nbytes,), np.uint8, np.random.default_rng(seed), random_bytes)


def drawn(
    shape: tuple[int, ...],
    dtype: type[np.generic] | np.dtype[Any],
    generator: np.random.Generator,
    draw: Callable[[np.random.Generator, int], NDArray[Any]],
) -> NDArray[Any]:
    """Random values, drawn in strips that each have their own generator: on one core 600 MB take two seconds."""
    values = np.empty(math.prod(shape), dtype)
    length = STRIP_BYTES // values.itemsize
    generators = generator.spawn(math.ceil(values.size / length))

    def strips(numbers: slice) -> None:
        for number in range(numbers.start, numbers.stop):
            part = values[number * length : (number + 1) * length]
            part[...] = draw(generators[number], part.size)

    for_each_strip(len(generators), STRIP_BYTES, strips)
    return values.reshape(shape)


def deviates(generator: np.random.Generator, count: int) -> NDArray[Any]:
    """`count` normal deviates, float32."""
    return generator.standard_normal(count, np.float32)


def hard_kinds(
    deviates: NDArray[np.float32],
    uniform: NDArray[np.float32],
    level: NDArray[np.float32],
    sign: NDArray[np.float32],
    octaves: int,
) -> tuple[NDArray[Any], ...]:
    """Five kinds of numbers that are hard on rounding errors, with magnitudes from 2^-octaves to 2^octaves.

    The kinds are: evenly spread logarithms, log-normal numbers, deviates of one magnitude, ones, and alternating signs.

    Args:
        deviates: normal deviates.
        uniform: numbers from 0 to 1, of the same shape.
        level: binary logarithm of the one magnitude; it and `sign` broadcast to the shape of `deviates`.
        sign: 1 and -1.
        octaves: the largest binary logarithm.
    """
    return (
        np.copysign(np.exp2((2 * uniform - 1) * octaves), deviates),
        np.copysign(np.exp2(np.clip(octaves / 4 * deviates, -octaves, octaves)), uniform - np.float32(0.5)),
        deviates * np.exp2(np.clip(level, -octaves, octaves - 2)),
        np.ones(deviates.shape, np.float32),
        sign * np.exp2(np.float32(octaves / 2)),
    )


def far_apart(generator: np.random.Generator, shape: tuple[int, ...], octaves: int) -> NDArray[np.float64]:
    """Numbers of either sign, with magnitudes spread evenly from 2^-octaves to 2^octaves on a logarithmic scale."""
    magnitudes = np.exp2(generator.uniform(-octaves, octaves, shape))
    return np.copysign(magnitudes, generator.uniform(-1, 1, shape))


def cancel(rows: NDArray[np.float64]) -> None:
    """Makes each row sum to about zero by subtracting the sum from its largest number. Rows of one number stay."""
    if rows.shape[1] > 1:
        largest = np.abs(rows).argmax(axis=1)
        rows[np.arange(len(rows)), largest] -= rows.sum(axis=1)


def random_bytes(generator: np.random.Generator, count: int) -> NDArray[Any]:
    """`count` uniform bytes."""
    return generator.integers(0, 256, count, dtype=np.uint8)


def fractions(generator: np.random.Generator, count: int) -> NDArray[Any]:
    """`count` float32 numbers, uniform from 0 to 255."""
    return generator.random(count, dtype=np.float32) * np.float32(255)
