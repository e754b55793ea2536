"""The 16-bit element type that the tensor cores multiply for a layer, where partial sums are accumulated, and
layers that are solved so.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.conv2d.layer.sided_family import why_not_counted
from warpsmith.generator.conv2d.products.split16.split16_folding import Folding
from warpsmith.generator.padding import PaddingMode
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import Accuracy, DType, NonFinite


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
        images = problem.scales
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
    def description(self) -> str:
        """Name of the element type, for comments in generated source."""
        return str(self.element)

    @property
    def is_bfloat(self) -> bool:
        return self.element is DType.BFLOAT16


def why_not_split16(layer: Conv2d) -> str | None:
    """Why such a family does not solve a layer, in one line; None if it does."""
    if layer.accuracy is not Accuracy.NORMWISE:
        return 'splits numbers relative to the largest of an operand: needs accuracy="normwise"'
    if layer.padding_mode is not PaddingMode.ZEROS:
        return "has zeros between its images: solves padding_mode zeros only"
    return why_not_counted(layer)


def why_not_within_windows(layer: Conv2d) -> str | None:
    """Why 16-bit products let a NaN reach results whose sum does not contain it; None if they do not, or may."""
    if layer.nonfinite is not NonFinite.WINDOW:
        return None
    if layer.pass_.sums_images:
        return "multiplies what lies between images by zero, and a NaN beside it: needs nonfinite any"
    if Folding.of(layer) is not None:
        return "has taps of zero where rows or columns are channels, which a NaN meets: needs nonfinite any"
    return None
