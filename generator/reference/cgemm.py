"""Float64 reference of `cgemm`: one thread per result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.problem import Accuracy
from warpsmith.generator.program import Program
from warpsmith.generator.reference.kernels import (
    EXPECTED,
    PEAK,
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

_SEGMENTS: Mapping[Accuracy, Callable[[Cgemm], int]] = {
    Accuracy.ELEMENTWISE: lambda _: 0,
    Accuracy.NORMWISE: lambda problem: problem.batch,
    Accuracy.ROWWISE: lambda problem: problem.batch * problem.m,
}
"""Number of equal parts of the results, in C order, each with a root mean square of its own; 0 if none counts."""


class CgemmReference(ReferenceKernels[Cgemm]):
    """Sums of a result's real and imaginary part, and of its terms' magnitudes, in one thread."""

    def multiply_adds(self, problem: Cgemm) -> int:
        return problem.flops

    def program(self, problem: Cgemm) -> Program:
        segments = _SEGMENTS[problem.accuracy](problem)
        source = render(
            "reference/cgemm.cu.jinja",
            p=problem,
            segments=segments,
            peak=PEAK,
            span=SPAN,
            threads=THREADS,
        )
        output = problem.output
        passes = pass_blocks(output, max(1, segments))
        return reference_program(
            source,
            (
                strips_launch("add_up", math.ceil(output.size / THREADS), "a", "b", EXPECTED, SCALE),
                strips_launch("add_squares", passes, EXPECTED, SUMS),
                finishing_launch(passes, EXPECTED, SCALE, SUMS),
            ),
            (Workspace(SUMS, 8 * max(1, segments)),),
        )
