"""Precisions of products and sums, and the error bounds that they allow."""

from __future__ import annotations

import enum

from warpsmith.generator.problem import FLOAT32_BOUND


class Precision(enum.StrEnum):
    """Precision of products and sums. Error bounds are relative to the scale that the problem's `accuracy` names."""

    IEEE = "ieee"
    """Each result is as accurate as in float32 throughout. Error bound 1e-6."""
    TF32 = "tf32"
    """Factors may be rounded to 10 bits of mantissa, as TF32 or as fp16 scaled by a power of two. Error bound 1e-3."""
    F16 = "f16"
    """Factors may be rounded to float16, scaled by powers of two if data are float32. Error bound 1e-3."""
    BF16 = "bf16"
    """Factors may be rounded to bfloat16, which has 7 bits of mantissa. Error bound 8e-3."""


BOUNDS = {
    Precision.IEEE: FLOAT32_BOUND,
    Precision.TF32: 1e-3,
    Precision.F16: 1e-3,
    Precision.BF16: 8e-3,
}
"""Largest error of a result over its scale. Two factors of 11 significant bits, rounded to the nearest, change a term
by at most 2^-10 of itself; two of 8 bits, by at most 2^-7.
"""
