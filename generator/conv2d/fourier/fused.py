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
import math
from typing import ClassVar

from warpsmith.generator.conv2d.fourier.parts import (
    FLOAT32_PRODUCTS,
    FourierParts,
    ProductRate,
    step_ns,
    transform_ns,
    why_not_by_transforms,
)
from warpsmith.generator.conv2d.fourier.plane_transforms import TILES, Basis, BasisRules, slowness
from warpsmith.generator.conv2d.fourier.product_stage import SPECTRA, ProductStage
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.device import REFERENCE, Rates
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
FEW_TAPS = 4.0
"""Part of the time that filters of few taps take longer, times the taps: 3x3 taps take 1.32 to 1.56 times what was
expected of them, 5x5 1.29, 7x7 1.25 (nine layers of 1 to 4 channels, H200, 2026-11-30)."""
MULTIPLES = (2, 4)
"""Divisors of the rows and the columns of a basis. With them, mirrored frequencies come in pairs."""
SECTOR = 32
MOST = 72
"""Most points of a tile along an axis: `plane_transforms.MOST`, rounded up to the next multiple."""


def _tile_cost_ns(layer: Conv2d, basis: Basis) -> float | None:
    parts = FusedParts(layer, basis, 1, TILES)
    return parts.expected_ns(REFERENCE) if parts.product.k <= MOST_TERMS else None


class FusedParts(FourierParts):
    """A layer whose result spectra are not stored."""

    adds_parts: ClassVar[bool] = False
    """No: there are no stored result spectra in which parts could be added up."""
    rules: ClassVar[BasisRules] = BasisRules(_tile_cost_ns, MULTIPLES, MOST)

    @functools.cached_property
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
        """Nanoseconds of all steps on a device with these rates; transforms multiply as they load."""
        first, second = (transform_ns(each, rates) for each in self.forward)
        whole_ns = self.count * (first + self._last_ns(rates) + self.fold_ns(rates)) + second
        return whole_ns * (1 + FEW_TAPS / math.prod(self.layer.weight[2:]))

    def _last_ns(self, rates: Rates) -> float:
        """Nanoseconds of the inverse transforms."""
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


class FusedStage(ProductStage):
    """Products of few terms, which the inverse transforms compute instead of a stage of their own."""

    parts = FusedParts

    def why_not(self, layer: Conv2d) -> str | None:
        if (why := why_not_by_transforms(layer)) is not None:
            return why
        terms = FusedParts(layer, Basis(2, 4), 1).product.k
        if terms > MOST_TERMS:
            return f"multiplies as it transforms back, for sums of {MOST_TERMS} terms at most; these have {terms}"
        return None

    def stages(self, parts: FourierParts) -> tuple[Stage, ...]:
        first, second, _, result = super().stages(parts)
        memory = {"a": SPECTRA[0], "b": SPECTRA[1], "offset": "b", "signal": result.memory["signal"]}
        return first, second, dataclasses.replace(result, memory=memory)
