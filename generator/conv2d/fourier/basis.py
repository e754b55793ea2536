"""Basis sizes: the number of points per axis for the transforms of a layer's planes, the likeliest to be best first.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 3.4 (which sizes are searched). They go
from the smallest size to the next power of two, and have only the factors 2, 3, 5 and 7; 11 and 13 are tried here too.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from math import prod

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.fft.axes import prime_factors

LARGEST_FACTOR = 7
"""Largest prime factor of a basis. A larger one costs a thread more additions than its fewer points save."""
SMALL_PRIMES = (11, 13)
"""Sizes that a thread transforms at once although they are prime, instead of 12 and 14."""
MOST_OF_AN_AXIS = 3
"""Sizes per axis that are ranked, from the smallest on; larger ones move too many bytes."""
ODD = 1.1
"""Cost factor of odd columns, because real rows of odd length can only be transformed in pairs."""
PRIME = 1.03
"""Cost factor of each prime factor above 3, whose transform has more additions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Basis:
    """Points along the rows and the columns of every transform of a layer."""

    rows: int
    columns: int

    @property
    def size(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def frequencies(self) -> int:
        """Complex numbers of a real plane's spectrum, which is also the number of matrix products."""
        return self.rows * (self.columns // 2 + 1)


def least_points(problem: Conv2d, axis: int) -> int:
    """Fewest points of an axis for which no kept result wraps around, in all three passes.

    A tap meets pixels from `-before` to `size - 1 + behind`. Those outside the image must find zeros: beyond it, or,
    cyclically, before it. Padding that repeats pixels is part of the image.
    """
    size, taps = problem.of_padded.input[2 + axis], problem.weight[2 + axis]
    return max(size + max(problem.of_padded.padding[axis]), taps, problem.output_size[axis], 2)


@functools.lru_cache(256)
def bases(problem: Conv2d, multiples: tuple[int, int] = (1, 1)) -> tuple[Basis, ...]:
    """Basis sizes worth trying, the likeliest first; their rows and columns are multiples of these powers of two."""
    rows, columns = (_sizes(least_points(problem, axis), multiples[axis]) for axis in (0, 1))
    found = [Basis(*each) for each in itertools.product(rows, columns)]
    return tuple(sorted(found, key=lambda basis: (_cost(basis), basis.size)))


def _sizes(least: int, multiple: int) -> tuple[int, ...]:
    least = max(least, multiple)
    good = (
        points
        for points in itertools.count(-(-least // multiple) * multiple, multiple)
        if points in SMALL_PRIMES or max(prime_factors(points)) <= LARGEST_FACTOR
    )
    most = 1 << (least - 1).bit_length()
    return tuple(points for points in itertools.islice(good, MOST_OF_AN_AXIS) if points <= most)


def _cost(basis: Basis) -> float:
    """Complex numbers of a spectrum, weighted by the slowness of its transforms."""
    return basis.frequencies * slowness(basis)


def slowness(basis: Basis) -> float:
    """Factor on the time that the bytes of a transform take, for its prime factors and odd columns."""
    slow = prod(PRIME for points in basis.size for factor in prime_factors(points) if factor > 3)
    return slow * (ODD if basis.columns % 2 else 1.0)
