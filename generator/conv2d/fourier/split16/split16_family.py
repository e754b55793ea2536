"""Layers in the frequency domain whose spectra are stored as split fp16 numbers, two for each float32.

The forward transforms store what the tensor-core products read. It is scaled by one power of two for all spectra of an
operand, or by one for each image of a batch in fprop and dgrad. The products scale back, and write complex float32
numbers for the inverse transform. Errors are relative to the largest number of an operand, or of an image, as a
transform's errors are relative to the largest number of its plane.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d.fourier.fourier_family import Conv2dFftWarpgroup
from warpsmith.generator.conv2d.fourier.parts import ProductRate, step_ns, transform_ns
from warpsmith.generator.conv2d.fourier.split16.split16_product import POWERS, HalvesProduct, expected_ns
from warpsmith.generator.conv2d.fourier.split16.split16_transform import (
    POWER,
    HalvedTransform,
    TransformApart,
    TransformInTurns,
)
from warpsmith.generator.conv2d.fourier.tiled import Conv2dFftTiled
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.products.split16.split16_maximum import samples
from warpsmith.generator.device import REFERENCE, Device, Rates
from warpsmith.generator.family import Family
from warpsmith.generator.fft.block.block_family import SHORT
from warpsmith.generator.fft.block.block_tile import may_mirror
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.pipeline import Stage
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.tensor_cores import WARPGROUP, TensorType, instruction_of

IN_TURNS, APART = TransformInTurns(), TransformApart()
SAMPLE_NS = 6200.0
"""Time of the launch that looks through a sample, and of the second one of the transforms, which ends as it begins."""
SLOWER, BY_PLANES_SLOWER = 0.05, 0.2
"""Shares by which transforms of large planes take longer to fp16: by sets of frequencies, and others (H100)."""
SHORT_SHARE = 2900 / REFERENCE.memory_bytes_per_ns
"""Share of the memory rate that transforms of short planes reach. With it 19 passes of L5, AlexNet and OverFeat take
0.96 to 1.04 of what is expected (H200, 2026-11-26); by the share of other transforms they took 0.80 to 0.95."""


class Conv2dFftHalves(Conv2dFftWarpgroup):
    """`conv2d` by transforms of whole planes to split fp16 spectra, and wgmma products on them."""

    name = "conv2d_fft_halves"
    product: ClassVar[Family] = HalvesProduct()
    product_rate = ProductRate(200_000, instruction_of(TensorType.F16, WARPGROUP))
    """Operations per nanosecond. L5 and AlexNet are bound by memory."""

    def expected_ns(self, problem: Conv2d, device: Device) -> float:
        """The time of its steps, with what halves take beside complex numbers.

        Large planes are estimated with the rates of the other transform families, which are slower than measured, so
        that the faster family becomes the default. On short planes those families do not win.
        """
        parts, rates = self._parts(problem), device.rates
        first, second = parts.forward
        if first.points > SHORT:
            each_ns = super().expected_ns(problem, device)
            added = [_looked_ns(each, rates) + _slower(each) * transform_ns(each, rates) for each in (first, second)]
        else:
            bytes_per_ns = SHORT_SHARE * rates.memory_bytes_per_ns
            config = self.product.default(self._product(parts), device)
            product_ns = expected_ns(parts.product, config, device)
            each_ns = parts.count * (product_ns + parts.fold_ns(rates) + parts.inverse.bytes / bytes_per_ns)
            added = [_looked_ns(each, rates) + each.bytes / bytes_per_ns for each in (first, second)]
        if self._product(parts).accuracy is Accuracy.ROWWISE:  # all numbers are looked through, image by image
            (signal,) = first.inputs
            added[0] += step_ns(signal.nbytes, rates) + rates.launch_ns - _looked_ns(first, rates)
        return each_ns + parts.count * added[0] + (parts.count if parts.is_sum else 1) * added[1]

    def stages(self, problem: Conv2d) -> tuple[Stage, ...]:
        first, second, product, result = super().stages(problem)
        assert isinstance(product.problem, Cgemm)
        first = self._with_images_apart(first, product.problem)
        a, b = _transform_of(product.problem.a.transposes), _transform_of(not product.problem.b.transposes)
        powers = (f"{first.name}_{POWER}", f"{second.name}_{POWER}")
        memory = {**product.memory, **dict(zip(POWERS, powers, strict=True))}
        return (
            dataclasses.replace(first, family=a),
            dataclasses.replace(second, family=b),
            dataclasses.replace(product, memory=memory),
            result,
        )

    def _with_images_apart(self, first: Stage, product: Cgemm) -> Stage:
        """The stage of the operand that is split with the batch, scaled image by image if there are several images."""
        assert isinstance(first.problem, Fft)
        if product.accuracy is not Accuracy.ROWWISE:
            return first
        tiles = 1 if first.problem.tiling is None else first.problem.tiling.tiles
        images = product.m // tiles
        return dataclasses.replace(
            first, problem=dataclasses.replace(first.problem, together=first.problem.batch // images)
        )


class Conv2dFftTiledHalves(Conv2dFftHalves, Conv2dFftTiled):
    """`conv2d_fft_halves` with tiles of the likeliest size."""

    name = "conv2d_fft_tiled_halves"


def _transform_of(is_turned: bool) -> HalvedTransform:
    """The transform for a transposed operand, whose products sum over rows, or for one whose terms are contiguous."""
    return APART if is_turned else IN_TURNS


def _looked_ns(transform: Fft, rates: Rates) -> float:
    """Time of what finds the largest number."""
    (signal,) = transform.inputs
    return SAMPLE_NS if samples(signal) else step_ns(signal.nbytes, rates)


def _slower(transform: Fft) -> float:
    """Share by which a transform to split fp16 numbers takes longer than one to complex numbers."""
    return SLOWER if may_mirror(transform) else BY_PLANES_SLOWER
