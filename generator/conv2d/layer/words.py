"""Enumerations of `conv2d`: passes with the facts that tell them apart, precisions and image layouts."""

from __future__ import annotations

import enum
from typing import TypeVar

from warpsmith.errors import BadArgument
from warpsmith.generator.precision import Precision
from warpsmith.generator.problem import DType

T = TypeVar("T")


class Pass(enum.StrEnum):
    """The three computations of a layer, and what sets each apart; each is a problem of its own."""

    FPROP = "fprop"
    """Result of the layer: (x, w[, b]) -> y."""
    DGRAD = "dgrad"
    """Gradient of the layer's input: (dy, w) -> dx."""
    WGRAD = "wgrad"
    """Gradient of the layer's weights: (x, dy) -> dw."""

    def select(self, fprop: T, dgrad: T, wgrad: T) -> T:
        """The argument of this pass."""
        if self is Pass.FPROP:  # by comparison, because torch.compile iterates over no enum
            return fprop
        return dgrad if self is Pass.DGRAD else wgrad

    @property
    def number(self) -> int:
        """Place of the pass in a training step, from 0."""
        return self.select(0, 1, 2)

    @property
    def is_gradient(self) -> bool:
        return self is not Pass.FPROP

    @property
    def sums_images(self) -> bool:
        """Whether a result is a sum over the batch, and a weight; results of the other passes belong to an image."""
        return self is Pass.WGRAD

    @property
    def is_transposed(self) -> bool:
        """Whether the pass maps y to x: it sums over filters, with the taps rotated by 180 degrees."""
        return self is Pass.DGRAD

    @property
    def factors(self) -> tuple[str, str]:
        """Names of both operands as factors of `gemm`: the one with M, then the one with N."""
        return self.select(("x", "w"), ("dy", "w"), ("dy", "x"))

    @property
    def beside_dy(self) -> str:
        """Name of a gradient's other factor."""
        return self.select("", "w", "x")

    def gemm(self, images: T, channels: T, filters: T) -> tuple[T, T, T]:
        """M, N and K of the pass as a matrix product over images, channels of x and channels of y."""
        return self.select((images, filters, channels), (images, channels, filters), (filters, channels, images))


GRADIENTS = (Pass.DGRAD, Pass.WGRAD)


DTYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
"""Element types of layers."""
PRECISIONS = {
    DType.FLOAT32: tuple(Precision),
    DType.FLOAT16: (Precision.IEEE, Precision.F16),
    DType.BFLOAT16: (Precision.IEEE, Precision.BF16),
}
"""Precisions per element type. 16-bit data are rounded to their own type, and would lose digits in the other."""


def check_precision(precision: Precision, dtype: DType) -> None:
    """Raises BadArgument if data of this type do not have this precision."""
    if precision not in PRECISIONS[dtype]:
        choices = ", ".join(PRECISIONS[dtype])
        raise BadArgument(f"precision {precision} is not for {dtype} data; choose one of {choices}")


class ImageLayout(enum.StrEnum):
    """Memory layout of images, the slowest dimension first."""

    NCHW = "nchw"
    """PyTorch's default."""
    NHWC = "nhwc"
    """PyTorch's `channels_last`. Shapes stay (N, C, H, W), and strides make the channels of a pixel contiguous.
    Weights, (K, C/G, R, S), have the same layout.
    """
