"""Float64 reference of `fft`: direct sums along one axis, then along the other."""

from __future__ import annotations

import math

from warpsmith.generator.fft.problem import Fft
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

_MOST_TERMS = 10**13
"""Multiply-adds above which the host's fast transforms take less time than direct sums on a GPU."""


class FftReference(ReferenceKernels[Fft]):
    """Direct sums with a kernel for each axis, one thread per number, and all roots of unity in a table."""

    def why_not(self, problem: Fft) -> str | None:
        if problem.product is not None:
            return "its spectra are products"
        if problem.together is not None:
            return "its signals are told by themselves"
        if self.multiply_adds(problem) > _MOST_TERMS:
            return "direct sums of so many points take longer than fast transforms on the host"
        return None

    def multiply_adds(self, problem: Fft) -> int:
        rows, _ = _points(problem)
        half = problem.spectrum_size[-1]
        along_rows, along_columns = (2 * problem.batch * rows * half * count for count in _points(problem))
        return along_rows + along_columns

    def program(self, problem: Fft) -> Program:
        output, (rows, columns) = problem.output, _points(problem)
        half = problem.spectrum_size[-1]
        counted = rows * (columns if problem.inverse else half)
        source = render(
            "reference/fft.cu.jinja",
            p=problem,
            rows=rows,
            columns=columns,
            half=half,
            axes=_axes(problem),
            # The mean is over complex numbers, of all points of the transforms; `finish` divides by the count of real
            # ones.
            factor=repr(output.components.size / (problem.batch * counted)),
            elements=output.components.size,
            peak=PEAK,
            span=SPAN,
            threads=THREADS,
        )
        between = problem.batch * rows * half
        second = problem.batch * rows * (columns if problem.inverse else half)
        given = problem.inputs[0].name
        blocks, last = (math.ceil(count / THREADS) for count in (between, second))
        passes = pass_blocks(output)
        return reference_program(
            source,
            (
                strips_launch("make_roots", math.ceil(max(rows, columns) / THREADS), "roots"),
                strips_launch("first_axis", blocks, given, "roots", "between"),
                strips_launch("second_axis", last, "between", "roots", EXPECTED, SUMS),
                finishing_launch(passes, EXPECTED, SCALE, SUMS),
            ),
            (Workspace("roots", 16 * (rows + columns)), Workspace("between", 16 * between), Workspace(SUMS, 8)),
        )


def _points(problem: Fft) -> tuple[int, int]:
    """Rows and columns of a transform; one row in one dimension."""
    *rows, columns = problem.size
    return (rows[0] if rows else 1), columns


def _axes(problem: Fft) -> list[dict[str, int | str]]:
    """Numbers of the rows and of the columns that map a point to an element of the signal."""
    found: list[dict[str, int | str]] = []
    for axis, points in enumerate(problem.size):
        border, tiling = problem.border, problem.tiling
        before, after = (0, 0) if border is None else border.pads[axis]
        found.append(
            {
                "points": points,
                "start": 0 if problem.start is None else problem.start[axis],
                "before": before,
                "valid": problem.signal_size[axis],
                "there": problem.signal_size[axis] + before + after,
                "mode": "" if border is None else str(border.mode),
                "count": 1 if tiling is None else tiling.count[axis],
                "step": 0 if tiling is None else tiling.step[axis],
                "origin": 0 if tiling is None else tiling.origin[axis],
                "plane": problem.signal_size[axis] if tiling is None else tiling.plane[axis],
            }
        )
    single: dict[str, int | str] = {
        "points": 1,
        "start": 0,
        "before": 0,
        "valid": 1,
        "there": 1,
        "mode": "",
        "count": 1,
        "step": 0,
        "origin": 0,
        "plane": 1,
    }
    return found if len(found) == 2 else [single, *found]
