"""Layers in the frequency domain whose spectra are stored as split fp16 numbers, two for each float32.

The forward transforms store what the tensor-core products read. It is scaled by one power of two for all spectra of an
operand, or by one for each image of a batch in fprop and dgrad. The products scale back, and write complex float32
numbers for the inverse transform. Errors are relative to the largest number of an operand, or of an image, as a
transform's errors are relative to the largest number of its plane.
"""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d.fourier.parts import FourierParts, ProductRate, step_ns, transform_ns
from warpsmith.generator.conv2d.fourier.product_stage import ProductStage
from warpsmith.generator.conv2d.fourier.split16.split16_product import POWERS, Split16Product, expected_ns
from warpsmith.generator.conv2d.fourier.split16.split16_transform import (
    POWER,
    Split16Transform,
    TransformApart,
    TransformInTurns,
)
from warpsmith.generator.conv2d.products.split16.split16_maximum import samples
from warpsmith.generator.device import REFERENCE, Device, Rates
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
SHORT_LEAST_NS = 4500.0
"""Least time of a launch of such transforms. Layers of 7x7 to 14x14 pixels took 11 to 14 us longer than expected by
bytes alone, three launches together, and those of more than 60 us as long as expected (H200, 2026-11-28)."""


class Split16Stage(ProductStage):
    """wgmma products of spectra that the transforms store as split fp16 numbers."""

    def expected_ns(self, parts: FourierParts, device: Device) -> float:
        """Nanoseconds of all steps, with what split fp16 spectra take beside complex numbers.

        Large planes are estimated with the rates of the other transform families, which are slower than measured, so
        that the faster family becomes the default. On short planes those families do not win.
        """
        product, rates = self.problem(parts), device.rates
        first, second = parts.forward
        if first.points > SHORT:
            each_ns = super().expected_ns(parts, device)
            added = [_maximum_ns(each, rates) + _slower(each) * transform_ns(each, rates) for each in (first, second)]
        else:
            product_ns = expected_ns(parts.product, self.family.default(product, device), device)
            each_ns = parts.count * (product_ns + parts.fold_ns(rates) + _short_ns(parts.inverse, rates))
            added = [_maximum_ns(each, rates) + _short_ns(each, rates) for each in (first, second)]
        if product.accuracy is Accuracy.ROWWISE:  # the maximum of each image takes all of its numbers
            (signal,) = first.inputs
            added[0] += step_ns(signal.nbytes, rates) + rates.launch_ns - _maximum_ns(first, rates)
        return each_ns + parts.count * added[0] + (parts.count if parts.is_sum else 1) * added[1]

    def stages(self, parts: FourierParts) -> tuple[Stage, ...]:
        first, second, product, result = super().stages(parts)
        assert isinstance(product.problem, Cgemm)
        first = _with_images_apart(first, product.problem)
        a, b = _transform_of(product.problem.a.transposes), _transform_of(not product.problem.b.transposes)
        powers = (f"{first.name}_{POWER}", f"{second.name}_{POWER}")
        memory = {**product.memory, **dict(zip(POWERS, powers, strict=True))}
        return (
            dataclasses.replace(first, family=a),
            dataclasses.replace(second, family=b),
            dataclasses.replace(product, memory=memory),
            result,
        )


SPLIT16 = Split16Stage(
    Split16Product(),
    ProductRate(200_000, instruction_of(TensorType.F16, WARPGROUP)),  # L5 and AlexNet are bound by memory
    Accuracy.NORMWISE,
    is_selective=True,
)


def _with_images_apart(first: Stage, product: Cgemm) -> Stage:
    """The stage of the operand that is split with the batch, scaled image by image if there are several images."""
    assert isinstance(first.problem, Fft)
    if product.accuracy is not Accuracy.ROWWISE:
        return first
    tiles = 1 if first.problem.tiling is None else first.problem.tiling.tiles
    together = first.problem.batch // (product.m // tiles)
    return dataclasses.replace(first, problem=dataclasses.replace(first.problem, together=together))


def _transform_of(is_transposed: bool) -> Split16Transform:
    """The transform for a transposed operand, whose products sum over rows, or for one whose terms are contiguous."""
    return APART if is_transposed else IN_TURNS


def _maximum_ns(transform: Fft, rates: Rates) -> float:
    """Nanoseconds of the launch that finds the largest number."""
    (signal,) = transform.inputs
    return SAMPLE_NS if samples(signal) else step_ns(signal.nbytes, rates)


def _short_ns(transform: Fft, rates: Rates) -> float:
    """Nanoseconds of transforms of short planes."""
    return max(transform.bytes / (SHORT_SHARE * rates.memory_bytes_per_ns), SHORT_LEAST_NS * rates.cycle_ratio)


def _slower(transform: Fft) -> float:
    """Share by which a transform to split fp16 numbers takes longer than one to complex numbers."""
    return SLOWER if may_mirror(transform) else BY_PLANES_SLOWER
