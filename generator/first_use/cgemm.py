"""Reference kernels of `cgemm`."""

from __future__ import annotations

from warpsmith.generator.cgemm.problem import Cgemm, Op
from warpsmith.generator.first_use.reference import Reference, Scale, packed, reference_program
from warpsmith.generator.problem import Accuracy, DType


def cgemm_reference(problem: Cgemm, threads: int) -> Reference:
    """Reference whose sums are a row times a column, for all ops."""
    integers = {
        "m": problem.m,
        "n": problem.n,
        "k": problem.k,
        "a_transposes": int(problem.a.transposes),
        "a_conjugates": int(problem.a is Op.C),
        "b_transposes": int(problem.b.transposes),
        "b_conjugates": int(problem.b is Op.C),
    }
    is_normwise = problem.accuracy is Accuracy.NORMWISE
    return Reference(
        program=reference_program("cgemm", threads, integers, {}, DType.FLOAT32, DType.FLOAT32, parts=2),
        values=packed(integers, {}),
        inputs=("a", "b", "b"),
        terms=problem.k,
        term_cost=4,
        scale=Scale.NORM if is_normwise else Scale.TERMS,
        groups=problem.batch if is_normwise else 1,
    )
