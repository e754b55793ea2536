"""The words of `conv2d`: which of its three passes, in which arithmetic, in which layout."""

from __future__ import annotations

import enum

from warpsmith.generator.bounds import FLOAT32_BOUND


class Pass(enum.StrEnum):
    """Which of a layer's three computations; each is a problem of its own."""

    FPROP = "fprop"
    """The result of the layer: (x, w[, b]) -> y."""
    DGRAD = "dgrad"
    """The gradient of its input: (dy, w) -> dx."""
    WGRAD = "wgrad"
    """The gradient of its weights: (x, dy) -> dw."""


class Precision(enum.StrEnum):
    """How products and sums are formed."""

    IEEE = "ieee"
    """float32 throughout: each result is within 1e-6 of what the problem's `accuracy` names."""
    TF32 = "tf32"
    """Factors may be rounded to 10 bits of mantissa, as TF32 has, and halves scaled by a power of two: 1e-3."""
    F16 = "f16"
    """Factors may be rounded to float16, scaled by powers of two where data are float32: 1e-3."""
    BF16 = "bf16"
    """Factors may be rounded to bfloat16, which has 7 bits of mantissa: 8e-3."""


BOUNDS = {
    Precision.IEEE: FLOAT32_BOUND,
    Precision.TF32: 1e-3,
    Precision.F16: 1e-3,
    Precision.BF16: 8e-3,
}
"""Largest error of a result over its scale. Two factors of 11 significant bits, rounded to the nearest, move a term by
2^-10 of itself at the most; of 8 bits, by 2^-7."""


class ImageLayout(enum.StrEnum):
    """Memory layout of images, the slowest dimension first."""

    NCHW = "nchw"
    """PyTorch's default."""
    NHWC = "nhwc"
    """PyTorch's `channels_last`. Shapes stay (N, C, H, W), and strides put the channels of a pixel side by side;
    weights, (K, C/G, R, S), lie likewise."""
