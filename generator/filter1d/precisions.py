"""Precisions of filters of signals."""

from __future__ import annotations

from warpsmith.errors import BadArgument
from warpsmith.generator.filter1d.fields import Filter1dFields
from warpsmith.generator.precision import BOUNDS, Precision
from warpsmith.generator.problem import Accuracy, DType, member

SIGNAL_BOUNDS = {Precision.IEEE: BOUNDS[Precision.IEEE], Precision.F16: 4e-3}
"""Precisions of filters, and the largest error of a result over its scale. Transforms in float16 have an error of 5e-4
to 8e-4 of the results' root mean square. A row of signs under a filter of one tap has results as large as the scale,
and of 2^28 normal deviates one is six times as large as their root mean square."""


def set_precision(problem: Filter1dFields) -> None:
    """Puts the field `precision` into canonical form; types and accuracy already are.

    Raises:
        BadArgument: an unknown precision, or one that these samples or this accuracy do not have.
    """
    precision = member(Precision, problem.precision, "precision", tuple(SIGNAL_BOUNDS))
    object.__setattr__(problem, "precision", precision)
    if precision is Precision.IEEE:
        return
    if problem.dtype not in (DType.FLOAT16, DType.BFLOAT16):
        raise BadArgument(f"precision {precision} is for float16 and bfloat16 signals; this one is {problem.dtype}")
    if problem.accuracy is not Accuracy.SIGNALWISE:
        raise BadArgument(f"precision {precision} is for accuracy signalwise; this one is {problem.accuracy}")
