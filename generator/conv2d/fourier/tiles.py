"""Layers in the frequency domain tile by tile: the transforms, and the tile sizes that are likely to be best.

The result of fprop and dgrad is cut into tiles of `T - k + 1` points, for transforms of T points and filters of k taps.
For each tile, T points of the other image are transformed, which overlap the next tile's by `k - 1` points. What wraps
around is left out of the result (overlap-save), so every number is stored once, by one tile. A gradient of weights is a
sum over tiles of dy. A tile has `T - k + 1` points of dy with zeros behind them, and is multiplied with the T points of
x that its taps meet. Nothing wraps around there, and the sum over the tiles is part of the product.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 6 (both ways to tile); Oppenheim and
Schafer, "Discrete-Time Signal Processing", section 8.7 (overlap-save).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from math import ceil, prod

from warpsmith.generator.conv2d.fourier.basis import LARGEST_FACTOR, Basis, slowness
from warpsmith.generator.conv2d.fourier.parts import FLOAT32_PRODUCTS, FourierParts, memory_ns, sector_share
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass
from warpsmith.generator.device import REFERENCE
from warpsmith.generator.fft.axes import prime_factors
from warpsmith.generator.fft.problem import Fft, Kind, Layout
from warpsmith.generator.fft.signals import Tiling
from warpsmith.generator.problem import Operand

LEAST, MOST = 8, 70
"""Fewest and most points of a tile along an axis. "fbfft provides the most gains over cuFFT at sizes 8-64"; tiles of
70x70 took 1154 us for 128x128 planes and 11x11 taps, the best ones of up to 64 points 1501 (L1 forward, H200).
"""
LIKELY = 3
"""Number of tile sizes that are offered."""
COMPLEX_BYTES = 8


class TiledParts(FourierParts):
    """Parts of a layer whose transforms take a tile of a plane each; `basis` is the size of a tile."""

    @staticmethod
    def bases(layer: Conv2d) -> tuple[Basis, ...]:
        return tile_bases(layer)

    @property
    def step(self) -> tuple[int, int]:
        """Rows and columns from one tile to the next, which are those of the result, or of dy, per tile."""
        rows, columns = (points - taps + 1 for points, taps in zip(self.basis.size, self.layer.weight[2:], strict=True))
        return rows, columns

    @property
    def tiles(self) -> tuple[int, int]:
        """Tiles of a plane along each axis."""
        rows, columns = (ceil(size / step) for size, step in zip(_covered(self.layer), self.step, strict=True))
        return rows, columns

    @property
    def signals(self) -> int:
        return self.images * prod(self.tiles)

    def transform(self, operand: Operand, kind: Kind) -> Fft:
        """The transform of all filters, or of all tiles of all images."""
        outer, inner, *plane = operand.shape
        if operand.name in ("w", "dw"):
            return self._of_filters(outer * inner, (plane[0], plane[1]), kind)
        # A tile of a result, or of dy where weights are wanted, has no more than its own points.
        valid = self.step if operand.name in ("y", "dx") or self._is_gradient_of_weights(operand) else None
        tiling = Tiling(self.tiles, self.step, self._origin(operand), (plane[0], plane[1]), inner)
        batch = outer * inner * prod(self.tiles)
        return Fft(
            self.basis.size,
            batch,
            kind,
            valid=valid,
            layout=Layout.FREQUENCY,
            tiling=tiling,
            together=self.together(operand, batch),
        )

    def _of_filters(self, batch: int, taps: tuple[int, int], kind: Kind) -> Fft:
        """The transform of all filters. For dgrad the last tap is the first point and the others lie before it, so that
        valid results begin there.
        """
        start = None
        if self.layer.pass_ is Pass.DGRAD:
            start = tuple((1 - count) % points for count, points in zip(taps, self.basis.size, strict=True))
        return Fft(self.basis.size, batch, kind, valid=taps, layout=Layout.FREQUENCY, start=start)

    def _is_gradient_of_weights(self, operand: Operand) -> bool:
        return self.layer.pass_ is Pass.WGRAD and operand.name == "dy"

    def _origin(self, operand: Operand) -> tuple[int, int]:
        """First row and column of the first tile: the first pixel that the first taps meet, padding included."""
        before = tuple(pads[0] for pads in self.layer.padding)
        if operand.name == "x":
            return -before[0], -before[1]
        if operand.name == "dy" and self.layer.pass_ is Pass.DGRAD:
            rows, columns = self.layer.weight[2:]
            return before[0] - rows + 1, before[1] - columns + 1
        return 0, 0


def tile_bases(layer: Conv2d) -> tuple[Basis, ...]:
    """The likeliest tile sizes, the best first; none if filters are too large for a tile."""
    return _tile_bases(layer.input[0], layer.weight, _covered(layer))


def tile_sizes(layer: Conv2d, multiples: tuple[int, int], most: int) -> list[Basis]:
    """All tile sizes whose rows and columns are multiples of these numbers, and at most `most`."""
    return _tile_sizes(layer.weight, _covered(layer), multiples, most)


def likeliest(costs: Mapping[Basis, float]) -> tuple[Basis, ...]:
    """The sizes that cost least, the best first."""
    return tuple(sorted(costs, key=lambda basis: (costs[basis], basis.size))[:LIKELY])


def _covered(layer: Conv2d) -> tuple[int, int]:
    """Rows and columns that are cut into tiles: those of the result, or of dy."""
    rows, columns = layer.input[2:] if layer.pass_ is Pass.DGRAD else layer.output_size
    return rows, columns


@functools.lru_cache(256)
def _tile_bases(images: int, weight: tuple[int, ...], covered: tuple[int, int]) -> tuple[Basis, ...]:
    found = _tile_sizes(weight, covered, (1, 1), MOST)
    return likeliest({basis: _cost_ns(basis, images, weight, covered) for basis in found})


def _tile_sizes(
    weight: tuple[int, ...], covered: tuple[int, int], multiples: tuple[int, int], most: int
) -> list[Basis]:
    axes = zip(weight[2:], covered, multiples, strict=True)
    return [Basis(*size) for size in itertools.product(*(_sizes(*each, most) for each in axes))]


def _sizes(taps: int, covered: int, multiple: int, most: int) -> tuple[int, ...]:
    """Sizes from LEAST to `most` points that have small factors and leave a result, up to the smallest one of whole
    planes.
    """
    good = [
        n for n in range(max(LEAST, taps), most + 1) if max(prime_factors(n)) <= LARGEST_FACTOR and n % multiple == 0
    ]
    whole = next((n for n in good if n >= covered + taps - 1), most)
    return tuple(n for n in good if n <= whole)


def _cost_ns(basis: Basis, images: int, weight: tuple[int, ...], covered: tuple[int, int]) -> float:
    """Nanoseconds to move the spectra there and back and to multiply them; the planes are the same for all sizes.

    As `FourierParts.expected_ns` has it, and transforms weighed by their factors; on the reference GPU, since the tiles
    of a config are the same everywhere.
    """
    steps = (points - taps + 1 for points, taps in zip(basis.size, weight[2:], strict=True))
    signals = images * prod(ceil(size / step) for size, step in zip(covered, steps, strict=True))
    filters, channels = weight[:2]
    spectra = signals * channels + signals * filters + filters * channels
    nbytes = float(COMPLEX_BYTES * basis.frequencies * spectra)
    products_ns = FLOAT32_PRODUCTS.ns(8 * basis.frequencies * signals * filters * channels, REFERENCE)
    transforms_ns = memory_ns(nbytes * sector_share(basis.size) * slowness(basis), REFERENCE)
    return transforms_ns + max(memory_ns(nbytes, REFERENCE), products_ns)
