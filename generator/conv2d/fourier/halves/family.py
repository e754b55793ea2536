"""Layers in the frequency domain whose spectra are halves in memory, each float32 as two.

The forward transforms store what the products of tensor cores read, scaled by one power of two for all spectra of an
operand; the products scale back, and write complex float32 numbers for the transform back. Errors are relative to the
largest number of an operand, as those of a transform are to that of its plane.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.cgemm import Cgemm
from warpsmith.generator.conv2d.fourier.family import Conv2dFftWarpgroup
from warpsmith.generator.conv2d.fourier.halves.product import POWERS, HalvesProduct
from warpsmith.generator.conv2d.fourier.halves.transform import POWER, HalvedTransform, TransformApart, TransformInTurns
from warpsmith.generator.conv2d.fourier.parts import BYTES_A_NS, STEP_NS
from warpsmith.generator.conv2d.fourier.tiled import Conv2dFftTiled
from warpsmith.generator.family import Family
from warpsmith.generator.pipeline import Stage
from warpsmith.generator.problem import Problem

IN_TURNS, APART = TransformInTurns(), TransformApart()


class Conv2dFftHalves(Conv2dFftWarpgroup):
    """`conv2d` by transforms of whole planes to halves, and products of Hopper's warpgroups on them."""

    name = "conv2d_fft_halves"
    product: ClassVar[Family] = HalvesProduct()
    flops_a_ns = 250_000.0

    def expected_ns(self, problem: Problem) -> float:
        """What its steps take on a large GPU, with the reads that find the largest numbers."""
        parts = self._parts(problem)
        read = sum(each.nbytes / BYTES_A_NS + STEP_NS for each in parts.factors)
        return super().expected_ns(problem) + read

    def stages(self, problem: Problem) -> tuple[Stage, ...]:
        first, second, product, result = super().stages(problem)
        assert isinstance(product.problem, Cgemm)
        a, b = _transform_of(product.problem.a.transposes), _transform_of(not product.problem.b.transposes)
        powers = (f"{first.name}_{POWER}", f"{second.name}_{POWER}")
        memory = {**product.memory, **dict(zip(POWERS, powers, strict=True))}
        return (
            dataclasses.replace(first, family=a),
            dataclasses.replace(second, family=b),
            dataclasses.replace(product, memory=memory),
            result,
        )


class Conv2dFftTiledHalves(Conv2dFftHalves, Conv2dFftTiled):
    """The same with tiles of the likeliest size."""

    name = "conv2d_fft_tiled_halves"


def _transform_of(is_turned: bool) -> HalvedTransform:
    """To halves of which products sum over rows, where they are turned, or over what lies side by side."""
    return APART if is_turned else IN_TURNS
