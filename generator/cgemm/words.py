"""Operations on the operands of `cgemm`: layout in memory, and conjugation."""

from __future__ import annotations

import enum


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
