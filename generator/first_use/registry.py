"""Operations whose results first use can check; docs/guide/adding-an-operation.md says how to add one."""

from __future__ import annotations

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.conv2d.layer.problem import Conv2d
from warpsmith.generator.fft.problem import Fft
from warpsmith.generator.filter1d.problem import Filter1d
from warpsmith.generator.filter2d.problem import Filter2d
from warpsmith.generator.first_use.cgemm import cgemm_reference
from warpsmith.generator.first_use.conv2d import conv2d_reference
from warpsmith.generator.first_use.fft import fft_reference
from warpsmith.generator.first_use.filter1d import filter1d_reference
from warpsmith.generator.first_use.filter1d_gradients import filter1d_gradient_references
from warpsmith.generator.first_use.filter2d import filter2d_reference
from warpsmith.generator.first_use.reference import Reference
from warpsmith.generator.problem import Problem


def reference_of(problem: Problem, threads: int) -> Reference | None:
    """Reference kernels for a problem, in blocks of `threads` threads; None for an operation that has none."""
    match problem:
        case Filter2d():
            return filter2d_reference(problem, threads)
        case Conv2d():
            return conv2d_reference(problem, threads)
        case Fft():
            return fft_reference(problem, threads)
        case Cgemm():
            return cgemm_reference(problem, threads)
        case Filter1d() if not problem.pass_.is_gradient:
            return filter1d_reference(problem, threads)
    return None


def references_of(problem: Problem, threads: int) -> tuple[Reference, ...]:
    """Reference kernels for each result of a problem; none for an operation that has none."""
    if isinstance(problem, Filter1d) and problem.pass_.is_gradient:
        return filter1d_gradient_references(problem, threads)
    found = reference_of(problem, threads)
    return () if found is None else (found,)
