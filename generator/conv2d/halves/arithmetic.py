"""Which 16-bit numbers the tensor cores multiply for a layer, and where their sums are added up."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.problem import Conv2d
from warpsmith.generator.conv2d.words import Pass, Precision
from warpsmith.generator.problem import DType


@dataclasses.dataclass(frozen=True, slots=True)
class Arithmetic:
    """What a number becomes, and where sums leave the tensor cores.

    float32 becomes the sum of two halves under `ieee`, after scaling by a power of two; one half has the 10 bits of
    mantissa of TF32, and more than bfloat16. Data of 16 bits are multiplied as they are.
    """

    element: DType
    """float16 or bfloat16."""
    parts: int
    """2: high and low; 1: high alone."""
    scales: bool
    """Whether numbers are scaled so that the largest of an image, or of all weights, is near the largest half."""
    promotes: bool
    """Whether sums leave the tensor cores after each stage, since these cut off what float32 rounds."""
    images: int = 1
    """Images of the source that have a power of two each; 1 where the source has one for all."""

    @classmethod
    def of(cls, problem: Conv2d) -> Arithmetic:
        is_exact = problem.precision is Precision.IEEE
        if problem.dtype is not DType.FLOAT32:
            return cls(problem.dtype, parts=1, scales=False, promotes=is_exact)
        images = scaled_images(problem)
        return cls(DType.FLOAT16, parts=2 if is_exact else 1, scales=True, promotes=is_exact, images=images)

    chunk: ClassVar[int] = 8
    """Numbers that lie side by side: 16 bytes."""
    is_sliced: ClassVar[bool] = False
    template: ClassVar[str] = "conv2d/halves_scale.cu.jinja"
    """How numbers are scaled and cut."""

    @property
    def products(self) -> int:
        """Of 16-bit numbers for each product: that of both low parts is left out."""
        return 2 * self.parts - 1

    @property
    def told(self) -> str:
        """What a number becomes, for comments."""
        return str(self.element)

    @property
    def is_bfloat(self) -> bool:
        """Whether the numbers are bfloat16."""
        return self.element is DType.BFLOAT16


def scaled_images(problem: Conv2d) -> int:
    """Images of a layer's source that are scaled one by one; 1 for wgrad, which sums over them."""
    return 1 if problem.pass_ is Pass.WGRAD else problem.input[0]
