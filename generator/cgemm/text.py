"""A cgemm problem as text for CUDA: what its templates are given as `p`, and how their kernels are called."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm.problem import Cgemm
from warpsmith.generator.cgemm.words import Op
from warpsmith.generator.problem import Problem
from warpsmith.generator.program import Argument, Pointer


@dataclasses.dataclass(frozen=True, slots=True)
class CgemmText:
    """Sizes in elements."""

    key: str
    batch: int
    m: int
    n: int
    k: int
    a_transposed: bool
    """Whether the rows of a in memory are of k."""
    b_transposed: bool
    """Whether the rows of b in memory are of n."""
    a_sign: str
    """Of the imaginary part of op(a) against that of a in memory: `` or `-`."""
    b_sign: str

    @classmethod
    def of(cls, problem: Cgemm) -> CgemmText:
        return cls(
            key=problem.key(),
            batch=problem.batch,
            m=problem.m,
            n=problem.n,
            k=problem.k,
            a_transposed=problem.a.transposes,
            b_transposed=problem.b.transposes,
            a_sign=_sign(problem.a),
            b_sign=_sign(problem.b),
        )


def _sign(op: Op) -> str:
    return "-" if op is Op.C else ""


def require_cgemm(problem: Problem) -> Cgemm:
    """`problem`, known to be a Cgemm. Raises TypeError where it is not."""
    if not isinstance(problem, Cgemm):
        raise TypeError(f"not a cgemm problem: {problem.key()}")
    return problem


def cgemm_arguments(problem: Cgemm) -> tuple[Argument, ...]:
    """The addresses of all operands, inputs first, as every template declares them."""
    return tuple(Pointer(operand.name) for operand in problem.operands)
