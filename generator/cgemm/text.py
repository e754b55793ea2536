"""CUDA text of a cgemm problem: the values that its templates take as `p`, and the arguments of their kernels."""

from __future__ import annotations

import dataclasses

from warpsmith.generator.cgemm.problem import Cgemm, Op
from warpsmith.generator.program import Argument, Pointer


@dataclasses.dataclass(frozen=True, slots=True)
class CgemmText:
    """Template values of a problem, with sizes in elements."""

    key: str
    batch: int
    m: int
    n: int
    k: int
    a_transposed: bool
    """True if a is (k, m) in memory."""
    b_transposed: bool
    """True if b is (n, k) in memory."""
    a_sign: str
    """Sign of op(a)'s imaginary part relative to a in memory: `` or `-`."""
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


def cgemm_arguments(problem: Cgemm) -> tuple[Argument, ...]:
    """Addresses of all operands, inputs first, as every template declares them."""
    return tuple(Pointer(operand.name) for operand in problem.operands)
