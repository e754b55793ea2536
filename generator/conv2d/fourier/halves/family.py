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
from warpsmith.generator.conv2d.fourier.family import Conv2dFftWarpgroup
from warpsmith.generator.conv2d.fourier.halves.product import POWERS, HalvesProduct, expected_us
from warpsmith.generator.conv2d.fourier.halves.transform import POWER, HalvedTransform, TransformApart, TransformInTurns
from warpsmith.generator.conv2d.fourier.parts import BYTES_A_NS, STEP_NS, transform_ns
from warpsmith.generator.conv2d.fourier.tiled import Conv2dFftTiled
from warpsmith.generator.conv2d.halves.maximum import samples
from warpsmith.generator.device import H200
from warpsmith.generator.family import Family
from warpsmith.generator.fft.block.guesses import SHORT
from warpsmith.generator.fft.block.mirrored import may_mirror
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.pipeline import Stage
from warpsmith.generator.problem import Accuracy, Problem

IN_TURNS, APART = TransformInTurns(), TransformApart()
SAMPLE_NS = 6200.0
"""Nanoseconds of the launch that reads a sample, and of the second launch of the transforms, which exits at once."""
SLOWER, BY_PLANES_SLOWER = 0.05, 0.2
"""Shares by which transforms of large planes take longer to fp16: by sets of frequencies, and others (H100)."""
SHORT_BYTES_A_NS = 2900.0
"""Bytes per nanosecond of transforms of short planes. With it 19 passes of L5, AlexNet and OverFeat take 0.96 to 1.04
of the expected time (H200, 2026-11-26); by BYTES_A_NS they took 0.80 to 0.95.
"""


class Conv2dFftHalves(Conv2dFftWarpgroup):
    """`conv2d` by transforms of whole planes to split fp16 spectra, and wgmma products on them."""

    name = "conv2d_fft_halves"
    product: ClassVar[Family] = HalvesProduct()
    flops_a_ns = 200_000.0
    """Operations per nanosecond. L5 and AlexNet are bound by memory."""

    def expected_ns(self, problem: Problem) -> float:
        """Expected nanoseconds of its steps on a large GPU, including the extra cost of split fp16 over complex
        numbers.

        Large planes are estimated with the rates of the other transform families, which are slower than measured, so
        that the faster family becomes the default. On short planes those families do not win.
        """
        parts = self._parts(problem)
        first, second = parts.forward
        if first.points > SHORT:
            each_ns = super().expected_ns(problem)
            added = [_looked_ns(each) + _slower(each) * transform_ns(each) for each in (first, second)]
        else:
            product_us = expected_us(parts.product, self.product.default(self._product(parts), H200), H200)
            each_ns = parts.count * (1000 * product_us + parts.fold_ns + parts.inverse.bytes / SHORT_BYTES_A_NS)
            added = [_looked_ns(each) + each.bytes / SHORT_BYTES_A_NS for each in (first, second)]
        if self._product(parts).accuracy is Accuracy.ROWWISE:  # every number is read, image by image
            (signal,) = first.inputs
            added[0] += signal.nbytes / BYTES_A_NS + 2 * STEP_NS - _looked_ns(first)
        return each_ns + parts.count * added[0] + (parts.count if parts.is_sum else 1) * added[1]

    def stages(self, problem: Problem) -> tuple[Stage, ...]:
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


def _looked_ns(transform: Fft) -> float:
    """Expected nanoseconds to find the largest number."""
    (signal,) = transform.inputs
    return SAMPLE_NS if samples(signal) else signal.nbytes / BYTES_A_NS + STEP_NS


def _slower(transform: Fft) -> float:
    """Share by which a transform to split fp16 numbers takes longer than one to complex numbers."""
    return SLOWER if may_mirror(transform) else BY_PLANES_SLOWER
