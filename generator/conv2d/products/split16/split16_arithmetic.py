"""The 16-bit element type that the tensor cores multiply for a layer, and where partial sums are accumulated."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.words import Pass, Precision
from warpsmith.generator.problem import DType


@dataclasses.dataclass(frozen=True, slots=True)
class Arithmetic:
    """How operands become 16-bit numbers, and where partial sums leave the tensor cores.

    Under `ieee`, a float32 number becomes the sum of two fp16 numbers after scaling by a power of two. One fp16 number
    has the 10 mantissa bits of TF32, and more than bfloat16. Data of 16 bits are multiplied unchanged.
    """

    element: DType
    """Element type of the products, float16 or bfloat16."""
    parts: int
    """Number of fp16 parts per operand. 2: high and low; 1: high alone."""
    scales: bool
    """Whether operands are scaled so that the largest number of an image, or of all weights, is near fp16's largest."""
    promotes: bool
    """Whether sums are added to float32 registers after each stage, because tensor cores truncate where float32 rounds.
    """
    images: int = 1
    """Number of source images with a power of two each; 1 where one power serves the whole source."""

    @classmethod
    def of(cls, problem: Conv2d) -> Arithmetic:
        is_exact = problem.precision is Precision.IEEE
        if problem.dtype is not DType.FLOAT32:
            return cls(problem.dtype, parts=1, scales=False, promotes=is_exact)
        images = scaled_images(problem)
        return cls(DType.FLOAT16, parts=2 if is_exact else 1, scales=True, promotes=is_exact, images=images)

    chunk: ClassVar[int] = 8
    """Numbers in a channel vector of 16 bytes."""
    is_sliced: ClassVar[bool] = False
    template: ClassVar[str] = "conv2d/halves_scale.cu.jinja"
    """Template of the device functions that scale and split numbers."""

    @property
    def products(self) -> int:
        """16-bit products per product of the layer. The product of both low parts is left out."""
        return 2 * self.parts - 1

    @property
    def told(self) -> str:
        """Name of the element type, for comments in generated source."""
        return str(self.element)

    @property
    def is_bfloat(self) -> bool:
        return self.element is DType.BFLOAT16


def scaled_images(problem: Conv2d) -> int:
    """Number of source images that are scaled one by one; 1 for wgrad, which sums over images."""
    return 1 if problem.pass_ is Pass.WGRAD else problem.input[0]
