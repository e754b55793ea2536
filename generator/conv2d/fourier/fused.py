"""Layers of few channels in the frequency domain, whose products are computed while the inverse transform loads.

With one to four channels, a number of the result's spectrum is a sum of one to four products. The inverse transform
computes this sum as it loads, so the spectra of the result are never stored. They are most of the bytes of such a
layer: those of L1 of fbfft's table 4 are 1.0 GB, written and read again, for 0.7 GB of results.

Source: Vasilache et al. 2014, "Fast Convolutional Nets With fbfft", section 6 ("the pointwise multiplications ... are
rather small, so our own matrix multiplication routines integrated with the rest of the convolution kernel code might
win over cuBLAS").
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

from warpsmith.generator.conv2d.fourier.basis import Basis, bases, slowness
from warpsmith.generator.conv2d.fourier.fourier_family import SPECTRA, Conv2dFft
from warpsmith.generator.conv2d.fourier.parts import FLOAT32_PRODUCTS, FourierParts, ProductRate, step_ns, transform_ns
from warpsmith.generator.conv2d.fourier.support import why_not_by_transforms
from warpsmith.generator.conv2d.fourier.tiled import Conv2dFftTiled
from warpsmith.generator.conv2d.fourier.tiles import TiledParts, likeliest, tile_sizes
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.device import REFERENCE, Device, Rates
from warpsmith.generator.fft.block.block_family import LARGE
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.fft.product import MOST_TERMS, Product
from warpsmith.generator.pipeline import Stage
from warpsmith.generator.steps import Workspace, aligned

FACTORS_SHARE = 5000 / REFERENCE.l2_bytes_per_ns
"""Share of the L2 rate at which factors come to where they are multiplied (measured, H200)."""
POINT_MULTIPLY_ADDS = REFERENCE.multiply_adds_per_ns / 1400
"""float32 multiply-adds in whose time a point is multiplied and transformed: 1400 points per ns were (measured, H200).
Of 13 sizes of tiles of three layers most took a tenth more or less than follows from these (H200, 2026-11-24)."""
MULTIPLES = (2, 4)
"""Divisors of the rows and the columns of a basis. With them, mirrored frequencies come in pairs."""
SECTOR = 32
MOST = 72
"""Most points of a tile along an axis: `tiles.MOST`, rounded up to the next multiple."""


class FusedParts(FourierParts):
    """A layer whose result spectra are not stored."""

    adds_parts: ClassVar[bool] = False
    """No: there are no stored result spectra in which parts could be added up."""

    @staticmethod
    def bases(layer: Conv2d) -> tuple[Basis, ...]:
        return bases(layer, MULTIPLES)

    @property
    def inverse(self) -> Fft:
        """The inverse transforms, which compute the products."""
        product = self.product
        made = Product(product.m, product.n, product.k, product.a, product.b, self.layer.bias)
        return dataclasses.replace(super().inverse, product=made)

    @property
    def has_bias_behind(self) -> bool:
        """No: the bias is an offset of the inverse transforms."""
        return False

    def expected_ns(self, rates: Rates, products: ProductRate = FLOAT32_PRODUCTS) -> float:  # noqa: ARG002
        """The time of all steps on a device of these rates; transforms multiply as they load."""
        first, second = (transform_ns(each, rates) for each in self.forward)
        return self.count * (first + self._last_ns(rates) + self.fold_ns(rates)) + second

    def _last_ns(self, rates: Rates) -> float:
        """The time of the transforms back."""
        inverse, product = self.inverse, self.inverse.product
        assert product is not None
        rows, columns = product.tile(inverse.points, LARGE)
        nbytes = SECTOR * product.sectors(rows, columns) / (rows * columns) * self.product.output.size
        points = inverse.batch * inverse.points * slowness(self.basis)
        computed_ns = points * POINT_MULTIPLY_ADDS / rates.multiply_adds_per_ns
        computed_ns += nbytes / (FACTORS_SHARE * rates.l2_bytes_per_ns)
        return step_ns(inverse.output.nbytes, rates, computed_ns)

    @property
    def spectra_bytes(self) -> int:
        return sum(aligned(each.nbytes) for each in self.product.inputs)

    def workspaces(self, names: tuple[str, str, str]) -> tuple[Workspace, ...]:
        """Workspaces without the spectra of the result."""
        return tuple(each for each in super().workspaces(names) if each.name != names[2])


class FusedTiledParts(FusedParts, TiledParts):
    """`FusedParts` for tiles of planes."""

    @staticmethod
    def bases(layer: Conv2d) -> tuple[Basis, ...]:
        return _tile_bases(layer)


@functools.lru_cache(256)
def _tile_bases(layer: Conv2d) -> tuple[Basis, ...]:
    """The likeliest tile sizes, the best first; none if filters are too large or sums have too many terms."""
    found = {basis: FusedTiledParts(layer, basis, 1) for basis in tile_sizes(layer, MULTIPLES, MOST)}
    costs = {basis: parts.expected_ns(REFERENCE) for basis, parts in found.items() if parts.product.k <= MOST_TERMS}
    return likeliest(costs)


class Conv2dFftFused(Conv2dFft):
    """`conv2d` of sums of few terms by transforms of whole planes; the inverse transforms compute the products."""

    name = "conv2d_fft_fused"
    parts: ClassVar[type[FourierParts]] = FusedParts

    def why_not(self, problem: Conv2d, device: Device) -> str | None:
        if why := why_not_by_transforms(problem) or self._why_not_fused(problem):
            return why
        return super().why_not(problem, device)

    def _why_not_fused(self, layer: Conv2d) -> str | None:
        terms = FusedParts(layer, Basis(2, 4), 1).product.k
        if terms > MOST_TERMS:
            return f"multiplies as it transforms back, for sums of {MOST_TERMS} terms at most; these have {terms}"
        return None

    def stages(self, problem: Conv2d) -> tuple[Stage, ...]:
        first, second, _, result = super().stages(problem)
        memory = {"a": SPECTRA[0], "b": SPECTRA[1], "offset": "b", "signal": result.memory["signal"]}
        return first, second, dataclasses.replace(result, memory=memory)


class Conv2dFftTiledFused(Conv2dFftFused, Conv2dFftTiled):
    """`conv2d_fft_fused` with tiles of the likeliest size."""

    name = "conv2d_fft_tiled_fused"
    parts = FusedTiledParts
    whole = Conv2dFftFused()


class Conv2dFftTiledFused2(Conv2dFftTiledFused):
    """`conv2d_fft_fused` with tiles of the second likeliest size."""

    name = "conv2d_fft_tiled_fused_2"
    rank = 1
