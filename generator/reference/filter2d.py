"""Float64 reference of `filter2d`: one thread per result."""

from __future__ import annotations

import math

from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Program
from warpsmith.generator.reference.kernels import (
    EXPECTED,
    SCALE,
    SPAN,
    SUMS,
    THREADS,
    ReferenceKernels,
    finishing_launch,
    pass_blocks,
    reference_program,
    strips_launch,
)
from warpsmith.generator.render import render
from warpsmith.generator.steps import Workspace


class Filter2dReference(ReferenceKernels[Filter2d]):
    """Sum of a result, sum of its terms' magnitudes, and its window's largest pixel, in one thread."""

    def why_not(self, problem: Filter2d) -> str | None:
        if problem.accuracy is Accuracy.IMAGEWISE:
            return "its scale is a filter's largest gain, which is found by a transform on the host"
        return None

    def multiply_adds(self, problem: Filter2d) -> int:
        return problem.flops

    def program(self, problem: Filter2d) -> Program:
        output, (image, *_) = problem.output, problem.operands
        steps = image.element_strides
        source = render(
            "reference/filter2d.cu.jinja",
            p=problem,
            results=problem.output_shape,
            before=problem.before,
            plane_step=steps[0] if problem.planes > 1 else 0,
            row_step=steps[1] if problem.planes > 1 else steps[0],
            normwise=problem.accuracy is Accuracy.NORMWISE,
            segments=0,
            span=SPAN,
            threads=THREADS,
        )
        passes = pass_blocks(output)
        return reference_program(
            source,
            (
                strips_launch("add_up", math.ceil(output.size / THREADS), "image", "weights", EXPECTED, SCALE),
                finishing_launch(passes, EXPECTED, SCALE, SUMS),
            ),
            (Workspace(SUMS, 8),),
        )
