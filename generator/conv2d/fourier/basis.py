"""Basis sizes: on how many points per axis the transforms of a layer's planes are, and which are likely to be best.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 3.4 (which sizes are searched). They
go from the least one to the next power of two, and have the factors 2, 3, 5 and 7 alone; 11 and 13 are tried here too.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from math import prod

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.fft.factors import prime_factors

LARGEST_FACTOR = 7
"""Prime factor of a basis: larger ones take a thread more additions than the points that they save."""
SMALL_PRIMES = (11, 13)
"""Points that a thread transforms at once all the same, in place of 12 and 14."""
MOST_OF_AN_AXIS = 3
"""Sizes of an axis that are ranked, from the least one on: what is larger moves too many bytes."""
ODD = 1.1
"""What odd columns count as: real rows of odd length are transformed in pairs alone."""
PRIME = 1.03
"""What each prime factor of an axis above 3 counts as: its transform has more additions."""


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
        """Complex numbers of a real plane's spectrum, and so products of matrices."""
        return self.rows * (self.columns // 2 + 1)


def least_points(problem: Conv2d, axis: int) -> int:
    """Points of an axis from which on nothing wraps around that is kept, for all three passes.

    A tap meets pixels from `-before` to `size - 1 + behind`, of which those outside the image must find zeros: beyond
    it, or, cyclically, before it. Padding that has pixels is part of the image.
    """
    size, taps = problem.of_padded.input[2 + axis], problem.weight[2 + axis]
    return max(size + max(problem.of_padded.padding[axis]), taps, problem.output_size[axis], 2)


@functools.lru_cache(256)
def bases(problem: Conv2d, multiples: tuple[int, int] = (1, 1)) -> tuple[Basis, ...]:
    """The ones worth trying, the likeliest first, whose rows and columns are multiples of these powers of two."""
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
    """Bytes of a spectrum, weighed by what its transforms lose."""
    return basis.frequencies * slowness(basis)


def slowness(basis: Basis) -> float:
    """What the transforms take longer than by their bytes: for each factor of a size, and for odd columns."""
    slow = prod(PRIME for points in basis.size for factor in prime_factors(points) if factor > 3)
    return slow * (ODD if basis.columns % 2 else 1.0)
