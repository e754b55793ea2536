"""Batched complex matrix products as a problem: sizes, operand layouts, operation counts."""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Any, ClassVar

from warpsmith.errors import BadArgument
from warpsmith.generator.canonical import count
from warpsmith.generator.distances import RULE_CHANGED, SIDE_CHANGED, octaves
from warpsmith.generator.problem import Accuracy, DType, Operand, Problem, Role, member


class Op(enum.StrEnum):
    """Operation on an operand's matrices before the product; BLAS has the same three letters."""

    N = "n"
    """None: matrices lie in memory as they are multiplied."""
    T = "t"
    """Transposition: matrices lie transposed in memory."""
    C = "c"
    """Conjugate transposition: matrices lie transposed in memory, and their elements are conjugated."""

    @property
    def transposes(self) -> bool:
        """True if the rows in memory are the columns that are multiplied."""
        return self is not Op.N

    def shape(self, rows: int, columns: int) -> tuple[int, int]:
        """Shape in memory of matrices that are multiplied as `rows` by `columns`."""
        return (columns, rows) if self.transposes else (rows, columns)


MAX_SIZE = 2**30 - 1
"""Largest m, n or k. A row, plus what a block of threads reaches beyond it, stays below 2^31: kernels count in int
within a matrix."""
MAX_BATCH = 2**30 - 1
"""Largest batch. A grid has a block for each product, and the last block counts beyond the batch."""
MAX_ELEMENTS = 2**36
"""Most elements of an operand: half a terabyte. One thread per element makes no more blocks than a grid may have."""

ACCURACIES = (Accuracy.ELEMENTWISE, Accuracy.ROWWISE, Accuracy.NORMWISE)


@dataclasses.dataclass(frozen=True)
class Cgemm(Problem):
    """One complex matrix product for each index of a batch: c[i] = op(a[i]) @ op(b[i]).

    op(a[i]) is m x k and op(b[i]) is k x n. Shapes, all complex64, row-major and dense: a (batch, m, k) if its op is
    `n`, else (batch, k, m); b (batch, k, n) if its op is `n`, else (batch, n, k); c (batch, m, n). A plan takes (a, b).

    Args:
        batch: number of products.
        m: rows of a result.
        n: columns of a result.
        k: terms of each sum.
        a: operation on the matrices of a: `n` none, `t` transposed, `c` transposed and conjugated.
        b: operation on the matrices of b, likewise.
        accuracy: quantity that the error bound of 1e-6 is relative to. `elementwise`, the default, is each result's own
            sum of |terms| = |a| |b|, the same for its real and imaginary part, which share these terms. `normwise` is
            twice the root mean square of the real numbers of the whole matrix c[i], or that sum if it is larger. It
            admits numbers that are split relative to the largest number of a tile: those within 2^-16 of it keep
            float32's last bits, smaller ones fewer. `rowwise` is the same for each row of c[i]: rows of op(a[i]) may
            differ in size by any factor.

    Raises:
        BadArgument: a size below 1 or from 2^30 on, a matrix of 2^31 elements or more, or an unknown op or accuracy.

    A number that is not finite in a row of op(a) or a column of op(b) makes results of that row or column not finite,
    and no others. Except with `elementwise`, an infinity may give NaNs where other libraries give infinities, and tiles
    whose numbers are all below 2^-112 lose digits.

    Source: the products of a convolution by Fourier transforms, one for each frequency: Mathieu et al. 2014, "Fast
    Training of Convolutional Networks through FFTs", section 2.
    """

    operation: ClassVar[str] = "cgemm"
    error_unit: ClassVar[str] = "of what `accuracy` names"

    batch: int
    m: int
    n: int
    k: int
    a: Op = Op.N
    b: Op = Op.N
    accuracy: Accuracy = Accuracy.ELEMENTWISE

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # the documented way to canonicalise a frozen dataclass
        set_field(self, "batch", count(self.batch, "batch", MAX_BATCH))
        for name in ("m", "n", "k"):
            set_field(self, name, count(getattr(self, name), name, MAX_SIZE))
        for name in ("a", "b"):
            set_field(self, name, member(Op, getattr(self, name), f"op of {name}"))
        set_field(self, "accuracy", member(Accuracy, self.accuracy, "accuracy", ACCURACIES))
        for operand in self.operands:
            if operand.size // self.batch >= 2**31:
                raise BadArgument(f"a matrix of {operand.name} has 2^31 elements or more")
            if operand.size > MAX_ELEMENTS:
                raise BadArgument(f"{operand.name} has more than 2^36 elements; split the batch")

    @functools.cached_property
    def operands(self) -> tuple[Operand, ...]:
        a, b = self.a.shape(self.m, self.k), self.b.shape(self.k, self.n)
        return (
            Operand("a", Role.INPUT, (self.batch, *a), DType.COMPLEX64),
            Operand("b", Role.INPUT, (self.batch, *b), DType.COMPLEX64),
            Operand("c", Role.OUTPUT, (self.batch, self.m, self.n), DType.COMPLEX64),
        )

    @property
    def multiply_adds(self) -> int:
        """Real multiply-adds: 4 m n k per product."""
        return 4 * self.batch * self.m * self.n * self.k

    @property
    def flops(self) -> int:
        """Floating-point operations: 8 m n k per product, since a complex multiply-add is four real ones."""
        return 2 * self.multiply_adds

    def distance(self, other: Problem) -> float | None:
        """Octaves of batch, m, n and k; other ops count as fixed numbers of octaves."""
        if not isinstance(other, Cgemm):
            return None
        extents = ((self.batch, other.batch), (self.m, other.m), (self.n, other.n), (self.k, other.k))
        size = sum(octaves(here, there) for here, there in extents)
        pairs = ((self.a, other.a), (self.b, other.b))
        transposed = sum(here.transposes != there.transposes for here, there in pairs)
        conjugated = sum(here != there and here.transposes == there.transposes for here, there in pairs)
        return size + RULE_CHANGED * transposed + SIDE_CHANGED * (conjugated + (self.accuracy != other.accuracy))

    def is_resized(self, other: Problem) -> bool:
        """True if the problems differ only in batch, m, n, k and accuracy.

        A winner under another accuracy is right wherever its family solves the problem.
        """
        return isinstance(other, Cgemm) and (self.a, self.b) == (other.a, other.b)

    def spec(self) -> dict[str, Any]:
        return {
            **{field.name: getattr(self, field.name) for field in dataclasses.fields(self)},
            "a": str(self.a),
            "b": str(self.b),
            "accuracy": str(self.accuracy),
        }

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Cgemm:
        return cls(**spec)

    def key(self) -> str:
        parts = {
            "batch": self.batch,
            "m": self.m,
            "n": self.n,
            "k": self.k,
            # Other fields only if they differ from the default, so that a key says what is special about its problem.
            "a": None if self.a is Op.N else self.a,
            "b": None if self.b is Op.N else self.b,
            "accuracy": None if self.accuracy is Accuracy.ELEMENTWISE else self.accuracy,
        }
        return " ".join([self.operation, *(f"{name}={value}" for name, value in parts.items() if value is not None)])
