"""Interior of an image filter: outputs whose windows lie within the image. The frame around is computed singly."""

from __future__ import annotations

from math import ceil

from warpsmith.generator.filter2d.problem import Filter2d


def reach(problem: Filter2d, columns: int) -> int:
    """Elements of a row that the windows of `columns` adjacent outputs cover."""
    return columns + (problem.filter[1] - 1) * problem.channels


def rows_inside(problem: Filter2d, rows_period: int, unroll: int, beyond: int = 0) -> tuple[int, int]:
    """First row and number of rows of the interior, in whole turns of the loop.

    Their windows, and `beyond` rows below, lie within the image.
    """
    before = problem.before[0]
    first = ceil(before / rows_period) * rows_period
    end = problem.image[0] - (problem.filter[0] - 1 - before) - beyond
    return first, max(0, (min(end, problem.output_shape[0]) - first) // unroll * unroll)


def last_column(problem: Filter2d, first: int, columns: int, lead: int, loaded: int, aligned: int) -> int:
    """Column where the last thread or warpgroup begins that computes `columns` elements of a row.

    It is left of `first` if there is none. It lies a multiple of `aligned` right of `first`, where the first one
    begins. Its `loaded` elements, which begin `lead` before its windows, lie within a row of the image.
    """
    start = first - problem.before[1] * problem.channels - lead
    image_end = problem.image[1] * problem.channels - loaded - start
    result_end = problem.output_shape[1] * problem.channels - columns - first
    return first + min(image_end, result_end) // aligned * aligned


def outside(problem: Filter2d, rows: int, columns: int) -> int:
    """Outputs of one plane outside an interior of `rows` by `columns` elements."""
    return problem.output_shape[0] * problem.output_shape[1] * problem.channels - rows * columns
