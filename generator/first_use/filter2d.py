"""Reference kernels of `filter2d`."""

from __future__ import annotations

from math import prod

from warpsmith.generator.filter2d.problem import Border, Filter2d
from warpsmith.generator.first_use.reference import ImagePlanes, Reference, Scale, packed, reference_program
from warpsmith.generator.padding import Outside
from warpsmith.generator.problem import Accuracy

_SCALES = {
    Accuracy.ELEMENTWISE: Scale.TERMS,
    Accuracy.NORMWISE: Scale.WINDOW,
    Accuracy.IMAGEWISE: Scale.PLANE,
}


def filter2d_reference(problem: Filter2d, threads: int) -> Reference:
    """Reference whose sums are one window of an image times a filter, for all types, borders and accuracies."""
    image, weights, result = problem.operands
    rows, columns = problem.output_shape
    row_bytes = problem.pitch or image.dtype.itemsize * problem.channels * problem.image[1]
    integers = {
        "border": problem.border.outside or Outside.CONSTANT,
        "convolves": int(problem.convolve),
        "by_window": int(problem.accuracy is Accuracy.NORMWISE),
        "channels": problem.channels,
        "filters": problem.filters,
        "rows": rows,
        "columns": columns,
        "image_rows": problem.image[0],
        "image_columns": problem.image[1],
        "filter_rows": problem.filter[0],
        "filter_columns": problem.filter[1],
        "rows_before": problem.before[0],
        "columns_before": problem.before[1],
        "row_bytes": row_bytes,
        "plane_bytes": problem.image[0] * row_bytes,
    }
    reals = {"cval": problem.cval}
    return Reference(
        program=reference_program("filter2d", threads, integers, reals, image.dtype, result.dtype),
        values=packed(integers, reals),
        inputs=(image.name, weights.name, weights.name),
        terms=prod(problem.filter),
        term_cost=1,
        scale=_SCALES[problem.accuracy],
        groups=problem.planes if problem.accuracy is Accuracy.IMAGEWISE else 1,
        from_host=frozenset({weights.name}),
        planes=ImagePlanes(
            rows=problem.image[0],
            row_elements=problem.image[1] * problem.channels,
            row_bytes=row_bytes,
            outside=abs(problem.cval) if problem.border is Border.CONSTANT else 0.0,
            filters=problem.filters,
            filter=problem.filter,
            results=result.size // (problem.planes * problem.filters),
        ),
    )
