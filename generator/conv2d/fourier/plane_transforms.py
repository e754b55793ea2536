"""Transforms of a layer's operands: whole planes, or tiles of planes, and the sizes that are likely to be best.

Whole planes have from as many points as no kept result wraps around in, to the next power of two. Sizes have only the
factors 2, 3, 5 and 7; 11 and 13 are tried here too.

For tiles, the result of fprop and dgrad is cut into tiles of `T - k + 1` points, for transforms of T points and filters
of k taps. For each tile, T points of the other image are transformed, which overlap the next tile's by `k - 1` points.
What wraps around is left out of the result (overlap-save), so every number is stored once, by one tile. A gradient of
weights is a sum over tiles of dy. A tile has `T - k + 1` points of dy with zeros behind them, and is multiplied with
the T points of x that its taps meet. Nothing wraps around there, and the sum over the tiles is part of the product.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 3.4 (which sizes are searched) and section
6 (both ways to tile); Oppenheim and Schafer, "Discrete-Time Signal Processing", section 8.7 (overlap-save).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable
from math import ceil, prod

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.fft.axes import prime_factors
from warpsmith.generator.fft.problem import Fft, Kind, Layout
from warpsmith.generator.fft.signals import Border, Tiling
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.problem import Operand

LARGEST_FACTOR = 7
"""Largest prime factor of a basis. A larger one costs a thread more additions than its fewer points save."""
SMALL_PRIMES = (11, 13)
"""Sizes that a thread transforms at once although they are prime, instead of 12 and 14."""
SMALLEST = 3
"""Sizes of whole planes per axis, from the smallest on, whose pairs come first; larger ones move more bytes."""
ODD = 1.1
"""Cost factor of odd columns, because real rows of odd length can only be transformed in pairs."""
PRIME = 1.03
"""Cost factor of each prime factor above 3, whose transform has more additions."""
LEAST, MOST = 8, 70
"""Fewest and most points of a tile along an axis. "fbfft provides the most gains over cuFFT at sizes 8-64"; tiles of
70x70 took 1154 us for 128x128 planes and 11x11 taps, the best ones of up to 64 points 1501 (L1 forward, H200).
"""
LIKELY = 3
"""Number of basis sizes that a search begins with; one of them answers for a layer that was not tuned."""
BASIS = "basis"
"""Name of the parameter whose value is the word of a basis (`Basis.word`)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Basis:
    """Points along the rows and the columns of every transform of a layer."""

    rows: int
    columns: int

    @classmethod
    def of(cls, word: str) -> Basis:
        """Basis of a word such as `16x18`, rows by columns. Raises ValueError for any other text."""
        rows, columns = map(int, word.split("x"))
        return cls(rows, columns)

    @property
    def word(self) -> str:
        """The basis as the value of a parameter, rows by columns."""
        return f"{self.rows}x{self.columns}"

    @property
    def size(self) -> tuple[int, int]:
        return self.rows, self.columns

    @property
    def frequencies(self) -> int:
        """Complex numbers of a real plane's spectrum, which is also the number of matrix products."""
        return self.rows * (self.columns // 2 + 1)


@dataclasses.dataclass(frozen=True, slots=True)
class BasisRules:
    """Basis sizes that the products of a pipeline can be computed on."""

    tile_cost_ns: Callable[[Conv2d, Basis], float | None]
    """Nanoseconds of a layer on tiles of a size, by which sizes are ranked; None if there is no product on them."""
    multiples: tuple[int, int] = (1, 1)
    """Divisors of the rows and the columns; for whole planes, powers of two."""
    most_tile: int = MOST
    """Most points of a tile along an axis."""


class PlaneTransforms(abc.ABC):
    """Assignment of transforms to the planes of a layer's operands."""

    @abc.abstractmethod
    def why_not(self, layer: Conv2d) -> str | None:
        """Why the planes of a layer cannot be transformed this way, in one line; None if they can."""

    @abc.abstractmethod
    def likely(self, layer: Conv2d, rules: BasisRules) -> tuple[Basis, ...]:
        """The first LIKELY of `bases`, or all if there are fewer."""

    @abc.abstractmethod
    def bases(self, layer: Conv2d, rules: BasisRules) -> tuple[Basis, ...]:
        """All basis sizes to search, the likeliest first."""

    @abc.abstractmethod
    def tiles(self, layer: Conv2d, basis: Basis) -> tuple[int, int]:
        """Tiles of a plane along each axis."""

    @abc.abstractmethod
    def transform(self, layer: Conv2d, basis: Basis, operand: Operand, kind: Kind) -> Fft:
        """The transform of all planes of an operand, or of all their tiles."""


@dataclasses.dataclass(frozen=True, slots=True)
class WholePlanes(PlaneTransforms):
    """One transform per plane, padded with zeros as it is read and clipped as it is written."""

    def why_not(self, layer: Conv2d) -> str | None:  # noqa: ARG002 - the interface's
        return None

    def likely(self, layer: Conv2d, rules: BasisRules) -> tuple[Basis, ...]:
        return likely_bases(layer, rules.multiples)

    def bases(self, layer: Conv2d, rules: BasisRules) -> tuple[Basis, ...]:
        return bases(layer, rules.multiples)

    def tiles(self, layer: Conv2d, basis: Basis) -> tuple[int, int]:  # noqa: ARG002 - the interface's
        return 1, 1

    def transform(self, layer: Conv2d, basis: Basis, operand: Operand, kind: Kind) -> Fft:
        """The transform of all planes.

        A filter's plane begins at the tap that meets the first pixel, so that padding moves nothing. Padding that
        repeats pixels is a border of the image: its first row is the first point, and the first tap too.
        """
        *planes, rows, columns = operand.shape
        before = tuple(pads[0] for pads in layer.of_padded.padding)
        start = tuple(-pad % points for pad, points in zip(before, basis.size, strict=True))
        has_border = operand.name == "x" and layer.padding_mode is not PaddingMode.ZEROS
        return Fft(
            basis.size,
            prod(planes),
            kind,
            valid=(rows, columns),
            layout=Layout.FREQUENCY,
            start=start if is_filter(operand) else None,
            border=Border(layer.padding_mode, layer.padding) if has_border else None,
            together=_together(layer, operand, prod(planes)),
        )


@dataclasses.dataclass(frozen=True, slots=True)
class PlaneTiles(PlaneTransforms):
    """One transform per tile of a plane of images, and one per filter; `basis` is the size of a tile."""

    def why_not(self, layer: Conv2d) -> str | None:
        if max(layer.weight[2:]) > MOST:
            return f"has tiles of {MOST} points at the most along an axis, with a filter inside"
        if layer.padding_mode is not PaddingMode.ZEROS:
            return "pads with zeros only"
        return None

    def likely(self, layer: Conv2d, rules: BasisRules) -> tuple[Basis, ...]:
        return _tile_bases(layer, rules)[:LIKELY]

    def bases(self, layer: Conv2d, rules: BasisRules) -> tuple[Basis, ...]:
        """All tile sizes, those of the least expected time first; none if filters are too large for a tile."""
        return _tile_bases(layer, rules)

    def tiles(self, layer: Conv2d, basis: Basis) -> tuple[int, int]:
        rows, columns = (
            ceil(size / step) for size, step in zip(_cut(layer).shape[2:], _step(layer, basis), strict=True)
        )
        return rows, columns

    def transform(self, layer: Conv2d, basis: Basis, operand: Operand, kind: Kind) -> Fft:
        """The transform of all filters, or of all tiles of all images."""
        outer, inner, *plane = operand.shape
        if is_filter(operand):
            return self._of_filters(layer, basis, operand, kind)
        is_cut, tiles = operand.name == _cut(layer).name, self.tiles(layer, basis)
        origin = (0, 0) if is_cut else _origin(layer)
        tiling = Tiling(tiles, _step(layer, basis), origin, (plane[0], plane[1]), inner)
        batch = outer * inner * prod(tiles)
        return Fft(
            basis.size,
            batch,
            kind,
            valid=_step(layer, basis) if is_cut else None,
            layout=Layout.FREQUENCY,
            tiling=tiling,
            together=_together(layer, operand, batch),
        )

    def _of_filters(self, layer: Conv2d, basis: Basis, operand: Operand, kind: Kind) -> Fft:
        """The transform of all filters. For dgrad the last tap is the first point and the others lie before it, so that
        valid results begin there.
        """
        outer, inner, *taps = operand.shape
        start = None
        if layer.pass_.is_transposed:
            start = tuple((1 - count) % points for count, points in zip(taps, basis.size, strict=True))
        valid = (taps[0], taps[1])
        return Fft(basis.size, outer * inner, kind, valid=valid, layout=Layout.FREQUENCY, start=start)


WHOLE_PLANES, TILES = WholePlanes(), PlaneTiles()


def is_filter(operand: Operand) -> bool:
    """Whether an operand is made of filters, which all images share."""
    return operand.name in ("w", "dw")


def least_points(problem: Conv2d, axis: int) -> int:
    """Fewest points of an axis for which no kept result wraps around, in all three passes.

    A tap meets pixels from `-before` to `size - 1 + behind`. Those outside the image must find zeros: beyond it, or,
    cyclically, before it. Padding that repeats pixels is part of the image.
    """
    size, taps = problem.of_padded.input[2 + axis], problem.weight[2 + axis]
    return max(size + max(problem.of_padded.padding[axis]), taps, problem.output_size[axis], 2)


@functools.lru_cache(256)
def likely_bases(problem: Conv2d, multiples: tuple[int, int] = (1, 1)) -> tuple[Basis, ...]:
    """The first LIKELY of `bases`, out of the SMALLEST sizes of each axis."""
    rows, columns = (_sizes(problem, axis, multiples[axis])[:SMALLEST] for axis in (0, 1))
    return _in_order(itertools.product(rows, columns))[:LIKELY]


@functools.lru_cache(256)
def bases(problem: Conv2d, multiples: tuple[int, int] = (1, 1)) -> tuple[Basis, ...]:
    """Basis sizes for whole planes, the likeliest first; their rows and columns are multiples of these powers of
    two.
    """
    rows, columns = (_sizes(problem, axis, multiples[axis]) for axis in (0, 1))
    return tuple(dict.fromkeys((*likely_bases(problem, multiples), *_in_order(itertools.product(rows, columns)))))


def _in_order(sizes: Iterable[tuple[int, int]]) -> tuple[Basis, ...]:
    """Bases of these sizes, those whose transforms are expected to take the least time first."""
    found = (Basis(*size) for size in sizes)
    return tuple(sorted(found, key=lambda basis: (basis.frequencies * slowness(basis), basis.size)))


def slowness(basis: Basis) -> float:
    """Factor on the time that the bytes of a transform take, for its prime factors and odd columns."""
    slow = prod(PRIME for points in basis.size for factor in prime_factors(points) if factor > 3)
    return slow * (ODD if basis.columns % 2 else 1.0)


def _sizes(problem: Conv2d, axis: int, multiple: int) -> tuple[int, ...]:
    """Sizes of an axis of whole planes: from the fewest points to the next power of two, with small factors."""
    least = max(least_points(problem, axis), multiple)
    most = 1 << (least - 1).bit_length()
    return tuple(
        points
        for points in range(-(-least // multiple) * multiple, most + 1, multiple)
        if points in SMALL_PRIMES or max(prime_factors(points)) <= LARGEST_FACTOR
    )


@functools.lru_cache(256)
def _tile_bases(layer: Conv2d, rules: BasisRules) -> tuple[Basis, ...]:
    axes = zip(layer.weight[2:], _cut(layer).shape[2:], rules.multiples, strict=True)
    costs: dict[Basis, float] = {}
    for size in itertools.product(*(_tile_sizes(*each, rules.most_tile) for each in axes)):
        basis = Basis(*size)
        if (cost := rules.tile_cost_ns(layer, basis)) is not None:
            costs[basis] = cost
    return tuple(sorted(costs, key=lambda basis: (costs[basis], basis.size)))


def _tile_sizes(taps: int, cut: int, multiple: int, most: int) -> tuple[int, ...]:
    """Sizes from LEAST to `most` points that have small factors and leave a result, up to the smallest one of whole
    planes.
    """
    good = [
        n for n in range(max(LEAST, taps), most + 1) if max(prime_factors(n)) <= LARGEST_FACTOR and n % multiple == 0
    ]
    whole = next((n for n in good if n >= cut + taps - 1), most)
    return tuple(n for n in good if n <= whole)


def _step(layer: Conv2d, basis: Basis) -> tuple[int, int]:
    """Rows and columns from one tile to the next, which are a tile's own points of the operand that is cut."""
    rows, columns = (points - taps + 1 for points, taps in zip(basis.size, layer.weight[2:], strict=True))
    return rows, columns


def _cut(layer: Conv2d) -> Operand:
    """The operand whose points each belong to one tile: the result, or dy where the result is a sum over images."""
    return layer.inputs[1] if layer.pass_.sums_images else layer.output


def _origin(layer: Conv2d) -> tuple[int, int]:
    """First row and column of the first tile of the images that are not cut: the first pixel that the first taps meet,
    padding included.
    """
    (above, _), (left, _) = layer.padding
    if not layer.pass_.is_transposed:
        return -above, -left
    rows, columns = layer.weight[2:]
    return above - rows + 1, left - columns + 1


def _together(layer: Conv2d, operand: Operand, batch: int) -> int | None:
    """Transforms per image out of `batch` in all, if that number is odd, so that a pair could mix two images;
    otherwise None. It is None for filters, which all images use.
    """
    own = batch // layer.input[0]
    return own if own % 2 and not is_filter(operand) else None
