"""How far from the exact result a convolution layer may be, by the arithmetic that it asks for."""

from __future__ import annotations

from warpsmith.generator.conv2d import Conv2d, Precision
from warpsmith.tuner.operations.judge import FLOAT32_BOUND

_BOUNDS = {
    Precision.IEEE: FLOAT32_BOUND,
    Precision.TF32: 1e-3,
    Precision.F16: 1e-3,
    Precision.BF16: 8e-3,
}
"""Two factors of 11 significant bits, rounded to the nearest, move a term by 2^-10 of itself at the most; of 8 bits, by
2^-7."""


def bound_of(problem: Conv2d) -> float:
    """Largest error of a result over its scale. What rounding a result to 16 bits adds is taken off before."""
    return _BOUNDS[problem.precision]
