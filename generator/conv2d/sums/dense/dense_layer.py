"""A layer whose filters cover a whole image, as a matrix product: rows, columns, and how they lie in memory."""

from __future__ import annotations

import dataclasses
import math

from warpsmith.generator.conv2d.layer.problem import Conv2d

VECTOR_BYTES = 16
"""Most bytes that a thread loads at once."""


@dataclasses.dataclass(frozen=True, slots=True)
class DenseLayer:
    """The product of `rows` by `terms` and `terms` by `columns` numbers that a pass is.

    fprop: rows are images and columns are filters, both factors contiguous along the terms, the pixels of all channels.
    dgrad: rows are images, columns pixels of x, terms filters. wgrad: rows are filters, columns pixels of x, terms
    images. For these two the second factor is contiguous along the columns, as the result is.
    """

    rows: int
    columns: int
    terms: int
    row_stride: int
    """Elements of the first factor from one row to the next."""
    term_stride: int
    vector: int
    """Elements that are read at once: along the terms in fprop, along the columns otherwise."""

    @classmethod
    def of(cls, problem: Conv2d) -> DenseLayer:
        images, filters, pixels = problem.input[0], problem.weight[0], math.prod(problem.input[1:])
        most = VECTOR_BYTES // problem.dtype.itemsize
        rows, columns, terms = problem.pass_.select(
            (images, filters, pixels), (images, pixels, filters), (filters, pixels, images)
        )
        row_stride, term_stride = problem.pass_.select((pixels, 1), (filters, 1), (1, filters))
        return cls(rows, columns, terms, row_stride, term_stride, vector=math.gcd(pixels, most))


def why_not_dense(problem: Conv2d) -> str | None:
    """Why a layer is no product of this kind, in one line; None if it is one."""
    if problem.groups > 1 or problem.weight[2:] != problem.input[2:] or problem.padded_size != problem.input[2:]:
        return "solves layers of one group whose filters have the size of an image, without padding"
    if any(dilation > 1 and taps > 1 for dilation, taps in zip(problem.dilation, problem.weight[2:], strict=True)):
        return "solves layers without dilation"
    return None
